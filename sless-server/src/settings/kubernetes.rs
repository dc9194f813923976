//! What is special to a cluster.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::Duration};

use sless_core::{Namespace, Runtime, RuntimeVersions};

use super::{
    AuthKind, BackendKind, Role, Secret, parse,
    reader::{Noted, Reader},
};

/// What is special to a cluster.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KubernetesSettings {
    /// The kubeconfig; the service account of the pod where absent.
    pub kubeconfig: Option<PathBuf>,
    /// Its context; the current one where absent.
    pub context: Option<String>,
    /// The namespace of the leases; that of the pod, or the default one, where absent.
    pub system_namespace: Option<Namespace>,
    /// What the names of all namespaces begin with that are looked after; all where absent.
    pub namespace_prefix: Option<String>,
    /// The registry of images.
    pub registry: RegistrySettings,
    /// An Ingress for each function: where no address of this server is given.
    pub ingress: Option<IngressSettings>,
    /// Namespaces that may call functions, beside that of the server.
    pub caller_namespaces: Vec<String>,
    /// Addresses that may call functions.
    pub caller_cidrs: Vec<String>,
    /// How long a function is without calls until it sleeps; never where absent.
    pub idle: Option<Duration>,
    /// A file with everything else.
    pub file: Option<PathBuf>,
    /// How long a leading process may be silent until another one takes over.
    pub lease_ttl: Duration,
    /// Where the runtimes' images are, and their tags.
    pub runtimes: RuntimeVersions,
}

/// The registry of images.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegistrySettings {
    /// Its host, with or without a path.
    pub host: String,
    /// What nodes call it.
    pub pull_host: Option<String>,
    /// A name and a password, or a token in its place.
    pub login: Option<(String, Secret)>,
    /// Whether it speaks plain HTTP.
    pub plain_http: bool,
}

/// An Ingress for each function.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IngressSettings {
    /// The host name.
    pub host: String,
    /// The class.
    pub class: Option<String>,
    /// The Secret with the certificate.
    pub tls_secret: Option<String>,
}

impl IngressSettings {
    /// The address that users see.
    pub(super) fn url(&self) -> String {
        let scheme = if self.tls_secret.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.host)
    }
}

/// What was read before, and decides what is needed here.
pub(super) struct Given<'a> {
    pub(super) backend: &'a Result<BackendKind, Noted>,
    pub(super) roles: &'a Result<Vec<Role>, Noted>,
    pub(super) auth: &'a Result<AuthKind, Noted>,
}

/// The shortest lease: a renewal is a quarter of it, and Kubernetes counts whole seconds.
const LEASE_MIN: Duration = Duration::from_secs(2);

/// The values are read before any is used, so that every problem is noted.
pub(super) fn read(
    reader: &mut Reader<'_>,
    given: &Given<'_>,
) -> Result<Option<KubernetesSettings>, Noted> {
    let kubeconfig = reader.optional("KUBECONFIG", parse::path);
    let context = reader.optional("SLESS_KUBE_CONTEXT", parse::text);
    let system_namespace = reader.optional("SLESS_SYSTEM_NAMESPACE", namespace);
    let namespace_prefix = reader.optional("SLESS_NAMESPACE_PREFIX", prefix);
    let host = reader.optional("REGISTRY_HOST", registry);
    let username = reader.optional("REGISTRY_USERNAME", parse::text);
    let password = reader.optional("REGISTRY_PASSWORD", parse::text);
    let plain_http = reader.value("REGISTRY_PLAIN_HTTP", parse::boolean);
    let pull_host = reader.optional("REGISTRY_PULL_HOST", registry);
    let runtime_registry = reader.optional("SLESS_RUNTIME_REGISTRY", registry);
    let versions = reader.optional("SLESS_RUNTIME_VERSIONS", versions);
    let ingress = ingress(reader);
    let caller_namespaces = reader.value("SLESS_CALLER_NAMESPACES", namespaces);
    let caller_cidrs = reader.value("SLESS_CALLER_CIDRS", cidrs);
    let idle = reader.optional("SLESS_IDLE", parse::duration);
    let file = reader.optional("SLESS_KUBERNETES_FILE", parse::path);
    let lease_ttl = reader.value("SLESS_LEASE_TTL", lease_ttl);
    let asked = matches!(given.backend, Ok(BackendKind::Kubernetes));
    if !(asked && cfg!(feature = "kubernetes")) {
        return Ok(None);
    }
    let needs = needed(reader, given);
    let host = match host? {
        Some(host) => Ok(host),
        None => Err(reader.missing(
            "REGISTRY_HOST",
            "since SLESS_BACKEND is kubernetes: a registry such as registry.example.com/sless",
        )),
    };
    let login = match (username?, password?) {
        (Some(username), Some(password)) => Ok(Some((username, Secret(password)))),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(reader.missing("REGISTRY_PASSWORD", "since REGISTRY_USERNAME is given"))
        }
        (None, Some(_)) => {
            Err(reader.missing("REGISTRY_USERNAME", "since REGISTRY_PASSWORD is given"))
        }
    };
    needs?;
    let host = host?;
    Ok(Some(KubernetesSettings {
        kubeconfig: kubeconfig?,
        context: context?,
        system_namespace: system_namespace?,
        namespace_prefix: namespace_prefix?,
        runtimes: RuntimeVersions {
            registry: runtime_registry?.unwrap_or_else(|| host.clone()),
            versions: versions?.unwrap_or_default(),
        },
        registry: RegistrySettings {
            host,
            pull_host: pull_host?,
            login: login?,
            plain_http: plain_http?,
        },
        ingress: ingress?,
        caller_namespaces: caller_namespaces?,
        caller_cidrs: caller_cidrs?,
        idle: idle?,
        file: file?,
        lease_ttl: lease_ttl?,
    }))
}

