//! The provider and its configuration.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use sless_api::client::{Client, ClientConfig, ClientError};
use tfplugin::{
    Attribute, DataSource, Diagnostics, Provider, Resource, Schema, Value, async_trait,
};

use crate::{
    api, data, function, job,
    session::{Connection, Session},
    token, trigger,
};

/// How long the platform underneath may take to answer.
const NUBES_TIMEOUT: Duration = Duration::from_secs(30);

/// Attributes, and the variables of the environment that stand in for them.
const VARIABLES: [(&str, &str); 3] = [
    ("endpoint", "SLESS_ENDPOINT"),
    ("token", "SLESS_API_TOKEN"),
    ("nubes_endpoint", "NUBES_ENDPOINT"),
];

/// The provider `sless`.
#[derive(Debug)]
pub struct Sless {
    connection: Connection,
    environment: Environment,
}

/// Values of the environment. Shows names only: one of them is a token.
struct Environment(BTreeMap<&'static str, String>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Sless {
    /// A provider that takes what its configuration leaves out from the environment.
    pub fn from_env() -> Self {
        Self::with_environment(|name| std::env::var(name).ok())
    }

    /// A provider that takes what its configuration leaves out from these variables.
    pub fn with_environment(read: impl Fn(&str) -> Option<String>) -> Self {
        let set = VARIABLES.iter().filter_map(|(_, variable)| {
            let value = read(variable).filter(|value| !value.is_empty())?;
            Some((*variable, value))
        });
        Self {
            connection: Connection::default(),
            environment: Environment(set.collect()),
        }
    }

    /// What an attribute says, or the variable that stands in for it.
    fn setting(&self, config: &Value, name: &str) -> Setting {
        match config.at(name) {
            Value::Unknown(_) => Setting::Unknown,
            Value::String(text) if !text.is_empty() => Setting::Given(text.clone()),
            _ => {
                let variable = VARIABLES.iter().find(|(attribute, _)| *attribute == name);
                let value = variable.and_then(|(_, variable)| self.environment.0.get(variable));
                value.cloned().map_or(Setting::Missing, Setting::Given)
            }
        }
    }

    /// What must be given. `Err` where it is not, or not yet; that is told then.
    fn required(&self, config: &Value, name: &str, found: &mut Diagnostics) -> Result<String, ()> {
        match self.setting(config, name) {
            Setting::Given(value) => Ok(value),
            Setting::Unknown => {
                self.connection.is_missing(format!(
                    "`{name}` of the provider comes from something that does not exist yet."
                ));
                Err(())
            }
            Setting::Missing => {
                let variable = VARIABLES.iter().find(|(attribute, _)| *attribute == name);
                let variable = variable.map(|(_, variable)| *variable).unwrap_or_default();
                found.error_at(
                    name,
                    format!("Missing `{name}`"),
                    format!("Set `{name}` of the provider, or {variable} in the environment."),
                );
                Err(())
            }
        }
    }
}

enum Setting {
    Given(String),
    Unknown,
    Missing,
}

/// What the provider is, for its documentation.
pub(crate) fn schema() -> Schema {
    let variable = |name: &str| {
        let found = VARIABLES.iter().find(|(attribute, _)| *attribute == name);
        found.map(|(_, variable)| *variable).unwrap_or_default()
    };
    let text = |name: &str, docs: &str| {
        Attribute::string(
            name,
            &format!(
                "{docs} `{}` in the environment stands in for it.",
                variable(name)
            ),
        )
        .optional()
    };
    Schema::new(
        "Functions, triggers and jobs on a sless server.\n\nThe provider makes the namespace that \
         belongs to the token, where it is not there, and never removes it.",
        vec![
            text(
                "endpoint",
                "The address of the server, such as `https://sless.example.com`.",
            ),
            text(
                "token",
                "The bearer token, a JWT. Its `sub` decides the namespace; it has to be valid for \
                 as long as an apply takes.",
            )
            .sensitive(),
            text(
                "nubes_endpoint",
                "An address of the platform underneath that is asked, once, whether it knows the \
                 token: 401 and 403 are errors, any other answer is fine.",
            ),
        ],
    )
}

