//! From settings to the configuration of the cluster's backends.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use sless_core::Error;
use sless_k8s::K8sConfig;

use crate::settings::{KubernetesSettings, Role, Settings};

/// Where a pod finds the name of its own namespace.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What the file says, and over it what the settings say.
pub(super) fn of(settings: &Settings, given: &KubernetesSettings) -> Result<K8sConfig, Error> {
    let mut config = match &given.file {
        Some(file) => read(file)?,
        None => K8sConfig::default(),
    };
    config.kubeconfig.clone_from(&given.kubeconfig);
    config.context.clone_from(&given.context);
    if let Some(prefix) = &given.namespace_prefix {
        config.catalog.namespace_prefix.clone_from(prefix);
    }
    if let Some(namespace) = system_namespace(given) {
        config.lease.namespace = namespace;
    }
    let scheduler = &mut config.scheduler;
    if let Some(idle) = given.idle {
        scheduler.idle_ms = milliseconds(idle);
    }
    if !settings.has_role(Role::Operator) {
        // One question to a pod is enough, whoever asks it.
        (scheduler.idle_check_ms, scheduler.scale_check_ms) = (0, 0);
    }
    match &given.ingress {
        Some(ingress) => {
            let mut wanted = scheduler.ingress.take().unwrap_or_default();
            wanted.host.clone_from(&ingress.host);
            wanted.class = ingress.class.clone().or(wanted.class);
            wanted.tls_secret = ingress.tls_secret.clone().or(wanted.tls_secret);
            scheduler.ingress = Some(wanted);
        }
        // Functions are called through this server, or from within the cluster.
        None => scheduler.ingress = None,
    }
    let network = &mut scheduler.network;
    let names_callers =
        given.file.is_some() && network.callers != K8sConfig::default().scheduler.network.callers;
    if !names_callers {
        network.callers = vec![namespace_labels(&config.lease.namespace)];
    }
    let others = given.caller_namespaces.iter();
    network
        .callers
        .extend(others.map(|name| namespace_labels(name)));
    network
        .caller_cidrs
        .extend(given.caller_cidrs.iter().cloned());
    Ok(config)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The label that every namespace has of its name.
fn namespace_labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())])
}

fn system_namespace(given: &KubernetesSettings) -> Option<String> {
    if let Some(namespace) = &given.system_namespace {
        return Some(namespace.to_string());
    }
    if given.kubeconfig.is_some() {
        return None;
    }
    let own = fs::read_to_string(POD_NAMESPACE).ok()?;
    Some(own.trim().to_owned()).filter(|name| !name.is_empty())
}

fn read(file: &Path) -> Result<K8sConfig, Error> {
    let named = |why: String| {
        Error::invalid(format!(
            "SLESS_KUBERNETES_FILE is {}: {why}",
            file.display()
        ))
    };
    let text =
        fs::read_to_string(file).map_err(|error| named(format!("it cannot be read: {error}")))?;
    toml::from_str(&text).map_err(|error| {
        // The parser's own text shows the line, and this file may come to hold secrets.
        let line = error
            .span()
            .map(|span| text[..span.start].lines().count().max(1));
        let place = line
            .map(|line| format!("at line {line}: "))
            .unwrap_or_default();
        named(format!("{place}{}", error.message()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::ffi::OsString;

    use super::*;
    use crate::settings::Sources;

    fn config(given: &[(&str, &str)]) -> Result<K8sConfig, Error> {
        let always = [
            ("SLESS_BACKEND", "kubernetes"),
            ("REGISTRY_HOST", "registry.example.com"),
            ("SLESS_HS256_KEY_FILE", "/nowhere"),
        ];
        let environment = always.iter().chain(given);
        let environment =
            environment.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let settings = Settings::load(&Sources::new(environment, None)).unwrap();
        of(&settings, settings.kubernetes.as_ref().unwrap())
    }

    #[test]
    fn settings_win_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.toml");
        let text = "[namespaces.quota]\npods = '50'\n\n[scheduler]\nidle_ms = 5\nstart_ms = 7\n";
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let made = config(&[("SLESS_KUBERNETES_FILE", file), ("SLESS_IDLE", "2s")]).unwrap();
        assert_eq!(made.namespaces.quota["pods"], "50");
        assert_eq!(
            (made.scheduler.idle_ms, made.scheduler.start_ms),
            (2_000, 7)
        );
        let made = config(&[("SLESS_KUBERNETES_FILE", file)]).unwrap();
        assert_eq!(made.scheduler.idle_ms, 5);
    }

    #[test]
    fn a_file_that_is_wrong_is_named_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.toml");
        for (text, expected) in [
            (
                "[namespaces]\npod_securty = 'hunter2'\n",
                "unknown field `pod_securty`",
            ),
            ("x = hunter2", "at line 1"),
        ] {
            fs::write(&file, text).unwrap();
            let path = file.to_str().unwrap();
            let error = config(&[("SLESS_KUBERNETES_FILE", path)]).unwrap_err();
            let told = error.message();
            assert!(
                told.contains("SLESS_KUBERNETES_FILE is ") && told.contains(expected),
                "{told}"
            );
            assert!(!told.contains("hunter2"), "{told}");
        }
        let error = config(&[("SLESS_KUBERNETES_FILE", "/nowhere/x.toml")]).unwrap_err();
        assert!(error.message().contains("cannot be read"), "{error}");
    }

    #[test]
    fn an_ingress_is_made_only_where_this_server_has_no_address() {
        let host = ("INGRESS_HOST", "functions.example.com");
        let made = config(&[host, ("INGRESS_CLASS", "nginx")]).unwrap();
        let ingress = made.scheduler.ingress.unwrap();
        assert_eq!(
            (&*ingress.host, ingress.class.as_deref()),
            ("functions.example.com", Some("nginx"))
        );
        let made = config(&[host, ("EXTERNAL_URL", "https://sless.example.com")]).unwrap();
        assert_eq!(made.scheduler.ingress, None);
    }

    #[test]
    fn callers_are_the_own_namespace_and_those_that_are_named() {
        let made = config(&[
            ("SLESS_SYSTEM_NAMESPACE", "own"),
            ("SLESS_CALLER_NAMESPACES", "ingress-nginx"),
            ("SLESS_CALLER_CIDRS", "10.1.2.3/32"),
        ])
        .unwrap();
        let network = made.scheduler.network;
        assert_eq!(
            network.callers,
            ["own", "ingress-nginx"].map(namespace_labels)
        );
        assert_eq!(network.caller_cidrs, ["10.1.2.3/32"]);
        assert_eq!(made.lease.namespace, "own");
    }

    #[test]
    fn only_an_operator_looks_for_what_is_idle() {
        let made = config(&[("SLESS_ROLES", "api"), ("S3_BUCKET", "b")]);
        if cfg!(feature = "s3") {
            assert_eq!(made.unwrap().scheduler.idle_check_ms, 0);
        }
        assert!(config(&[]).unwrap().scheduler.idle_check_ms > 0);
    }
}