/// What several processes have to share: the store of sources, and the secret of tokens.
fn needed(reader: &mut Reader<'_>, given: &Given<'_>) -> Result<(), Noted> {
    let (Ok(roles), Ok(auth)) = (given.roles, given.auth) else {
        return Ok(());
    };
    let has = |role| roles.contains(&role);
    let mut noted = Ok(());
    let apart = !has(Role::Api) || !has(Role::Operator);
    if apart && !reader.is_given("S3_BUCKET") {
        noted = Err(reader.missing(
            "S3_BUCKET",
            "since SLESS_BACKEND is kubernetes and SLESS_ROLES are not api and operator in one \
             process: what one stores, the other builds",
        ));
    }
    if has(Role::Api) && *auth == AuthKind::Hs256 && !reader.is_given("SLESS_HS256_KEY_FILE") {
        noted = Err(reader.missing(
            "SLESS_HS256_KEY_FILE",
            "since SLESS_BACKEND is kubernetes and SLESS_AUTH is hs256: all copies take the same \
             secret, such as a mounted one",
        ));
    }
    noted
}

fn ingress(reader: &mut Reader<'_>) -> Result<Option<IngressSettings>, Noted> {
    let host = reader.optional("INGRESS_HOST", host_name);
    let class = reader.optional("INGRESS_CLASS", parse::text);
    let tls_secret = reader.optional("INGRESS_TLS_SECRET", parse::text);
    let (host, class, tls_secret) = (host?, class?, tls_secret?);
    // Where this server has an address out there, functions are called through it.
    let host = host.filter(|_| !reader.is_given("EXTERNAL_URL"));
    Ok(host.map(|host| IngressSettings {
        host,
        class,
        tls_secret,
    }))
}

fn namespace(text: &str) -> Result<Namespace, String> {
    Namespace::new(text).map_err(|error| error.message().to_owned())
}

fn namespaces(text: &str) -> Result<Vec<String>, String> {
    let names = parse::list(text)?;
    names
        .iter()
        .try_for_each(|name| namespace(name).map(drop))?;
    Ok(names)
}

/// The beginning of a namespace's name, of which it may be the whole.
fn prefix(text: &str) -> Result<String, String> {
    match Namespace::new(text.trim_end_matches('-')) {
        Ok(_) if text.len() <= sless_core::NAME_MAX => Ok(text.to_owned()),
        _ => Err("expected the beginning of a namespace's name, such as team-a-".to_owned()),
    }
}

/// A registry with or without a path, as in the name of an image.
fn registry(text: &str) -> Result<String, String> {
    let expected = "expected a registry such as registry.example.com or \
                    registry.example.com:5000/sless, without http:// and without a / at its end";
    let (host, path) = text
        .split_once('/')
        .map_or((text, None), |(host, path)| (host, Some(path)));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let segment = |part: &str| !part.is_empty() && part.chars().all(plain);
    let is_host = (host == "localhost" || host.contains(['.', ':']))
        && host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || ".-:[]".contains(c))
        && !host.ends_with(':');
    if is_host && path.is_none_or(|path| path.split('/').all(segment)) {
        return Ok(text.to_owned());
    }
    Err(expected.to_owned())
}

fn host_name(text: &str) -> Result<String, String> {
    let label = |part: &str| Namespace::new(part).is_ok();
    if text.split('.').all(label) {
        return Ok(text.to_owned());
    }
    Err("expected a host name such as functions.example.com".to_owned())
}

fn cidrs(text: &str) -> Result<Vec<String>, String> {
    let blocks = parse::list(text)?;
    for block in &blocks {
        let right = block.split_once('/').is_some_and(|(address, bits)| {
            let most = match address.parse() {
                Ok(IpAddr::V4(_)) => 32,
                Ok(IpAddr::V6(_)) => 128,
                Err(_) => return false,
            };
            bits.parse::<u8>().is_ok_and(|bits| bits <= most)
        });
        if !right {
            return Err(format!(
                "`{block}` is no block of addresses; expected such as 10.0.0.0/8 or 10.1.2.3/32"
            ));
        }
    }
    Ok(blocks)
}

fn versions(text: &str) -> Result<BTreeMap<Runtime, String>, String> {
    let mut versions = BTreeMap::new();
    for item in parse::list(text)? {
        let expected = "expected a runtime and a tag, such as python3.11=v0.2.0";
        let (runtime, tag) = item.split_once('=').ok_or(expected)?;
        let runtime: Runtime = runtime
            .trim()
            .parse()
            .map_err(|error: sless_core::Error| error.message().to_owned())?;
        versions.insert(runtime, tag.trim().to_owned());
    }
    let all = RuntimeVersions {
        versions,
        ..RuntimeVersions::default()
    };
    all.validate().map_err(|error| error.message().to_owned())?;
    Ok(all.versions)
}

fn lease_ttl(text: &str) -> Result<Duration, String> {
    match parse::duration(text)? {
        ttl if ttl >= LEASE_MIN => Ok(ttl),
        _ => Err("expected a duration of at least 2s".to_owned()),
    }
}
