//! Workloads: what is written, what is repaired, what is replaced, and how soon the end of a job is seen.

use std::time::{Duration, Instant};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use sless_conformance::Fixture;
use sless_core::{
    Change, JobId, JobRun, LogOptions, LogTarget, Name, RunPhase, Scheduler as _, Uid,
};

use super::{
    between::Between,
    place::{Place, ask, call},
    world::{self, eventually},
};

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
    // A call that was sent to it before its end is known breaks off; it is not sent twice. The first may
    // still be answered by it: its object goes before its processes do.
    let begun = Instant::now();
    let answered = async || match call(&invoker, &json!("z")).await {
        Ok(answer) if answer.status().is_success() => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("a call is answered", answered).await;
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    eventually("another pod is there", async || {
        let pods = place.api::<Pod>().list(&ListParams::default()).await;
        let pods = pods.expect("pods").items;
        if pods.iter().any(|new| new.uid() != pod.uid()) {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    })
    .await;
    eventually("a call is answered by it", answered).await;
    place.end().await;
}

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
    // When the API shows to everybody that the pod has ended.
    let pods = place.api::<Pod>();
    let of_job = ListParams::default().labels(&format!("sless.io/uid={}", job.uid));
    let shown = eventually("the pod of the run ends", async || {
        let pods = pods.list(&of_job).await.expect("pods").items;
        let statuses = pods
            .iter()
            .filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        let mut states = statuses
            .flatten()
            .filter_map(|container| container.state.as_ref());
        let ended = states.any(|state| state.terminated.is_some());
        if ended {
            Ok(Instant::now())
        } else {
            Err(format!("{} pods", pods.len()))
        }
    });
    // As the engine does it: look when there is a hint.
    let seen = async {
        loop {
            // Hints at what other tests do are none of this one.
            match changes.next().await {
                Some(Change::Object(key)) if key != job.key() => continue,
                _ => {}
            }
            let status = place.scheduler.run_job(&run).await.expect("a run");
            if status.phase.is_terminal() {
                break (status, Instant::now());
            }
        }
    };
    let both = async { futures::join!(shown, seen) };
    let (shown, (status, seen)) = tokio::time::timeout(world::PATIENCE, both)
        .await
        .expect("the end of the run is hinted at");
    assert_eq!(status.phase, RunPhase::Succeeded, "{status:?}");
    let result: Value =
        serde_json::from_str(status.result.as_deref().unwrap_or_default()).expect("JSON");
    assert_eq!(
        (&result[0], result[1].as_str().map(str::len)),
        (&json!(200_000), Some(60_000))
    );
    let late = seen.saturating_duration_since(shown);
    assert!(
        late < Duration::from_secs(1),
        "seen {late:?} after Kubernetes showed it"
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_followed_log_goes_on_where_its_connection_broke() {
    use futures::TryStreamExt as _;
    let (mark, wait) = (world::mark(), Duration::from_secs(60));
    let config = world::config(&mark);
    let between = Between::start(config.kubeconfig.as_deref().expect("a kubeconfig")).await;
    let place = Place::of(mark, between.through(config)).await;
    let workload = place.fixture("followed", Fixture::LogLines).await;
    let invoker = place.ready(&workload).await;
    let target = LogTarget::Function(workload.function.clone());
    let options = LogOptions::default().following();
    let logs = place.scheduler.logs(&target, &options).await;
    let mut lines = logs.expect("a log");
    for text in ["one", "two", "three"] {
        ask(&invoker, &json!({ "stdout": [text] })).await;
        let line = tokio::time::timeout(wait, lines.try_next()).await;
        let line = line.expect("in time").expect("a line").expect("no end");
        assert_eq!(line.text, text);
        between.cut();
    }
    place.end().await;
}
