//! Making and changing functions.

use sless_api::{CreateFunction, Env, Field, Function, PatchFunction, client::ClientError};
use sless_core::Digest;
use tfplugin::{Operation, Value};

use super::{FIELDS, env, read, source, wait};
use crate::{
    api::{self, Failed},
    session::Session,
};

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number(value: &Value) -> Option<u32> {
    value.as_i64().and_then(|number| number.try_into().ok())
}

/// What is asked of the server. What is not known is left out.
pub(super) fn request(wanted: &Value, env: &Env) -> CreateFunction {
    CreateFunction {
        name: text(wanted.at("name")).unwrap_or_default(),
        runtime: text(wanted.at("runtime"))
            .unwrap_or_else(|| sless_core::Runtime::Python311.to_string()),
        entrypoint: text(wanted.at("entrypoint")),
        env: Some(env.clone()),
        replicas: number(wanted.at("replicas")),
        timeout_seconds: number(wanted.at("timeout")),
        memory: text(wanted.at("memory")),
        cpu: text(wanted.at("cpu")),
        concurrency: number(wanted.at("concurrency")),
        max_replicas: number(wanted.at("max_replicas")),
        idle_seconds: number(wanted.at("idle_seconds")),
    }
}

/// The same as a change: what is not given goes back to the server's default.
fn patch(wanted: &Value, env: &Env) -> PatchFunction {
    fn field<T>(value: Option<T>) -> Field<T> {
        value.map_or(Field::Null, Field::Value)
    }
    let request = request(wanted, env);
    PatchFunction {
        runtime: Some(request.runtime),
        entrypoint: field(request.entrypoint),
        env: field(request.env),
        replicas: field(request.replicas),
        timeout_seconds: field(request.timeout_seconds),
        memory: field(request.memory),
        cpu: field(request.cpu),
        concurrency: field(request.concurrency),
        max_replicas: field(request.max_replicas),
        idle_seconds: field(request.idle_seconds),
    }
}

/// Whether a function that is there is what a lost answer was about.
fn is_ours(request: &CreateFunction, found: &Function) -> bool {
    found.code_sha256.is_none()
        && found.runtime == request.runtime
        && request
            .entrypoint
            .as_ref()
            .is_none_or(|entrypoint| *entrypoint == found.entrypoint)
        && request.env.as_ref().is_none_or(|env| *env == found.env)
        && request.replicas == found.replicas
}

/// The code, which is what was planned. `None` where it is not; that is told then.
async fn code(
    operation: &Operation,
    planned: &Value,
    config: &Value,
) -> Option<sless_core::source::SourceTree> {
    let source::Given::Here(place) = source::given(config) else {
        operation.error(
            "There is no code",
            "Neither `source_dir` nor `filename` is given.",
        );
        return None;
    };
    let attribute = place.attribute();
    let tree = match place.read().await {
        Ok(tree) => tree,
        Err(problem) => {
            operation.error_at(attribute, "The code cannot be used", problem);
            return None;
        }
    };
    let digest = tree.digest().hex();
    match planned.at("digest").as_str() {
        Some(wanted) if wanted != digest => {
            operation.error_at(
                attribute,
                "The code has changed since the plan",
                format!("Planned was {wanted}, and now it is {digest}. Make a new plan."),
            );
            None
        }
        _ => Some(tree),
    }
}

pub(super) async fn create(
    operation: &Operation,
    session: &Session,
    planned: Value,
    config: &Value,
) {
    let Some(tree) = code(operation, &planned, config).await else {
        return;
    };
    let request = request(&planned, &env::all(config));
    let name = request.name.clone();
    let (client, namespace) = (&session.client, session.namespace.as_str());
    let made = api::create(
        operation,
        || client.create_function(namespace, &request),
        || client.function(namespace, &name),
        |found| is_ours(&request, found),
    )
    .await;
    let function = match made {
        Ok(function) => function,
        Err(Failed::Client(error)) if error.is_conflict() => {
            return api::tell_taken(operation, "function", &name);
        }
        Err(failed) => {
            let summary = format!("The function {name} cannot be created");
            let doing = format!("creating the function {name}");
            return api::tell_failed(operation, session, &summary, &doing, &failed, FIELDS);
        }
    };
    // From here on it exists.
    env::remember(operation, config);
    let mut state = planned;
    let digest = tree.digest();
    state.put("digest", Value::Null);
    put_own(&mut state, &function);
    operation.save(&state);
    tracing::info!(function = name, "created");
    if let Some(mut function) = upload(operation, session, &mut state, &name, tree, digest).await {
        function.name = name;
        wait::until_ready(operation, session, &mut state, function).await;
    }
}

/// What the server says about a function that has just been made.
fn put_own(state: &mut Value, function: &Function) {
    state.put("id", function.name.as_str());
    state.put("namespace", function.namespace.as_str());
    read::put_seen(state, function);
}

