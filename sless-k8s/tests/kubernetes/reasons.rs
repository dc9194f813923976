//! What a status tells of what cannot run, and what a pod may do.

use std::time::Instant;

use k8s_openapi::api::core::v1::{LimitRange, Pod, ResourceQuota, Service};
use kube::api::PostParams;
use serde_json::json;
use sless_conformance::Fixture;
use sless_core::{Workload, WorkloadPhase};
use sless_k8s::ServiceKind;

use super::{
    place::{Place, ask},
    world,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn the_status_tells_the_real_reason() {
    let place = Place::new().await;
    let begun = Instant::now();
    let mut missing = place.fixture("missing", Fixture::Echo).await;
    let image = missing
        .artifact
        .reference
        .split('@')
        .next()
        .unwrap_or_default()
        .to_owned();
    missing.artifact.digest = world::no_image();
    missing.artifact.reference = format!("{image}@{}", missing.artifact.digest);
    let mut greedy = place.python("greedy", "data = bytearray(1 << 30)\nfor at in range(0, len(data), 4096): data[at] = 1\ndef handle(event):\n    return 1\n").await;
    greedy.memory = Some("48Mi".parse().expect("a quantity"));
    let crash = place.python("crash", "import os, sys\nprint('about to end', flush=True)\nos._exit(7)\ndef handle(event): pass\n").await;
    let import = place.fixture("import", Fixture::BadImport).await;
    let named = place
        .python("named", "def other(event):\n    return 1\n")
        .await;
    let cases: [(&Workload, &[&str]); 5] = [
        (&missing, &["image_pull"]),
        (&greedy, &["out_of_memory"]),
        (&crash, &["crash_loop"]),
        (&import, &["handler_import"]),
        (&named, &["handler_missing"]),
    ];
    let checks = cases.map(|(workload, words)| {
        let place = &place;
        async move {
            let status = place.reach(workload, WorkloadPhase::Failed).await;
            let failure = status.failure.expect("a reason");
            assert!(
                words.contains(&&*failure.reason),
                "{}: {failure:?}",
                workload.function.name
            );
            assert!(!failure.message.is_empty(), "{failure:?}");
            failure
        }
    });
    let failures = futures::future::join_all(checks).await;
    assert!(
        failures[2].log_tail.contains("about to end"),
        "{:?}",
        failures[2]
    );
    assert!(begun.elapsed() < world::PATIENCE, "{:?}", begun.elapsed());
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn quota_and_admission_are_told_at_once() {
    let place = Place::new().await;
    let params = PostParams::default();
    let quota: ResourceQuota = serde_json::from_value(
        json!({"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "1"}}}),
    )
    .expect("a quota");
    place
        .api::<ResourceQuota>()
        .create(&params, &quota)
        .await
        .expect("a quota");
    let range = json!({"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "512Mi"}}]}});
    let range: LimitRange = serde_json::from_value(range).expect("a limit range");
    place
        .api::<LimitRange>()
        .create(&params, &range)
        .await
        .expect("a limit range");
    let mut large = place.fixture("large", Fixture::Echo).await;
    large.memory = Some("1Gi".parse().expect("a quantity"));
    let begun = Instant::now();
    let denied = place
        .reach(&large, WorkloadPhase::Failed)
        .await
        .failure
        .expect("a reason");
    assert_eq!(denied.reason, "admission_denied", "{denied:?}");
    let first = place.fixture("first", Fixture::Echo).await;
    place.ready(&first).await;
    let second = place.fixture("second", Fixture::Echo).await;
    let over = place
        .reach(&second, WorkloadPhase::Failed)
        .await
        .failure
        .expect("a reason");
    assert_eq!(over.reason, "quota", "{over:?}");
    assert!(over.message.contains("tight"), "{over:?}");
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_pod_may_do_what_it_must_and_nothing_else() {
    let mark = world::mark();
    let mut config = world::config(&mark);
    // Here DNS is no pod, but a program on the node.
    config.scheduler.network.dns_cidrs = world::dns_addresses().await;
    config.scheduler.services = ServiceKind::ClusterIp;
    let place = Place::of(mark, config).await;
    let other = place.fixture("other", Fixture::Echo).await;
    place.ready(&other).await;
    let target: Pod = place.one(&other.function).await;
    let address = target
        .status
        .and_then(|status| status.pod_ip)
        .expect("an address");
    let service: Service = place.one(&other.function).await;
    let service = service
        .spec
        .and_then(|spec| spec.cluster_ip)
        .expect("an address");
    let probe = place.python("probe", PROBE).await;
    let invoker = place.ready(&probe).await;
    let hosts = json!([
        [address, 8080],
        [service, 80],
        ["169.254.169.254", 80],
        ["10.96.0.1", 443]
    ]);
    let seen = ask(
        &invoker,
        &json!({"connect": hosts, "resolve": "kubernetes.default.svc.cluster.local"}),
    )
    .await;
    assert_eq!(
        seen["connected"],
        json!([false, false, false, false]),
        "{seen}"
    );
    assert_eq!(seen["resolved"], true, "DNS answers: {seen}");
    assert_eq!(seen["uid"], 65532, "{seen}");
    assert_eq!(seen["token"], false, "a token is mounted: {seen}");
    assert_eq!(seen["root"], false, "the root can be written: {seen}");
    assert_eq!(seen["tmp"], true, "/tmp cannot be written: {seen}");
    assert_eq!(seen["capabilities"], "0000000000000000", "{seen}");
    assert_eq!(seen["no_new_privileges"], "1", "{seen}");
    place.end().await;
}

const PROBE: &str = r#"
import os, socket

def connects(host, port):
    try:
        socket.create_connection((host, port), timeout=1.5).close()
        return True
    except OSError:
        return False

def writes(path):
    try:
        with open(path, "w") as file:
            file.write("x")
        return True
    except OSError:
        return False

def resolves(name):
    try:
        return bool(socket.getaddrinfo(name, 443))
    except OSError:
        return False

def handle(event):
    status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
    return {
        "connected": [connects(host, port) for host, port in event["connect"]],
        "resolved": resolves(event["resolve"]),
        "uid": os.getuid(),
        "token": os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"),
        "root": writes("/app/x") or writes("/x"),
        "tmp": writes("/tmp/x"),
        "capabilities": status["CapEff"].strip(),
        "no_new_privileges": status["NoNewPrivs"].strip(),
    }
"#;
