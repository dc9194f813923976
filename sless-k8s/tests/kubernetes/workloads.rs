//! Workloads: what is written, what is repaired, what is told, what a pod can do.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::Request;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{LimitRange, Pod, ResourceQuota, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use sless_conformance::Fixture;
use sless_core::{
    Body, CallContext, Change, FunctionId, Invoke, JobId, JobRun, Name, Namespace, RunPhase,
    Runtime, Scheduler, Uid, Workload, WorkloadPhase, WorkloadStatus,
};
use sless_k8s::{K8sConfig, KubeScheduler};

use super::world::{self, eventually, fixture, python};

/// A scheduler and a namespace of its own.
struct Place {
    mark: String,
    scheduler: KubeScheduler,
    namespace: Namespace,
    client: Client,
}

impl Place {
    async fn new() -> Self {
        let mark = world::mark();
        Self::of(mark.clone(), world::config(&mark)).await
    }

    async fn of(mark: String, config: K8sConfig) -> Self {
        let namespace = Namespace::new(format!("test-{mark}")).expect("a name");
        let scheduler = world::scheduler(config).await.expect("a scheduler");
        scheduler
            .ensure_namespace(&namespace)
            .await
            .expect("a namespace");
        Self {
            mark,
            scheduler,
            namespace,
            client: world::client().await,
        }
    }

    async fn fixture(&self, name: &str, of: Fixture) -> Workload {
        let tree = fixture(of, Runtime::Python311);
        world::workload(&self.namespace, name, Runtime::Python311, tree).await
    }

    async fn python(&self, name: &str, text: &str) -> Workload {
        world::workload(&self.namespace, name, Runtime::Python311, python(text)).await
    }

    async fn reach(&self, workload: &Workload, phase: WorkloadPhase) -> WorkloadStatus {
        self.scheduler.apply(workload).await.expect("an apply");
        eventually(&format!("{} is {phase:?}", workload.function), async || {
            let status = self
                .scheduler
                .status(&workload.function)
                .await
                .expect("a status");
            let there = status.phase == phase && status.applied == Some(workload.revision());
            if there {
                Ok(status)
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await
    }

    async fn ready(&self, workload: &Workload) -> Arc<dyn Invoke> {
        self.reach(workload, WorkloadPhase::Ready).await;
        self.scheduler
            .invoker(&workload.function)
            .await
            .expect("an invoker")
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace.workloads().as_str())
    }

    async fn one<K>(&self, function: &FunctionId) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let of_function = ListParams::default().labels(&format!("sless.io/uid={}", function.uid));
        let mut found = self
            .api::<K>()
            .list(&of_function)
            .await
            .expect("a list")
            .items;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    async fn end(self) {
        world::remove_namespaces(&self.mark).await;
        self.scheduler.shutdown().await;
    }
}

async fn ask(invoker: &Arc<dyn Invoke>, event: &Value) -> Value {
    let response = call(invoker, event).await.expect("an answer");
    let body = response.into_body().bytes(1 << 20).await.expect("a body");
    serde_json::from_slice(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body)))
}

