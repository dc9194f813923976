//! What is wanted, as objects of Kubernetes. Pure functions: the same input gives the same object.

mod cron;
mod job;
mod network;
mod pod;
mod scaled;
mod service;
mod workload;

use serde_json::Value;
use sless_core::Digest;

pub(super) use cron::{cron_job, cron_policy};
pub(super) use job::{EVENT_INLINE_BYTES, event_config_map, job};
pub(crate) use network::egress;
pub(super) use network::{CRON_POLICY, POLICIES, POLICY, policy};
pub(super) use pod::PORT_NUMBER;
pub(super) use scaled::{host, scaled};
pub(super) use service::{is_headless, service};
pub(super) use workload::{deployment, ingress};

/// The digest of an object, as it is noted on it: short, since it only has to tell two of one name apart.
pub(super) fn digest(object: &Value) -> String {
    let text = serde_json::to_vec(object).unwrap_or_default();
    Digest::of(text).hex()[..32].to_owned()
}

/// Notes something on an object.
pub(super) fn annotate(object: &mut Value, name: &str, value: impl Into<String>) {
    object["metadata"]["annotations"][name] = Value::String(value.into());
}
