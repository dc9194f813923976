//! Who may talk with functions, and with whom they may.

use serde_json::{Value, json};
use sless_core::Namespace;

use super::pod::PORT_NUMBER;
use crate::{labels, scheduler::config::NetworkConfig};

/// The name of the policy, one for all functions of a namespace: they are all told the same, and a
/// policy for each would be one more write, and one more rule on every node.
pub(in crate::scheduler) const POLICY: &str = "sless-functions";

/// The policy of a namespace's functions and jobs. What it selects may do what it allows and nothing
/// else: no pod reaches another one, another namespace, a private address or the cloud's metadata.
pub(in crate::scheduler) fn policy(config: &NetworkConfig, namespace: &Namespace) -> Value {
    let callers = config
        .callers
        .iter()
        .map(|labels| json!({"namespaceSelector": {"matchLabels": labels}}))
        .chain(
            config
                .caller_cidrs
                .iter()
                .map(|cidr| json!({"ipBlock": {"cidr": cidr}})),
        );
    let callers: Vec<Value> = callers.collect();
    // An empty list of peers would mean everyone.
    let ingress = if callers.is_empty() {
        json!([])
    } else {
        json!([{"from": callers, "ports": [{"port": PORT_NUMBER, "protocol": "TCP"}]}])
    };
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
    let mut egress = Vec::new();
    if !dns.is_empty() {
        let ports = ["UDP", "TCP"].map(|protocol| json!({"port": 53, "protocol": protocol}));
        egress.push(json!({"to": dns, "ports": ports}));
    }
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
            "egress": egress,
        },
    })
}
