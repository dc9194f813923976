//! What a Job does, whatever does it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sless_core::{BuildId, Uid};

use super::config::BuildsConfig;
use crate::{labels, names, registry::Reference, scheduler::failure::BUILD_CONTAINER};

/// Whose the objects of builds are. Not [`labels::MANAGER`]: what has that label is taken for a workload.
pub(super) const MANAGER: &str = "sless-builder";
/// The label with the short name of a build.
pub(super) const BUILD: &str = "sless.io/build";
/// The folder with the files that a Job gets along.
pub(super) const FILES: &str = "/workspace";
/// What the annotations with those files begin with.
const FILE: &str = "build.sless.io/";
/// The user and group of [`BuildKitMode::Rootless`](super::BuildKitMode), as the image has them.
pub(super) const ROOTLESS_USER: i64 = 1000;

/// What is to be made.
pub(super) struct Work {
    pub(super) id: BuildId,
    pub(super) dockerfile: String,
    /// The base image, as the pod calls it.
    pub(super) base: Reference,
    /// Where the image goes: a tag.
    pub(super) target: Reference,
    /// The function's repository, where layers are kept between builds.
    pub(super) cache: Option<Reference>,
    /// Registries that speak plain HTTP, as the pod calls them.
    pub(super) plain_http: BTreeSet<String>,
    /// Variables that pip and npm are to have.
    pub(super) variables: Vec<String>,
    /// The Secret with credentials, where there is one.
    pub(super) secret: Option<String>,
    /// How long it may take, in seconds.
    pub(super) seconds: u64,
}

/// How a tool does it.
pub(super) struct Plan {
    pub(super) image: String,
    pub(super) command: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) variables: BTreeMap<&'static str, String>,
    /// The files in [`FILES`].
    pub(super) files: BTreeMap<&'static str, String>,
    /// Folders with room of their own.
    pub(super) folders: Vec<&'static str>,
    /// Where the credentials are looked for.
    pub(super) credentials: &'static str,
    pub(super) container_security: Value,
    pub(super) pod_security: Value,
    /// `Some(false)` for a user namespace.
    pub(super) host_users: Option<bool>,
}

/// The labels of everything that is made for a build.
pub(super) fn labels_of(id: &BuildId) -> BTreeMap<String, String> {
    let mut all = labels::of_owner(&id.function.key(), &id.function.uid);
    all.insert(labels::MANAGED_BY.to_owned(), MANAGER.to_owned());
    all.insert(BUILD.to_owned(), id.short());
    all
}

/// Selects what is made for the builds of a function.
pub(super) fn of_function(uid: &Uid) -> String {
    format!("{}={MANAGER},{}={uid}", labels::MANAGED_BY, labels::UID)
}

/// The Job. It runs one pod, once; whatever becomes of that pod, there is no other.
pub(super) fn job(config: &BuildsConfig, work: &Work, plan: &Plan) -> Value {
    let labels = labels_of(&work.id);
    let annotations: BTreeMap<String, &String> = plan
        .files
        .iter()
        .map(|(name, text)| (format!("{FILE}{name}"), text))
        .collect();
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names::build(&work.id),
            "namespace": config.namespace,
            "labels": labels,
        },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            // Who looks after the build ends it before.
            "activeDeadlineSeconds": work.seconds + 60,
            "ttlSecondsAfterFinished": config.kept_seconds,
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": pod(config, work, plan),
            },
        },
    })
}

fn pod(config: &BuildsConfig, work: &Work, plan: &Plan) -> Value {
    let files: Vec<Value> = plan
        .files
        .keys()
        .map(|name| {
            let path = format!("metadata.annotations['{FILE}{name}']");
            json!({"path": name, "fieldRef": {"fieldPath": path}})
        })
        .collect();
    let mut volumes = vec![json!({"name": "files", "downwardAPI": {"items": files}})];
    let mut mounts = vec![json!({"name": "files", "mountPath": FILES, "readOnly": true})];
    for (at, folder) in plan.folders.iter().enumerate() {
        let name = format!("folder-{at}");
        mounts.push(json!({"name": name, "mountPath": folder}));
        volumes.push(json!({"name": name, "emptyDir": {"sizeLimit": config.disk.as_str()}}));
    }
    let mut variables = environment(config, plan);
    if let Some(secret) = &work.secret {
        let items = json!([{"key": ".dockerconfigjson", "path": "config.json"}]);
        volumes.push(json!({
            "name": "credentials",
            "secret": {"secretName": secret, "items": items, "defaultMode": 0o444},
        }));
        let mount = plan.credentials;
        mounts.push(json!({"name": "credentials", "mountPath": mount, "readOnly": true}));
        variables.push(json!({"name": "DOCKER_CONFIG", "value": mount}));
    }
    let mut spec = json!({
        "containers": [{
            "name": BUILD_CONTAINER,
            "image": plan.image,
            "imagePullPolicy": "IfNotPresent",
            "command": escaped(&plan.command),
            "args": escaped(&plan.arguments),
            "env": variables,
            "resources": {
                "limits": {
                    "memory": config.memory.as_str(),
                    "cpu": config.cpu.as_str(),
                    "ephemeral-storage": config.disk.as_str(),
                },
                "requests": {
                    "memory": config.memory_request.as_str(),
                    "cpu": config.cpu_request.as_str(),
                },
            },
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "securityContext": plan.container_security,
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "serviceAccountName": config.service_account,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": plan.pod_security,
    });
    add(&mut spec, config, plan);
    spec
}

/// What the settings add.
fn add(spec: &mut Value, config: &BuildsConfig, plan: &Plan) {
    if let Some(host_users) = plan.host_users {
        spec["hostUsers"] = json!(host_users);
    }
    if !config.image_pull_secrets.is_empty() {
        let secrets = config.image_pull_secrets.iter();
        spec["imagePullSecrets"] = secrets.map(|name| json!({"name": name})).collect();
    }
    if !config.node_selector.is_empty() {
        spec["nodeSelector"] = json!(config.node_selector);
    }
    if !config.tolerations.is_empty() {
        spec["tolerations"] = json!(config.tolerations);
    }
    if let Some(class) = &config.runtime_class {
        spec["runtimeClassName"] = json!(class);
    }
    if let Some(class) = &config.priority_class {
        spec["priorityClassName"] = json!(class);
    }
}

fn environment(config: &BuildsConfig, plan: &Plan) -> Vec<Value> {
    let own = plan
        .variables
        .iter()
        .map(|(name, value)| json!({"name": name, "value": escape(value)}));
    let plain = config
        .env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": escape(value)}));
    let secret = config.secret_env.iter().map(|(name, secret)| {
        json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}})
    });
    own.chain(plain).chain(secret).collect()
}

/// Kubernetes reads `$(NAME)` in commands and values, and `$$` as an escaped `$`.
fn escape(text: &str) -> String {
    text.replace('$', "$$")
}

fn escaped(all: &[String]) -> Vec<String> {
    all.iter().map(|text| escape(text)).collect()
}