#[async_trait]
impl Provider for Sless {
    fn schema(&self) -> Schema {
        schema()
    }

    fn resources(&self) -> Vec<(String, Arc<dyn Resource>)> {
        let connection = &self.connection;
        vec![
            (
                "sless_function".to_owned(),
                Arc::new(function::FunctionResource::new(connection.clone())),
            ),
            (
                "sless_trigger".to_owned(),
                Arc::new(trigger::TriggerResource::new(connection.clone())),
            ),
            (
                "sless_job".to_owned(),
                Arc::new(job::JobResource::new(connection.clone())),
            ),
        ]
    }

    fn data_sources(&self) -> Vec<(String, Arc<dyn DataSource>)> {
        let of = |what| data::Look::new(self.connection.clone(), what);
        data::What::ALL
            .iter()
            .map(|what| {
                (
                    what.type_name().to_owned(),
                    Arc::new(of(*what)) as Arc<dyn DataSource>,
                )
            })
            .collect()
    }

    async fn configure(&self, config: &Value, found: &mut Diagnostics) {
        let endpoint = self.required(config, "endpoint", found);
        let token = self.required(config, "token", found);
        let (Ok(endpoint), Ok(token)) = (endpoint, token) else {
            return;
        };
        let nubes = match self.setting(config, "nubes_endpoint") {
            Setting::Given(nubes) => Some(nubes),
            Setting::Missing => None,
            Setting::Unknown => {
                let what = "`nubes_endpoint` of the provider comes from something that does not exist yet.";
                return self.connection.is_missing(what.to_owned());
            }
        };
        let claims = match token::read(&token) {
            Ok(claims) => claims,
            Err(problem) => return found.error_at("token", "The token cannot be used", problem),
        };
        let mut settings = ClientConfig::new(endpoint).with_token(token.trim());
        settings.user_agent =
            concat!("terraform-provider-sless/", env!("CARGO_PKG_VERSION")).to_owned();
        let client = match Client::new(settings) {
            Ok(client) => client,
            Err(error) => {
                let text = api::text(&error);
                let at = if text.contains("token") {
                    "token"
                } else {
                    "endpoint"
                };
                return found.error_at(at, format!("`{at}` cannot be used"), text);
            }
        };
        let session = Session {
            client,
            namespace: claims.namespace.to_string(),
            expires: claims.expires,
        };
        if let Some(nubes) = nubes
            && let Err(problem) = ask_platform(&nubes, token.trim()).await
        {
            let summary = "The platform underneath does not take the token";
            return found.error_at("nubes_endpoint", summary, problem);
        }
        match session.client.ensure_namespace(&session.namespace).await {
            Ok(ensured) => {
                tracing::info!(namespace = ensured.namespace, status = ?ensured.status, "configured");
                self.connection.establish(session);
            }
            Err(error) => refused(&session, &error, found),
        }
    }
}

fn refused(session: &Session, error: &ClientError, found: &mut Diagnostics) {
    let namespace = &session.namespace;
    match error.api().map(|error| error.status) {
        Some(401 | 403) => found.error_at(
            "token",
            "The server does not take the token",
            api::describe(session, error),
        ),
        Some(_) => found.error(
            format!("The namespace {namespace} cannot be made"),
            api::describe(session, error),
        ),
        None => found.error_at(
            "endpoint",
            "The server cannot be reached",
            api::describe(session, error),
        ),
    }
}

/// Asks the platform underneath whether it knows the token.
async fn ask_platform(address: &str, token: &str) -> Result<(), String> {
    let failed = |error: reqwest::Error| {
        // Without the address, which may carry a secret.
        format!("It cannot be asked: {}.", api::chain(&error.without_url()))
    };
    let client = reqwest::Client::builder()
        .timeout(NUBES_TIMEOUT)
        // A redirect would carry the token to where its owner did not send it.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(failed)?;
    let answer = client
        .get(address)
        .bearer_auth(token)
        .send()
        .await
        .map_err(failed)?;
    match answer.status().as_u16() {
        status @ (401 | 403) => Err(format!("It answered with status {status}.")),
        status => {
            tracing::info!(status, "the platform underneath knows the token");
            Ok(())
        }
    }
}
