//! Who may talk with functions, and with whom they may.

use serde_json::{Value, json};
use sless_core::Namespace;

use super::pod::PORT_NUMBER;
use crate::{labels, scheduler::config::NetworkConfig};

/// The name of the policy, one for all functions of a namespace: they are all told the same, and a
/// policy for each would be one more write, and one more rule on every node.
pub(in crate::scheduler) const POLICY: &str = "sless-functions";

/// The name of the policy of the pods that call by the clock.
pub(in crate::scheduler) const CRON_POLICY: &str = "sless-cron";
/// All our policies in a namespace of workloads.
pub(in crate::scheduler) const POLICIES: [&str; 2] = [POLICY, CRON_POLICY];

/// The policy of a namespace's functions and jobs. What it selects may do what it allows and nothing
/// else: no pod reaches another one, another namespace, a private address or the cloud's metadata.
pub(in crate::scheduler) fn policy(config: &NetworkConfig, namespace: &Namespace) -> Value {
    let callers = callers(config);
    // An empty list of peers would mean everyone.
    let ingress = if callers.is_empty() {
        json!([])
    } else {
        json!([{"from": callers, "ports": [{"port": PORT_NUMBER, "protocol": "TCP"}]}])
    };
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": POLICY,
            "namespace": namespace.workloads().as_str(),
            "labels": {labels::MANAGED_BY: labels::MANAGER, labels::NAMESPACE: namespace.as_str()},
        },
        "spec": {
            "podSelector": {"matchLabels": {labels::MANAGED_BY: labels::MANAGER}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress(config),
        },
    })
}

/// Those who call functions, as peers of a policy.
pub(super) fn callers(config: &NetworkConfig) -> Vec<Value> {
    let by_label = config
        .callers
        .iter()
        .map(|labels| json!({"namespaceSelector": {"matchLabels": labels}}));
    let by_address = config
        .caller_cidrs
        .iter()
        .map(|cidr| json!({"ipBlock": {"cidr": cidr}}));
    by_label.chain(by_address).collect()
}

/// Leave to ask DNS, where something answers it.
pub(super) fn dns(config: &NetworkConfig) -> Option<Value> {
    let mut dns = Vec::new();
    if !config.dns_pods.is_empty() {
        dns.push(json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": config.dns_pods},
        }));
    }
    dns.extend(
        config
            .dns_cidrs
            .iter()
            .map(|cidr| json!({"ipBlock": {"cidr": cidr}})),
    );
    let ports = ["UDP", "TCP"].map(|protocol| json!({"port": 53, "protocol": protocol}));
    (!dns.is_empty()).then(|| json!({"to": dns, "ports": ports}))
}

/// Where pods may connect to.
pub(crate) fn egress(config: &NetworkConfig) -> Vec<Value> {
    let mut egress: Vec<Value> = dns(config).into_iter().collect();
    let out: Vec<Value> = config
        .egress_cidrs
        .iter()
        .map(|cidr| {
            let is_v6 = |cidr: &str| cidr.contains(':');
            // An exception has to lie within its block.
            let except = config.egress_except.iter();
            let except: Vec<_> = except.filter(|hole| is_v6(hole) == is_v6(cidr)).collect();
            json!({"ipBlock": {"cidr": cidr, "except": except}})
        })
        .collect();
    if !out.is_empty() {
        egress.push(json!({"to": out}));
    }
    egress
}
