//! The services that settings name: stores, brokers, databases, models.

use std::{path::PathBuf, time::Duration};

use super::{
    Secret, parse,
    reader::{Noted, Reader},
};

/// The services in the place of what the base has; `None` where no setting names one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Services {
    /// The store of sources and contexts.
    pub s3: Option<S3Settings>,
    /// The broker of event triggers: an address with user and password.
    pub amqp_url: Option<Secret>,
    /// The database of the invocation log: an address with user and password.
    pub database_url: Option<Secret>,
    /// The model that reviews uploads.
    pub llm: Option<LlmSettings>,
}

/// An S3 store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct S3Settings {
    /// Its address; Amazon's where absent.
    pub endpoint: Option<String>,
    /// The bucket.
    pub bucket: String,
    /// The access key and the secret key; the SDK's chain is asked where absent.
    pub keys: Option<(String, Secret)>,
    /// The region.
    pub region: Option<String>,
    /// Whether the bucket is made where it is not there.
    pub create_bucket: bool,
}

/// A model behind an OpenAI-compatible endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LlmSettings {
    /// Its address.
    pub endpoint: String,
    /// Its name, where the server has several.
    pub model: Option<String>,
    /// Which answers have to carry the canary.
    pub canary: Canary,
    /// Its key.
    pub api_key: Option<Secret>,
    /// How long its answer may take.
    pub timeout: Duration,
    /// The prompt in place of the built-in one.
    pub prompt_file: Option<PathBuf>,
}

/// Which answers "safe" of a model have to carry the random word that it alone was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Canary {
    /// Those about code that spells out an answer itself.
    WhereAddressed,
    /// All.
    Always,
}

/// The values are read before any is used, so that every problem is noted.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Services, Noted> {
    let s3 = s3(reader);
    let amqp_url = secret(reader, "RABBITMQ_URL");
    let database_url = secret(reader, "DATABASE_URL");
    let llm = llm(reader);
    Ok(Services {
        s3: s3?,
        amqp_url: amqp_url?,
        database_url: database_url?,
        llm: llm?,
    })
}

fn secret(reader: &mut Reader<'_>, name: &'static str) -> Result<Option<Secret>, Noted> {
    Ok(reader.optional(name, parse::text)?.map(Secret))
}

fn s3(reader: &mut Reader<'_>) -> Result<Option<S3Settings>, Noted> {
    let endpoint = reader.optional("S3_ENDPOINT", parse::url);
    let bucket = reader.optional("S3_BUCKET", parse::text);
    let access_key = reader.optional("S3_ACCESS_KEY", parse::text);
    let secret_key = secret(reader, "S3_SECRET_KEY");
    let region = reader.optional("S3_REGION", parse::text);
    let create_bucket = reader.value("S3_CREATE_BUCKET", parse::boolean);
    let (endpoint, bucket, region) = (endpoint?, bucket?, region?);
    let keys = match (access_key?, secret_key?) {
        (Some(access), Some(secret)) => Some((access, secret)),
        (None, None) => None,
        (Some(_), None) => {
            return Err(reader.missing("S3_SECRET_KEY", "since S3_ACCESS_KEY is given"));
        }
        (None, Some(_)) => {
            return Err(reader.missing("S3_ACCESS_KEY", "since S3_SECRET_KEY is given"));
        }
    };
    if !cfg!(feature = "s3") {
        // Told elsewhere, with the feature to turn on; nothing else is to be said of it.
        return Ok(None);
    }
    match bucket {
        Some(bucket) => Ok(Some(S3Settings {
            endpoint,
            bucket,
            keys,
            region,
            create_bucket: create_bucket?,
        })),
        None if endpoint.is_some() || keys.is_some() || region.is_some() => Err(reader.missing(
            "S3_BUCKET",
            "since other settings of the S3 store are given",
        )),
        None => Ok(None),
    }
}

fn llm(reader: &mut Reader<'_>) -> Result<Option<LlmSettings>, Noted> {
    let enabled = reader.value("LLM_ENABLED", parse::boolean);
    let endpoint = reader.optional("LLM_ENDPOINT", parse::url);
    let model = reader.optional("LLM_MODEL", parse::text);
    let canary = reader.value("LLM_CANARY", |text| {
        let words = [
            ("where-addressed", Canary::WhereAddressed),
            ("always", Canary::Always),
        ];
        parse::word(text, &words)
    });
    let api_key = secret(reader, "LLM_API_KEY");
    let timeout = reader.value("LLM_TIMEOUT", parse::duration);
    let prompt_file = reader.optional("LLM_PROMPT_FILE", parse::path);
    let (endpoint, api_key) = (endpoint?, api_key?);
    let (timeout, prompt_file) = (timeout?, prompt_file?);
    let (model, canary) = (model?, canary?);
    match (enabled?, endpoint) {
        (false, _) => Ok(None),
        (true, None) if !cfg!(feature = "llm") => Ok(None),
        (true, None) => Err(reader.missing("LLM_ENDPOINT", "since LLM_ENABLED is true")),
        (true, Some(endpoint)) => Ok(Some(LlmSettings {
            endpoint,
            model,
            canary,
            api_key,
            timeout,
            prompt_file,
        })),
    }
}
