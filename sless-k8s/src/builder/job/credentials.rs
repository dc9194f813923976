//! What a Job pulls and pushes with.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Value, json};
use sless_core::BuildId;

use super::{config::BuildsConfig, plan::labels_of};
use crate::{Credentials, names};

/// The Secret of one build, with the credentials for these registries; none where there are none. It goes
/// with its Job.
pub(super) fn secret<'a>(
    config: &BuildsConfig,
    id: &BuildId,
    registries: impl Iterator<Item = (&'a str, &'a Credentials)>,
) -> Option<Value> {
    let all: BTreeMap<&str, Value> = registries
        .map(|(host, Credentials { username, password })| {
            let pair = format!("{username}:{password}");
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            // Docker's own registry is known to its tools by this name.
            let host = if host == "docker.io" {
                "https://index.docker.io/v1/"
            } else {
                host
            };
            (host, json!({"auth": pair}))
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    Some(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {
            "name": names::build(id),
            "namespace": config.namespace,
            "labels": labels_of(id),
        },
        "immutable": true,
        "stringData": {".dockerconfigjson": json!({"auths": all}).to_string()},
    }))
}