async fn call(
    invoker: &Arc<dyn Invoke>,
    event: &Value,
) -> sless_core::Result<http::Response<Body>> {
    let mut request = Request::new(Body::from(event.to_string()));
    *request.method_mut() = http::Method::POST;
    let json = http::HeaderValue::from_static("application/json");
    request
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    let context = CallContext::new(world::mark(), Duration::from_secs(30));
    invoker.invoke(request, &context).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn nothing_is_written_where_nothing_differs() {
    let place = Place::new().await;
    let mut workload = place.fixture("same", Fixture::Echo).await;
    workload.env = [("B", "2"), ("A", "1")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    workload.memory = Some("131072Ki".parse().expect("a quantity"));
    workload.cpu = Some("1000m".parse().expect("a quantity"));
    place.ready(&workload).await;
    // The controllers have told all they have to tell.
    let mut versions = (String::new(), String::new());
    eventually("the objects rest", async || {
        let deployment: Deployment = place.one(&workload.function).await;
        let service: Service = place.one(&workload.function).await;
        let now = (
            deployment.resource_version().unwrap_or_default(),
            service.resource_version().unwrap_or_default(),
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = std::mem::replace(&mut versions, now.clone());
        if before == now {
            Ok(())
        } else {
            Err(format!("{before:?} {now:?}"))
        }
    })
    .await;
    // In this process, and in one that was just started.
    let other = world::scheduler(world::config(&place.mark))
        .await
        .expect("another scheduler");
    for scheduler in [&place.scheduler, &other] {
        for _ in 0..5 {
            workload.built_at += jiff::SignedDuration::from_secs(1);
            scheduler.apply(&workload).await.expect("an apply");
        }
    }
    let deployment: Deployment = place.one(&workload.function).await;
    let service: Service = place.one(&workload.function).await;
    let after = (
        deployment.resource_version().unwrap_or_default(),
        service.resource_version().unwrap_or_default(),
    );
    assert_eq!(after, versions, "the versions after ten applies");
    let manager = deployment
        .managed_fields()
        .iter()
        .find(|fields| fields.operation.as_deref() == Some("Apply"));
    assert_eq!(
        manager.and_then(|fields| fields.manager.as_deref()),
        Some("sless")
    );
    let template = deployment.spec.expect("a spec").template;
    let container = &template.spec.expect("a pod").containers[0];
    assert!(
        container
            .image
            .as_deref()
            .is_some_and(|image| image.contains("@sha256:"))
    );
    let env = container.env.as_ref().expect("an environment");
    assert_eq!(env[0].name, "SLESS_ENTRYPOINT");
    assert!(env[1..].is_sorted_by_key(|variable| variable.name.clone()));
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn what_other_hands_change_is_repaired() {
    let place = Place::new().await;
    let workload = place.fixture("mended", Fixture::Echo).await;
    let invoker = place.ready(&workload).await;
    let deployment: Deployment = place.one(&workload.function).await;
    let name = deployment.name_any();
    // Edited.
    let edit = json!({"spec": {"template": {"spec": {"containers": [{"name": "function", "args": ["--help"]}]}}}});
    let edited = place
        .api::<Deployment>()
        .patch(&name, &PatchParams::default(), &Patch::Strategic(&edit))
        .await;
    let generation = edited.expect("an edit").metadata.generation;
    eventually("the edit is undone", async || {
        place.scheduler.apply(&workload).await.expect("an apply");
        let now: Deployment = place.one(&workload.function).await;
        let args = now
            .spec
            .as_ref()
            .and_then(|spec| spec.template.spec.as_ref()?.containers[0].args.clone());
        let undone = args == Some(vec!["serve".to_owned()]) && now.metadata.generation > generation;
        if undone {
            Ok(())
        } else {
            Err(format!("{args:?}"))
        }
    })
    .await;
    place.ready(&workload).await;
    assert_eq!(ask(&invoker, &json!("x")).await, json!("x"));
    // Deleted.
    let gone = DeleteParams::default();
    place
        .api::<Service>()
        .delete(&name, &gone)
        .await
        .expect("a deletion");
    place
        .api::<NetworkPolicy>()
        .delete("sless-functions", &gone)
        .await
        .expect("a deletion");
    place
        .api::<Deployment>()
        .delete(&name, &gone)
        .await
        .expect("a deletion");
    eventually("all comes back", async || {
        place.scheduler.apply(&workload).await.expect("an apply");
        let service = place
            .api::<Service>()
            .get_opt(&name)
            .await
            .expect("an answer");
        let policy = place
            .api::<NetworkPolicy>()
            .get_opt("sless-functions")
            .await
            .expect("an answer");
        let deployment = place
            .api::<Deployment>()
            .get_opt(&name)
            .await
            .expect("an answer");
        let there = (service.is_some(), policy.is_some(), deployment.is_some());
        if there == (true, true, true) {
            Ok(())
        } else {
            Err(format!("{there:?}"))
        }
    })
    .await;
    let invoker = place.ready(&workload).await;
    assert_eq!(ask(&invoker, &json!("y")).await, json!("y"));
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_killed_pod_is_replaced_and_calls_wait_for_it() {
    let place = Place::new().await;
    let workload = place.fixture("killed", Fixture::Echo).await;
    let invoker = place.ready(&workload).await;
    let pod: Pod = place.one(&workload.function).await;
    let at_once = DeleteParams::default().grace_period(0);
    place
        .api::<Pod>()
        .delete(&pod.name_any(), &at_once)
        .await
        .expect("a deletion");
    // A call that was sent to it before its end is known breaks off; it is not sent twice.
    let begun = Instant::now();
    eventually("a call is answered", async || {
        match call(&invoker, &json!("z")).await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    let now: Vec<Pod> = place
        .api::<Pod>()
        .list(&ListParams::default())
        .await
        .expect("pods")
        .items;
    assert!(now.iter().any(|new| new.uid() != pod.uid()), "{now:?}");
    place.end().await;
}

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
        begun.elapsed() < Duration::from_secs(60),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_finished_job_is_seen_at_once_and_a_long_event_arrives() {
    use futures::StreamExt as _;
    let place = Place::new().await;
    let workload = place
        .python(
            "job",
            "def handle(event):\n    return [len(event['text']), 'x' * event['answer']]\n",
        )
        .await;
    let job = JobId {
        namespace: place.namespace.clone(),
        name: Name::new("long").expect("a name"),
        uid: Uid::random(),
    };
    let event = json!({"text": "e".repeat(200_000), "answer": 60_000}).to_string();
    let run = JobRun {
        job: job.clone(),
        run_id: 1,
        workload,
        event,
        timeout: Duration::from_secs(30),
        began: false,
    };
    let mut changes = place.scheduler.changes();
    place.scheduler.run_job(&run).await.expect("a run");
    // As the engine does it: look when there is a hint.
    let status = tokio::time::timeout(world::PATIENCE, async {
        loop {
            // Hints at what other tests do are none of this one.
            match changes.next().await {
                Some(Change::Object(key)) if key != job.key() => continue,
                _ => {}
            }
            let status = place.scheduler.run_job(&run).await.expect("a run");
            if status.phase.is_terminal() {
                break status;
            }
        }
    })
    .await
    .expect("the end of the run is hinted at");
    assert_eq!(status.phase, RunPhase::Succeeded, "{status:?}");
    let result: Value =
        serde_json::from_str(status.result.as_deref().unwrap_or_default()).expect("JSON");
    assert_eq!(
        (&result[0], result[1].as_str().map(str::len)),
        (&json!(200_000), Some(60_000))
    );
    // The node writes whole seconds, rounded down.
    let late = jiff::Timestamp::now().duration_since(status.finished_at.expect("a time"));
    assert!(
        late < jiff::SignedDuration::from_millis(3_000),
        "seen {late:?} after its end"
    );
    eventually("nothing of the job is left", async || {
        let receipt = place.scheduler.remove_job(&job).await.expect("a receipt");
        if receipt.is_unfinished() {
            Err(format!("{receipt:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    place.end().await;
}
