//! What a deploy changes of a function beside its code, and the way back.

use std::collections::BTreeMap;

use sless_api::{CreateFunction, Env, Field, Function, PatchFunction};
use sless_core::FunctionSpec;
use sless_source::Content;

use super::undo::Undo;
use crate::{failure::Result, session::Session};

/// What is to happen to the function.
#[derive(Debug)]
pub(super) enum Change {
    /// It is made.
    Create(CreateFunction),
    /// It is changed, where there is anything to change.
    Patch {
        name: String,
        patch: PatchFunction,
        back: PatchFunction,
    },
}

impl Change {
    pub(super) fn new(
        content: &Content,
        env: &BTreeMap<String, String>,
        there: Option<Function>,
    ) -> Self {
        let mut request = content.request.clone();
        let Some(there) = there else {
            if !env.is_empty() {
                request.env.get_or_insert_default().0.extend(env.clone());
            }
            return Self::Create(request);
        };
        let wanted = match (&request.env, env.is_empty()) {
            (Some(given), _) => Some(given.0.clone()),
            (None, false) => Some(there.env.0.clone()),
            (None, true) => None,
        };
        request.env = wanted.map(|mut wanted| {
            wanted.extend(env.clone());
            Env(wanted)
        });
        let all = content.triggers.is_some();
        let (patch, back) = patches(&request, &content.spec, &there, all);
        let name = request.name;
        Self::Patch { name, patch, back }
    }

    /// What is going to be done, in words.
    pub(super) fn lines(&self) -> Vec<String> {
        match self {
            Self::Create(request) => vec![format!("make the function {}", request.name)],
            Self::Patch { patch, .. } => {
                // The values of environment variables are nobody's business here.
                let fields = serde_json::to_value(patch).ok();
                let fields = fields.as_ref().and_then(serde_json::Value::as_object);
                let fields =
                    fields
                        .into_iter()
                        .flatten()
                        .map(|(field, value)| match field.as_str() {
                            "env" => "change env".to_owned(),
                            _ => format!("change {field} to {value}"),
                        });
                fields.collect()
            }
        }
    }

    /// Does it. What it did is in `undo`, even where no answer came.
    pub(super) async fn apply(&self, session: &Session, undo: &mut Undo) -> Result<Option<String>> {
        let Session { client, namespace } = session;
        match self {
            Self::Create(request) => {
                undo.will_create(&request.name);
                let created = client.create_function(namespace, request).await;
                if created.as_ref().is_err_and(|error| error.api().is_some()) {
                    undo.did_nothing();
                }
                created?;
                Ok(Some(format!(
                    "made the function {} in {namespace}",
                    request.name
                )))
            }
            Self::Patch { patch, .. } if *patch == PatchFunction::default() => Ok(None),
            Self::Patch { name, patch, back } => {
                undo.will_patch(name, back);
                let patched = client.patch_function(namespace, name, patch).await;
                if patched.as_ref().is_err_and(|error| error.api().is_some()) {
                    undo.did_nothing();
                }
                patched?;
                Ok(Some(format!(
                    "changed the function: {}",
                    self.lines().join(", ")
                )))
            }
        }
    }
}

/// The patch that makes what is there what is wanted, and the one that makes it what it was. Where
/// `all` is said, what was left out goes back to its default, except for what is often changed
/// elsewhere: environment and replicas.
fn patches(
    request: &CreateFunction,
    spec: &FunctionSpec,
    there: &Function,
    all: bool,
) -> (PatchFunction, PatchFunction) {
    let (mut patch, mut back) = (PatchFunction::default(), PatchFunction::default());
    if request.runtime != there.runtime {
        patch.runtime = Some(request.runtime.clone());
        back.runtime = Some(there.runtime.clone());
    }
    if all || request.entrypoint.is_some() {
        let wanted = spec.entrypoint.to_string();
        set(
            wanted,
            &there.entrypoint,
            &mut patch.entrypoint,
            &mut back.entrypoint,
        );
    }
    if all || request.timeout_seconds.is_some() {
        let field = (&mut patch.timeout_seconds, &mut back.timeout_seconds);
        set(
            spec.timeout_seconds,
            &there.timeout_seconds,
            field.0,
            field.1,
        );
    }
    if all || request.concurrency.is_some() {
        let field = (&mut patch.concurrency, &mut back.concurrency);
        set(spec.concurrency, &there.concurrency, field.0, field.1);
    }
    if all || request.memory.is_some() {
        let wanted = spec.memory.as_ref().map(|quantity| quantity.to_string());
        set_option(wanted, &there.memory, &mut patch.memory, &mut back.memory);
    }
    if all || request.cpu.is_some() {
        let wanted = spec.cpu.as_ref().map(|quantity| quantity.to_string());
        set_option(wanted, &there.cpu, &mut patch.cpu, &mut back.cpu);
    }
    if request.replicas.is_some() {
        set_option(
            request.replicas,
            &there.replicas,
            &mut patch.replicas,
            &mut back.replicas,
        );
    }
    if all || request.max_replicas.is_some() {
        let field = (&mut patch.max_replicas, &mut back.max_replicas);
        set_option(spec.max_replicas, &there.max_replicas, field.0, field.1);
    }
    if all || request.idle_seconds.is_some() {
        let field = (&mut patch.idle_seconds, &mut back.idle_seconds);
        set_option(spec.idle_seconds, &there.idle_seconds, field.0, field.1);
    }
    if let Some(env) = &request.env {
        set(env.clone(), &there.env, &mut patch.env, &mut back.env);
    }
    (patch, back)
}

