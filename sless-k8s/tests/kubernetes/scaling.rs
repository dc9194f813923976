//! Copies by calls under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt as _, api::Patch};
use serde_json::json;
use sless_core::{Invoke, Scheduler as _, Workload};
use sless_k8s::{Cluster, KubeScheduler};

use super::{
    keda, operator,
    place::{Place, call},
    plane::Plane,
    world::{self, eventually},
};

/// Calls, one after another, until told to stop; answers how many failed.
async fn keep_calling(
    invoker: Arc<dyn Invoke>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
) -> usize {
    let mut failed = 0;
    while !stop.load(Ordering::Relaxed) {
        match call(&invoker, &json!(1)).await {
            Ok(answer) if answer.status().is_success() => {
                // The answer is read, so that the call has ended.
                let body = answer.into_body().bytes(1 << 20).await;
                failed += usize::from(body.is_err());
                answered.fetch_add(1, Ordering::Relaxed);
            }
            _ => failed += 1,
        }
    }
    failed
}

async fn copies(place: &Place, workload: &Workload) -> i32 {
    let deployment: Deployment = place.one(&workload.function).await;
    deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn copies_follow_the_calls_of_all_proxies_within_bounds() {
    let mark = world::mark();
    let mut config = world::config(&mark);
    (
        config.scheduler.scale_check_ms,
        config.scheduler.scale_down_ms,
    ) = (200, 3_000);
    let place = Place::of(mark, config.clone()).await;
    // Another proxy, which leaves the numbers to others.
    config.scheduler.scale_check_ms = 0;
    config.scheduler.idle_check_ms = 0;
    let other = world::scheduler(config).await.expect("another scheduler");
    let mut workload = place
        .python(
            "scaled",
            "import time\ndef handle(event):\n    time.sleep(0.5)\n    return event\n",
        )
        .await;
    (workload.replicas, workload.max_replicas) = (1, 3);
    let invoker = place.ready(&workload).await;
    assert_eq!(copies(&place, &workload).await, 1);
    let elsewhere = other.invoker(&workload.function).await.expect("an invoker");
    let (stop, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    // Two calls at once by each of two proxies: neither would ask for three copies by itself.
    let calling: Vec<_> = [&invoker, &invoker, &elsewhere, &elsewhere]
        .into_iter()
        .map(|invoker| {
            tokio::spawn(keep_calling(
                invoker.clone(),
                stop.clone(),
                answered.clone(),
            ))
        })
        .collect();
    eventually("three copies answer", async || {
        assert!(copies(&place, &workload).await <= 3, "more than the most");
        // What an engine does meanwhile changes nothing.
        let status = place.scheduler.apply(&workload).await.expect("an apply");
        match status.ready_replicas {
            3 => Ok(()),
            _ => Err(format!("{status:?}")),
        }
    })
    .await;
    // Also a change of the bounds keeps those that are needed.
    workload.generation += 1;
    workload.max_replicas = 4;
    place.scheduler.apply(&workload).await.expect("an apply");
    eventually("a fourth comes", async || {
        match copies(&place, &workload).await {
            4 => Ok(()),
            count => Err(format!("{count} copies")),
        }
    })
    .await;
    eventually("some calls are answered", async || {
        match answered.load(Ordering::Relaxed) {
            ..=10 => Err("few calls".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    stop.store(true, Ordering::Relaxed);
    let failed: usize = {
        let all = futures::future::join_all(calling).await;
        all.into_iter().map(|failed| failed.expect("it ends")).sum()
    };
    eventually("one copy is left", async || {
        match copies(&place, &workload).await {
            1 => Ok(()),
            count => Err(format!("{count} copies")),
        }
    })
    .await;
    let answered = answered.load(Ordering::Relaxed);
    assert_eq!(failed, 0, "of {answered} calls");
    assert!(answered > 10, "{answered} calls");
    other.shutdown().await;
    place.end().await;
}

/// Where nobody else looks after the numbers: on a control plane of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_new_revision_comes_with_as_many_copies_as_the_old_one_had() {
    let plane = Plane::start("bounds");
    let mut config = plane.config();
    (
        config.scheduler.scale_check_ms,
        config.scheduler.idle_check_ms,
    ) = (0, 0);
    let cluster = Cluster::connect(config).await.expect("settings");
    let scheduler = KubeScheduler::connect(cluster).await.expect("a scheduler");
    let mut workload = keda::workload();
    (workload.replicas, workload.max_replicas, workload.idle) = (1, 3, Some(Duration::ZERO));
    let place = workload.function.namespace.workloads();
    plane.run(&["create", "namespace", place.as_str()], "");
    let client = operator::client(&plane.kubeconfig).await;
    let api: Api<Deployment> = Api::namespaced(client, place.as_str());
    let copies = async || {
        let mut all = api.list(&Default::default()).await.expect("listed").items;
        all.pop().and_then(|found| found.spec?.replicas)
    };
    scheduler.apply(&workload).await.expect("an apply");
    assert_eq!(copies().await, Some(1));
    let name = api.list(&Default::default()).await.expect("listed").items[0].name_any();
    let patch = json!({"spec": {"replicas": 2}});
    let patched = api
        .patch(&name, &Default::default(), &Patch::Merge(&patch))
        .await;
    patched.expect("as a scaler does it");
    workload.generation += 1;
    workload.env.insert("A".to_owned(), "1".to_owned());
    scheduler.apply(&workload).await.expect("an apply");
    assert_eq!(copies().await, Some(2), "another revision");
    for (replicas, most, expected) in [(1, 1, 1), (2, 4, 2), (0, 3, 0), (1, 3, 1), (5, 3, 5)] {
        workload.generation += 1;
        (workload.replicas, workload.max_replicas) = (replicas, most);
        scheduler.apply(&workload).await.expect("an apply");
        assert_eq!(copies().await, Some(expected), "{replicas} to {most}");
    }
    scheduler.shutdown().await;
    plane.down();
}
