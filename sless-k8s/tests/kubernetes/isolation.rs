//! Whom a function can reach: tried from inside pods, beside one that no policy holds back.

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};
use sless_conformance::Fixture;
use sless_core::Workload;
use sless_k8s::{K8sConfig, ServiceKind};
use tokio::net::TcpListener;

use super::{
    place::{Place, ask},
    world,
};

const PROBE: &str = r#"
import socket

def connects(host, port):
    try:
        socket.create_connection((host, port), timeout=2).close()
        return True
    except OSError:
        return False

def handle(event):
    return [connects(host, port) for host, port in event]
"#;

/// An address of the kind that clouds give keys out at, on this machine, as long as this lives.
struct LinkLocal {
    address: String,
    listener: TcpListener,
}

impl LinkLocal {
    async fn new() -> Self {
        // One that nobody else uses: it is the whole network that has to be out of reach.
        let address = format!(
            "169.254.{}.{}",
            fastrand::u8(100..200),
            fastrand::u8(1..250)
        );
        ip(&["addr", "add", &format!("{address}/32"), "dev", "lo"]);
        let listener = TcpListener::bind((address.as_str(), 0))
            .await
            .expect("a port");
        Self { address, listener }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().expect("bound").port()
    }
}

impl Drop for LinkLocal {
    fn drop(&mut self) {
        ip(&["addr", "del", &format!("{}/32", self.address), "dev", "lo"]);
    }
}

fn ip(arguments: &[&str]) {
    let status = std::process::Command::new("ip").args(arguments).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "ip {arguments:?}"
    );
}

async fn addresses(place: &Place, workload: &Workload) -> (String, String) {
    let pod: Pod = place.one(&workload.function).await;
    let service: Service = place.one(&workload.function).await;
    let pod = pod
        .status
        .and_then(|status| status.pod_ip)
        .expect("an address");
    let service = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .expect("an address");
    (pod, service)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn functions_reach_neither_each_other_nor_the_clouds_metadata() {
    // With Services that have an address, which is one more way to get somewhere.
    let place = |change: fn(&mut K8sConfig)| {
        let mark = world::mark();
        let mut config = world::config(&mark);
        config.scheduler.services = ServiceKind::ClusterIp;
        change(&mut config);
        Place::of(mark, config)
    };
    let closed = place(|_| {}).await;
    let elsewhere = place(|_| {}).await;
    let open = place(|config| {
        config.scheduler.network.policies = false;
        config.namespaces.default_deny = false;
    });
    let open = open.await;
    let probe = closed.python("probe", PROBE).await;
    let free = open.python("probe", PROBE).await;
    let beside = closed.fixture("beside", Fixture::Echo).await;
    let far = elsewhere.fixture("far", Fixture::Echo).await;
    let unguarded = open.fixture("unguarded", Fixture::Echo).await;
    let probing = closed.ready(&probe).await;
    let roaming = open.ready(&free).await;
    for (place, workload) in [(&closed, &beside), (&elsewhere, &far), (&open, &unguarded)] {
        place.ready(workload).await;
    }
    let metadata = LinkLocal::new().await;
    let (beside, far) = (
        addresses(&closed, &beside).await,
        addresses(&elsewhere, &far).await,
    );
    let unguarded = addresses(&open, &unguarded).await;
    let event = json!([
        [beside.0, 8080],
        [beside.1, 80],
        [far.0, 8080],
        [far.1, 80],
        [unguarded.0, 8080],
        [unguarded.1, 80],
        [metadata.address, metadata.port()],
        ["10.96.0.1", 443],
    ]);
    let held: Value = ask(&probing, &event).await;
    let free: Value = ask(&roaming, &event).await;
    // What lies beyond a policy of its own stays closed for the free one, too. The rest is there to be
    // reached, so that it is the policies that hold the other one back.
    assert_eq!(
        free,
        json!([false, false, false, false, true, true, true, true])
    );
    assert_eq!(
        held,
        json!([false, false, false, false, false, false, false, false])
    );
    for place in [closed, elsewhere, open] {
        place.end().await;
    }
}
