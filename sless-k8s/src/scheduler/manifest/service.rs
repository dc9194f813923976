//! The Service of a function.

use serde_json::{Value, json};
use sless_core::FunctionId;

use super::{
    pod::{PORT, PORT_NUMBER},
    workload::selector,
};
use crate::{labels, names, scheduler::config::ServiceKind};

/// The port of a Service that has an address.
pub(super) const SERVICE_PORT: u16 = 80;

/// What Kubernetes calls the address of a Service that has none.
const NO_ADDRESS: &str = "None";

/// The Service; `None` where there is to be none.
pub(in crate::scheduler) fn service(kind: ServiceKind, function: &FunctionId) -> Option<Value> {
    let port = match kind {
        ServiceKind::None => return None,
        // Who asks for it is told the pods' addresses, so that its port is theirs.
        ServiceKind::Headless => PORT_NUMBER,
        ServiceKind::ClusterIp => SERVICE_PORT,
    };
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names::function(function),
            "namespace": function.namespace.workloads().as_str(),
            "labels": labels::of_owner(&function.key(), &function.uid),
        },
        "spec": {
            "type": "ClusterIP",
            "selector": selector(function),
            "ports": [{"name": PORT, "port": port, "targetPort": PORT, "protocol": "TCP"}],
        },
    });
    if kind == ServiceKind::Headless {
        service["spec"]["clusterIP"] = json!(NO_ADDRESS);
    }
    Some(service)
}

/// Whether a Service has no address of its own.
pub(in crate::scheduler) fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIP"] == NO_ADDRESS
}

#[cfg(test)]
mod tests {
    use sless_core::{Name, Namespace, Uid};

    use super::*;
    use crate::scheduler::cache::ServiceView;

    fn function(name: &str) -> FunctionId {
        FunctionId {
            namespace: Namespace::new("sless-x").expect("a label"),
            name: Name::new(name).expect("a label"),
            uid: Uid::new("3b1c"),
        }
    }

    #[test]
    fn a_name_with_a_digit_in_front_is_one_for_a_service() {
        let made = service(ServiceKind::Headless, &function("0f")).expect("one");
        let name = made["metadata"]["name"].as_str().expect("a name");
        assert!(name.starts_with("fn-0f-"), "{name}");
    }

    #[test]
    fn one_with_an_address_is_not_one_without() {
        let function = function("f");
        let made = |kind| service(kind, &function).expect("one");
        let (headless, addressed) = (made(ServiceKind::Headless), made(ServiceKind::ClusterIp));
        // As the API server tells it.
        let mut there = addressed.clone();
        there["spec"]["clusterIP"] = json!("10.96.0.7");
        assert_eq!(ServiceView::of(&addressed, &there), ServiceView::Right);
        assert_eq!(ServiceView::of(&headless, &there), ServiceView::OtherKind);
        assert_eq!(ServiceView::of(&headless, &headless), ServiceView::Right);
        // Whose port is the same, for an address that is not asked for.
        let mut there = addressed.clone();
        there["spec"]["clusterIP"] = json!(NO_ADDRESS);
        assert_eq!(ServiceView::of(&addressed, &there), ServiceView::OtherKind);
        there["spec"]["clusterIP"] = json!("10.96.0.7");
        there["spec"]["ports"][0]["port"] = json!(81);
        assert_eq!(ServiceView::of(&addressed, &there), ServiceView::Different);
        assert_eq!(service(ServiceKind::None, &function), None);
    }
}
