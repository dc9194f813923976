//! What KEDA scales a function by.

use serde_json::{Value, json};
use sless_core::FunctionId;

use super::service::SERVICE_PORT;
use crate::{
    labels, names,
    scheduler::{cache::DeploymentView, config::KedaConfig},
};

/// The host by which the interceptor tells a function apart.
pub(in crate::scheduler) fn host(config: &KedaConfig, function: &FunctionId) -> String {
    let (name, place) = (names::function(function), function.namespace.workloads());
    format!("{name}.{place}.{}", config.domain)
}

/// The HTTPScaledObject.
pub(in crate::scheduler) fn scaled(
    config: &KedaConfig,
    function: &FunctionId,
    deployment: &DeploymentView,
) -> Value {
    let name = names::function(function);
    let least = if deployment.idle_ms > 0 {
        0
    } else {
        deployment.replicas
    };
    let mut spec = json!({
        "hosts": [host(config, function)],
        "scaleTargetRef": {
            "name": name, "kind": "Deployment", "apiVersion": "apps/v1", "service": name, "port": SERVICE_PORT,
        },
        "replicas": {"min": least, "max": deployment.max_replicas},
        "scalingMetric": {"concurrency": {"targetValue": deployment.concurrency}},
    });
    if deployment.idle_ms > 0 {
        spec["scaledownPeriod"] = json!(deployment.idle_ms.div_ceil(1000));
    }
    json!({
        "apiVersion": "http.keda.sh/v1alpha1",
        "kind": "HTTPScaledObject",
        "metadata": {
            "name": name,
            "namespace": function.namespace.workloads().as_str(),
            "labels": labels::of_owner(&function.key(), &function.uid),
        },
        "spec": spec,
    })
}