fn set<T: PartialEq + Clone>(wanted: T, there: &T, patch: &mut Field<T>, back: &mut Field<T>) {
    if wanted != *there {
        *back = Field::Value(there.clone());
        *patch = Field::Value(wanted);
    }
}

fn set_option<T: PartialEq + Clone>(
    wanted: Option<T>,
    there: &Option<T>,
    patch: &mut Field<T>,
    back: &mut Field<T>,
) {
    let field = |value: Option<T>| value.map_or(Field::Null, Field::Value);
    if wanted != *there {
        *back = field(there.clone());
        *patch = field(wanted);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sless_core::source::SourceLimits;
    use sless_source::{Folder, Overrides};

    use super::*;

    fn content(manifest: Option<&str>, overrides: &Overrides) -> Content {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("handler.py"), "").unwrap();
        if let Some(manifest) = manifest {
            std::fs::write(folder.path().join("sless.toml"), manifest).unwrap();
        }
        let folder = Folder::open(folder.path()).unwrap();
        folder.read(&SourceLimits::default(), overrides).unwrap()
    }

    fn there() -> Function {
        serde_json::from_value(serde_json::json!({
            "name": "a", "namespace": "n", "runtime": "python3.11", "entrypoint": "app.main",
            "env": {"SECRET": "x"}, "replicas": 3, "timeout_seconds": 60, "memory": "64Mi",
            "cpu": null, "concurrency": 1, "max_replicas": 5, "phase": "Ready", "reason": null, "message": null,
            "code_sha256": null, "s3_key": null, "url": "u", "image": null, "last_built_at": null,
            "ready_replicas": 0, "created_at": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    fn patch(content: &Content, env: &[(&str, &str)]) -> (String, String) {
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        match Change::new(content, &env.collect(), Some(there())) {
            Change::Patch { patch, back, .. } => (
                serde_json::to_string(&patch).unwrap(),
                serde_json::to_string(&back).unwrap(),
            ),
            Change::Create(request) => panic!("{request:?}"),
        }
    }

    #[test]
    fn a_manifest_brings_back_defaults_but_not_of_what_is_changed_elsewhere() {
        let content = content(
            Some("name='a'\nruntime='python3.11'\n"),
            &Overrides::default(),
        );
        let (patch, back) = patch(&content, &[]);
        assert_eq!(
            patch,
            r#"{"entrypoint":"handler.handle","max_replicas":null,"memory":null}"#
        );
        assert_eq!(
            back,
            r#"{"entrypoint":"app.main","max_replicas":5,"memory":"64Mi"}"#
        );
    }

    #[test]
    fn without_a_manifest_only_what_is_given_changes() {
        let overrides = Overrides {
            name: Some("a".to_owned()),
            timeout_seconds: Some(5),
            idle_seconds: Some(0),
            ..Overrides::default()
        };
        let (patch, back) = patch(&content(None, &overrides), &[("B", "2")]);
        assert_eq!(
            patch,
            r#"{"env":{"B":"2","SECRET":"x"},"timeout_seconds":5,"idle_seconds":0}"#
        );
        assert_eq!(
            back,
            r#"{"env":{"SECRET":"x"},"timeout_seconds":60,"idle_seconds":null}"#
        );
    }

    #[test]
    fn the_same_is_no_change_and_env_of_a_manifest_is_all_there_is() {
        let manifest = "name='a'\nruntime='python3.11'\nmemory='64Mi'\nmax_replicas=5\n\
                        entrypoint='handler.handle'\n";
        let content = content(
            Some(&format!("{manifest}[env]\nA='1'\n")),
            &Overrides::default(),
        );
        let (patch, _) = patch(&content, &[("B", "2")]);
        assert!(patch.ends_with(r#""env":{"A":"1","B":"2"}}"#), "{patch}");
        assert!(!patch.contains("memory"), "{patch}");
    }

    #[test]
    fn no_line_shows_a_value_of_the_environment() {
        let content = content(None, &Overrides::default());
        let env = [("B".to_owned(), "hunter2".to_owned())]
            .into_iter()
            .collect();
        let change = Change::new(&content, &env, Some(there()));
        assert_eq!(change.lines(), ["change env"]);
    }
}
