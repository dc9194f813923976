//! Whom builds may talk with.

use serde_json::{Value, json};

use super::{config::BuildsConfig, plan::MANAGER};
use crate::{labels, scheduler};

/// The name of the policy of all builds.
pub(super) const POLICY: &str = "sless-builds";

/// The policy: nobody reaches a build, and a build reaches what the settings allow.
pub(super) fn policy(config: &BuildsConfig) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": POLICY,
            "namespace": config.namespace,
            "labels": {labels::MANAGED_BY: MANAGER},
        },
        "spec": {
            "podSelector": {"matchLabels": {labels::MANAGED_BY: MANAGER}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": scheduler::egress(&config.network),
        },
    })
}
