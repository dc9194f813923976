//! What kaniko is told.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    buildkit::TIME,
    config::KanikoConfig,
    plan::{FILES, Plan, Work},
};

/// What an install in the container itself needs of what root may do: owners and modes of files, and to
/// become another user. All of it is within the *baseline* level.
const CAPABILITIES: [&str; 8] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "SETFCAP",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn plan(config: &KanikoConfig, work: &Work) -> Plan {
    let mut arguments = vec![
        format!("--dockerfile={FILES}/Dockerfile"),
        format!("--context=dir://{FILES}"),
        format!("--destination={}", work.target),
        "--digest-file=/dev/termination-log".to_owned(),
        "--reproducible".to_owned(),
        "--snapshot-mode=redo".to_owned(),
        "--log-format=text".to_owned(),
        "--push-retry=2".to_owned(),
        format!("--build-arg=SOURCE_DATE_EPOCH={TIME}"),
    ];
    if let Some(repository) = &work.cache {
        arguments.push("--cache=true".to_owned());
        let (host, path) = (&repository.host, &repository.repository);
        arguments.push(format!("--cache-repo={host}/{path}/{CACHE}"));
    }
    for host in &work.plain_http {
        arguments.push(format!("--insecure-registry={host}"));
    }
    for name in &work.variables {
        // Without a value: it is taken from the environment.
        arguments.push(format!("--build-arg={name}"));
    }
    Plan {
        image: config.image.clone(),
        command: vec!["/kaniko/executor".to_owned()],
        arguments,
        variables: BTreeMap::new(),
        files: BTreeMap::from([("Dockerfile", work.dockerfile.clone())]),
        folders: Vec::new(),
        credentials: "/kaniko/.docker",
        container_security: json!({
            "privileged": false,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"], "add": CAPABILITIES},
        }),
        pod_security: json!({
            "runAsUser": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        }),
        host_users: None,
    }
}

/// The repository of layers, below the function's own.
pub(super) const CACHE: &str = "cache";
