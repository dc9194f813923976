//! The Service of a function.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use sless_conformance::Fixture;
use sless_core::{Scheduler as _, Workload};
use sless_k8s::{KubeScheduler, ServiceKind};

use super::{
    place::{Place, ask},
    world,
};

/// Applies a workload until its Service is as it should be.
async fn until(
    place: &Place,
    scheduler: &KubeScheduler,
    workload: &Workload,
    is_right: impl Fn(&ServiceSpec) -> bool,
) {
    let begun = Instant::now();
    loop {
        scheduler.apply(workload).await.expect("applied");
        let service: Service = place.one(&workload.function).await;
        let spec = service.spec.expect("a spec");
        if is_right(&spec) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{spec:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some("None") && has_port(spec, 8080)
}

fn has_address(spec: &ServiceSpec) -> bool {
    let address = spec.cluster_ip.as_deref().unwrap_or_default();
    address.parse::<std::net::IpAddr>().is_ok() && has_port(spec, 80)
}

fn has_port(spec: &ServiceSpec, wanted: i32) -> bool {
    let ports = spec.ports.iter().flatten();
    ports.map(|port| port.port).eq([wanted])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_service_gets_an_address_where_one_is_asked_for() {
    let mark = world::mark();
    let place = Place::of(mark.clone(), world::config(&mark)).await;
    let workload = place.fixture("served", Fixture::Echo).await;
    let invoker = place.ready(&workload).await;
    until(&place, &place.scheduler, &workload, is_headless).await;
    let mut config = world::config(&mark);
    config.scheduler.services = ServiceKind::ClusterIp;
    let other = world::scheduler(config).await.expect("a scheduler");
    until(&place, &other, &workload, has_address).await;
    until(&place, &place.scheduler, &workload, is_headless).await;
    // Calls do not go through it.
    ask(&invoker, &serde_json::json!(1)).await;
    place.end().await;
}
