//! A function as the server sees it.

use std::collections::BTreeMap;

use sless_api::Function;
use tfplugin::{Operation, Value};

use super::{FIELDS, env};
use crate::{
    api::{self, Failed},
    session::Session,
};

/// Puts what the server says into a state.
pub(super) fn put(operation: &Operation, state: &mut Value, function: &Function) {
    state.put("id", function.name.as_str());
    state.put("name", function.name.as_str());
    state.put("namespace", function.namespace.as_str());
    state.put("runtime", function.runtime.as_str());
    state.put("entrypoint", function.entrypoint.as_str());
    state.put("replicas", function.replicas);
    state.put("timeout", function.timeout_seconds);
    state.put("memory", function.memory.clone());
    state.put("cpu", function.cpu.clone());
    state.put("concurrency", function.concurrency);
    state.put("max_replicas", function.max_replicas);
    state.put("idle_seconds", function.idle_seconds);
    state.put("digest", function.code_sha256.clone());
    env::sort(operation, &function.env, state);
    put_seen(state, function);
}

/// Puts only what nobody but the server decides.
pub(super) fn put_seen(state: &mut Value, function: &Function) {
    state.put("phase", format!("{:?}", function.phase));
    // What a plan promised stays; another address is seen by the next look.
    if state.at("url").as_str().is_none() {
        state.put("url", function.url.as_str());
    }
    state.put("image", function.image.clone());
    state.put(
        "last_built_at",
        function.last_built_at.map(|time| time.to_string()),
    );
}

pub(super) async fn read(operation: &Operation, session: &Session, mut state: Value) {
    let name = state.at("name").as_str().unwrap_or_default().to_owned();
    let find = || session.client.function(&session.namespace, &name);
    match api::again(operation, find).await {
        Ok(function) => {
            state.put("url", Value::Null);
            put(operation, &mut state, &function);
            operation.save(&state);
        }
        Err(Failed::Client(error)) if error.is_not_found() => operation.save(&Value::Null),
        Err(failed) => {
            let summary = format!("The function {name} cannot be read");
            api::tell_failed(
                operation,
                session,
                &summary,
                "reading a function",
                &failed,
                FIELDS,
            );
        }
    }
}

/// Takes over a function: `NAME`, `NAMESPACE/NAME`, and behind a `?` the names of its secrets, as in
/// `hello?env_sensitive=TOKEN,KEY&env_wo=PASSWORD&env_wo_version=1`.
pub(super) async fn import(operation: &Operation, session: &Session, id: &str) {
    let refused = |problem: String| operation.error(format!("`{id}` cannot be imported"), problem);
    let (named, secrets) = id.split_once('?').unwrap_or((id, ""));
    let name = match api::import_name(session, named) {
        Ok(name) => name,
        Err(problem) => return refused(problem),
    };
    let empty = || Value::Map(BTreeMap::new());
    let mut state = Value::from_iter([
        ("name", Value::from(name)),
        ("source_dir", "".into()),
        ("filename", "".into()),
        ("code_hash", "".into()),
        ("build_timeout_sec", 0.into()),
        ("env", empty()),
        ("env_sensitive", empty()),
        (
            "timeouts",
            Value::from_iter(["create", "update", "delete"].map(|action| (action, Value::Null))),
        ),
    ]);
    for group in secrets.split('&').filter(|group| !group.is_empty()) {
        match group.split_once('=') {
            Some(("env_sensitive", names)) => {
                let names = names.split(',').map(|name| (name, Value::Null));
                state.put("env_sensitive", names.collect::<Value>());
            }
            Some(("env_wo", names)) => {
                env::remember_names(operation, &names.split(',').collect::<Vec<_>>());
            }
            Some(("env_wo_version", version)) if version.parse::<i64>().is_ok() => {
                state.put("env_wo_version", version.parse::<i64>().ok());
            }
            _ => {
                return refused(format!(
                    "Expected NAME, or NAME?env_sensitive=A,B&env_wo=C&env_wo_version=1; `{group}` \
                     is none of these."
                ));
            }
        }
    }
    let find = || session.client.function(&session.namespace, name);
    match api::again(operation, find).await {
        Ok(function) => {
            put(operation, &mut state, &function);
            operation.save(&state);
        }
        Err(Failed::Client(error)) if error.is_not_found() => {
            refused(format!(
                "There is no function `{name}` in the namespace {}.",
                session.namespace
            ));
        }
        Err(failed) => {
            let summary = format!("The function {name} cannot be read");
            api::tell_failed(
                operation,
                session,
                &summary,
                "importing a function",
                &failed,
                FIELDS,
            );
        }
    }
}