pub(super) async fn update(
    operation: &Operation,
    session: &Session,
    prior: &Value,
    planned: Value,
    config: &Value,
) {
    let name = planned.at("name").as_str().unwrap_or_default().to_owned();
    let (client, namespace) = (&session.client, session.namespace.as_str());
    let mut state = planned;
    let has_failed = prior.at("phase").as_str() == Some("Failed");
    let is_new_code = state.at("digest") != prior.at("digest") || has_failed;
    let tree = match is_new_code {
        true => match code(operation, &state, config).await {
            Some(tree) => Some(tree),
            None => return,
        },
        false => None,
    };
    if is_other(prior, &state) {
        let wanted = patch(&state, &env::all(config));
        match api::again(operation, || {
            client.patch_function(namespace, &name, &wanted)
        })
        .await
        {
            Ok(_) => tracing::info!(function = name, "changed"),
            Err(failed) => {
                let summary = format!("The function {name} cannot be changed");
                let doing = format!("changing the function {name}");
                return api::tell_failed(operation, session, &summary, &doing, &failed, FIELDS);
            }
        }
        env::remember(operation, config);
    }
    let wanted = state.at("digest").clone();
    // Until it is uploaded, the old code is what there is.
    state.put("digest", prior.at("digest").clone());
    for seen in ["phase", "image", "last_built_at"] {
        state.put(seen, prior.at(seen).clone());
    }
    operation.save(&state);
    let function = match tree {
        Some(tree) => {
            let digest = tree.digest();
            upload(operation, session, &mut state, &name, tree, digest).await
        }
        None => {
            state.put("digest", wanted);
            let found = api::again(operation, || client.function(namespace, &name)).await;
            found
                .inspect_err(|failed| {
                    let summary = format!("The function {name} cannot be read");
                    api::tell_failed(
                        operation,
                        session,
                        &summary,
                        "looking at it",
                        failed,
                        FIELDS,
                    );
                })
                .ok()
        }
    };
    if let Some(function) = function {
        wait::until_ready(operation, session, &mut state, function).await;
    }
}

/// Whether a setting that the server has changes.
fn is_other(prior: &Value, planned: &Value) -> bool {
    let settings = FIELDS.iter().map(|(_, attribute)| *attribute);
    let others = ["env_sensitive", "env_wo_version"];
    settings
        .chain(others)
        .any(|attribute| prior.at(attribute) != planned.at(attribute))
}

/// Uploads the code, unless the server has it already, and answers the function that has it.
async fn upload(
    operation: &Operation,
    session: &Session,
    state: &mut Value,
    name: &str,
    tree: sless_core::source::SourceTree,
    digest: Digest,
) -> Option<Function> {
    let place = ["source_dir", "filename"]
        .into_iter()
        .find(|name| !state.at(name).is_null());
    let place = place.unwrap_or("source_dir");
    let zip = match source::zip(tree).await {
        Ok(zip) => zip,
        Err(problem) => {
            operation.error_at(place, "The code cannot be packed", problem);
            return None;
        }
    };
    match send(operation, session, name, &zip, &digest.hex()).await {
        Ok(function) => {
            state.put("digest", digest.hex());
            operation.save(state);
            tracing::info!(function = name, digest = digest.hex(), "uploaded");
            Some(function)
        }
        Err(Failed::Client(ClientError::Api(said))) if said.status == 400 => {
            // Refused by the validator, or no zip that the server takes: its words say which.
            operation.error_at(
                place,
                format!("The code of {name} is refused"),
                said.message,
            );
            None
        }
        Err(failed) => {
            let summary = format!("The code of {name} cannot be uploaded");
            let doing = format!("uploading the code of {name}");
            api::tell_failed(operation, session, &summary, &doing, &failed, FIELDS);
            None
        }
    }
}

async fn send(
    operation: &Operation,
    session: &Session,
    name: &str,
    zip: &tempfile::NamedTempFile,
    digest: &str,
) -> Result<Function, Failed> {
    let (client, namespace) = (&session.client, session.namespace.as_str());
    let mut patience = api::Patience::new();
    loop {
        let content = source::content(zip).await;
        let content = content.map_err(|problem| Failed::Client(ClientError::Invalid(problem)))?;
        match operation
            .run(client.upload(namespace, name, content))
            .await?
        {
            Ok(_) => return api::again(operation, || client.function(namespace, name)).await,
            Err(error) if error.is_conflict() || patience.forgives(&error) => {
                patience.pause(operation).await?;
            }
            Err(error) => return Err(Failed::Client(error)),
        }
        // A lost answer does not tell whether it arrived.
        let function = api::again(operation, || client.function(namespace, name)).await?;
        if function.code_sha256.as_deref() == Some(digest) {
            return Ok(function);
        }
        patience.is_there();
    }
}
