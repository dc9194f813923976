//! The settings of the server: from the environment and a file, checked as a whole at the start.
//!
//! One table ([`table`]) names every setting with its default and what it is for; the help text,
//! the reader and the check of this documentation all read that table. The file is TOML with the
//! same names; the environment wins. An empty value counts as not given.
//!
//! Everything that is wrong is told at once, each with its name, the value that was given (never a
//! secret's) and what was expected.

pub mod table;

mod console;
mod error;
mod features;
mod help;
mod kubernetes;
mod limits;
mod parse;
mod reader;
mod sandbox;
mod services;
mod source;
mod validation;

#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use console::ConsoleSettings;
pub use error::{Problem, SettingsError};
pub use features::{BACKENDS, BackendFeature};
pub use help::help;
pub use kubernetes::{IngressSettings, KubernetesSettings, RegistrySettings};
pub use limits::Limits;
pub use parse::{AuthKind, BackendKind, LogFormat, Role};
pub use sandbox::SandboxSettings;
pub use services::{Canary, LlmSettings, S3Settings, Services};
pub use source::{Origin, Sources};
pub use validation::ValidationSettings;

use reader::Reader;
use sless_local::ToolsConfig;

/// All settings, checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Where the server listens.
    pub listen: SocketAddr,
    /// Where the local backend keeps everything.
    pub data_dir: PathBuf,
    /// How functions of the local backend are kept apart.
    pub sandbox: SandboxSettings,
    /// What runs functions.
    pub backend: BackendKind,
    /// What this process does.
    pub roles: Vec<Role>,
    /// The address that users see, without a slash at the end.
    pub external_url: String,
    /// How tokens are checked.
    pub auth: AuthSettings,
    /// The web console.
    pub console: ConsoleSettings,
    /// What goes to the log, and how.
    pub log: LogSettings,
    /// How long calls under way may take to end once the server is told to stop.
    pub drain_timeout: Duration,
    /// The named limits.
    pub limits: Limits,
    /// The services in the place of what the base has.
    pub services: Services,
    /// What is special to a cluster, where functions run in one.
    pub kubernetes: Option<KubernetesSettings>,
    /// Who looks at uploads beside a model, and what becomes of verdicts.
    pub validation: ValidationSettings,
    /// Where interpreters are looked for, and what pip and npm are told: from the environment.
    pub tools: ToolsConfig,
    /// What is not wrong but deserves a look, as sentences.
    pub warnings: Vec<String>,
    shown: Vec<Shown>,
}

/// How tokens are checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthSettings {
    /// The mode.
    pub kind: AuthKind,
    /// Where the keys are, in mode `jwks`.
    pub jwks_url: Option<String>,
    /// Where the shared secret is, in mode `hs256`.
    pub hs256_key_file: PathBuf,
    /// Who opens every namespace.
    pub admin_subs: Vec<String>,
    /// The token with which the console calls the API, where they run apart.
    pub service_token: Option<Secret>,
}

/// What goes to the log, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogSettings {
    /// Which events, in the syntax of `tracing_subscriber`'s `EnvFilter`.
    pub filter: String,
    /// In which form.
    pub format: LogFormat,
    /// Where traces go, as OTLP over HTTP.
    pub otlp_endpoint: Option<String>,
}

/// A value that no log and no error shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The value, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

/// One setting as it is in effect, for `check-config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// Its value, or `…` for a secret; `None` where it has none.
    pub value: Option<String>,
    /// Where the value came from.
    pub origin: Origin,
}

impl Settings {
    /// Reads and checks all settings.
    ///
    /// # Errors
    /// [`SettingsError`] with everything that is wrong.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut reader = Reader::new(sources);
        match read(&mut reader) {
            Ok(settings) if reader.problems().is_empty() => Ok(settings),
            _ => Err(SettingsError::new(reader.into_problems())),
        }
    }

    /// Whether this process does this.
    pub fn has_role(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Every setting as it is in effect, in the order of the table.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }
}

/// The values are read before any is used, so that every problem is noted.
fn read(reader: &mut Reader<'_>) -> Result<Settings, reader::Noted> {
    let listen = reader.value("SLESS_LISTEN", parse::address);
    let data_dir = reader.optional("SLESS_DATA_DIR", parse::path);
    let sandbox = sandbox::read(reader);
    let backend = reader.value("SLESS_BACKEND", parse::backend);
    let data_dir = data_dir.and_then(|given| match given.or_else(source::default_data_dir) {
        Some(folder) => Ok(folder),
        // A pod has no user with a folder of data, and needs none.
        None if backend == Ok(BackendKind::Kubernetes) => Ok(std::env::temp_dir().join("sless")),
        None => Err(reader.missing(
            "SLESS_DATA_DIR",
            "since this system names no folder for data",
        )),
    });
    let roles = reader.value("SLESS_ROLES", parse::roles);
    let external_url = reader.optional("EXTERNAL_URL", parse::url);
    let kind = reader.value("SLESS_AUTH", parse::auth);
    let jwks_url = reader.optional("SLESS_JWKS_URL", parse::url);
    let key_file = reader.optional("SLESS_HS256_KEY_FILE", parse::path);
    let admin_subs = reader.value("SLESS_ADMIN_SUBS", parse::list);
    let service_token = reader.optional("SLESS_SERVICE_TOKEN", parse::text);
    let filter = reader.value("SLESS_LOG", parse::log_filter);
    let format = reader.value("SLESS_LOG_FORMAT", parse::log_format);
    let otlp_endpoint = reader.optional("SLESS_OTLP_ENDPOINT", parse::url);
    let drain_timeout = reader.value("SLESS_DRAIN_TIMEOUT", parse::duration);
    let limits = Limits::read(reader);
    let services = services::read(reader);
    let console = console::read(reader);
    let validation = validation::read(reader);
    let given = kubernetes::Given {
        backend: &backend,
        roles: &roles,
        auth: &kind,
    };
    let kubernetes = kubernetes::read(reader, &given);
    features::check(reader);
    if let (Ok(AuthKind::Jwks), Ok(None)) = (&kind, &jwks_url) {
        reader.missing("SLESS_JWKS_URL", "since SLESS_AUTH is jwks");
    }
    let mut warnings = reader.warnings();
    let shown = reader.shown();
    let (listen, data_dir, kubernetes) = (listen?, data_dir?, kubernetes?);
    let ingress = kubernetes.as_ref().and_then(|it| it.ingress.as_ref());
    if kubernetes.is_some() && ingress.is_none() && external_url == Ok(None) {
        let text = "EXTERNAL_URL is not set, nor is INGRESS_HOST: URLs of functions are shown as if this \
                    process answered them";
        warnings.push(text.to_owned());
    }
    let or_else = || ingress.map_or_else(|| format!("http://{listen}"), IngressSettings::url);
    Ok(Settings {
        listen,
        sandbox: sandbox?,
        backend: backend?,
        roles: roles?,
        external_url: external_url?.unwrap_or_else(or_else),
        auth: AuthSettings {
            kind: kind?,
            jwks_url: jwks_url?,
            hs256_key_file: key_file?.unwrap_or_else(|| data_dir.join("hs256.key")),
            admin_subs: admin_subs?,
            service_token: service_token?.map(Secret),
        },
        log: LogSettings {
            filter: filter?,
            format: format?,
            otlp_endpoint: otlp_endpoint?,
        },
        drain_timeout: drain_timeout?,
        limits: limits?,
        services: services?,
        console: console?,
        kubernetes,
        validation: validation?,
        tools: reader.tools(),
        warnings,
        shown,
        data_dir,
    })
}
