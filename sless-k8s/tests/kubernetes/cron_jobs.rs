//! Cron triggers as CronJobs, which really call.

use std::{net::SocketAddr, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::Pod,
};
use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PostParams},
};
use serde_json::{Value, json};
use sless_core::{
    Change, CronScheduler as _, CronTrigger, Kind, Name, ObjectKey, Scheduler as _, TriggerId, Uid,
    cron::{Policies, Schedule},
};
use sless_k8s::{Cluster, CronJobConfig, K8sConfig, KubeScheduler};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
};

use super::{
    curl_image::image_with_curl,
    place::Place,
    plane::Plane,
    world::{self, eventually, variable},
};

/// What stands for sless: tells each request, and answers it with success.
async fn listener() -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind((variable("SLESS_TEST_KUBERNETES_HOST"), 0)).await;
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            let read = async {
                // The event is one JSON object without others in it, and comes last.
                while !request.ends_with(b"}") {
                    match stream.read(&mut buffer).await {
                        Ok(0) | Err(_) => break,
                        Ok(count) => request.extend_from_slice(&buffer[..count]),
                    }
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(10), read).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
            let _ = tell.send(String::from_utf8_lossy(&request).into_owned());
        }
    });
    (address, told)
}

fn every_minute(place: &Place) -> CronTrigger {
    CronTrigger {
        trigger: TriggerId {
            namespace: place.namespace.clone(),
            name: Name::new("clock").expect("a label"),
            uid: Uid::random(),
        },
        function: Name::new("hello").expect("a label"),
        schedule: Schedule::parse("* * * * *", Some("Europe/Berlin")).expect("a schedule"),
        policies: Policies::default(),
        timeout: Duration::from_secs(20),
        suspended: false,
    }
}

async fn place(change: impl FnOnce(&mut K8sConfig)) -> Place {
    let mark = world::mark();
    let mut config = world::config(&mark);
    change(&mut config);
    Place::of(mark, config).await
}

async fn cron_jobs(place: &Place) -> Vec<CronJob> {
    let all = place.api::<CronJob>().list(&ListParams::default()).await;
    all.expect("listed").items
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_cron_job_calls_the_function_at_its_times() {
    let (address, mut told) = listener().await;
    let (registry, python) = (
        variable("SLESS_TEST_REGISTRY"),
        variable("SLESS_TEST_IMAGE_PYTHON"),
    );
    let image = image_with_curl(&registry, &python).await;
    let place = place(|config| {
        config.scheduler.network.caller_cidrs = vec![format!("{}/32", address.ip())];
        config.scheduler.cron_jobs = Some(CronJobConfig {
            image,
            url: format!("http://{address}/"),
            memory: "64Mi".parse().expect("a quantity"),
            ..CronJobConfig::default()
        });
    })
    .await;
    let mut changes = place.scheduler.changes();
    let mut cron = every_minute(&place);
    let id = cron.trigger.clone();
    let seen = place.scheduler.apply_cron(&cron).await.expect("applied");
    assert_eq!((seen.last_fire_at, seen.failure), (None, None));
    let made = cron_jobs(&place).await;
    assert_eq!(made.len(), 1, "{made:?}");
    let spec = &made[0].spec;
    assert_eq!(
        (&*spec.schedule, spec.time_zone.as_deref()),
        ("* * * * *", Some("Europe/Berlin"))
    );
    assert_eq!(spec.concurrency_policy.as_deref(), Some("Forbid"));
    let version = made[0].resource_version();

    // Nothing is written where nothing differs.
    for _ in 0..3 {
        place.scheduler.apply_cron(&cron).await.expect("applied");
    }
    assert_eq!(cron_jobs(&place).await[0].resource_version(), version);

    let request = tokio::time::timeout(Duration::from_secs(150), told.recv()).await;
    let request = request
        .expect("it calls within a minute")
        .expect("a request");
    let (head, body) = request.split_once("\r\n\r\n").expect("a head and a body");
    let path = format!("POST /fn/{}/hello HTTP/1.1", place.namespace);
    assert!(head.starts_with(&path), "{head}");
    assert!(
        head.to_lowercase()
            .contains("content-type: application/json"),
        "{head}"
    );
    let event: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(
        (&event["type"], &event["trigger"], &event["cause"]),
        (&json!("cron"), &json!("clock"), &json!("due"))
    );
    let run = event["run"].as_str().expect("the name of the run");
    assert!(
        run.starts_with(&made[0].name_any()) && !run.contains('$'),
        "{run}"
    );

    // The stream of changes says so, and the status knows when it was.
    let key = ObjectKey::new(Kind::Trigger, id.namespace.clone(), id.name.clone());
    eventually("the last fire is known", async || {
        let seen = place.scheduler.apply_cron(&cron).await.expect("applied");
        seen.last_fire_at
            .map(drop)
            .ok_or_else(|| format!("{seen:?}"))
    })
    .await;
    let hinted = async {
        loop {
            if changes.next().await == Some(Change::Object(key.clone())) {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), hinted)
        .await
        .expect("hinted at");
    // Its pods are no function's, and no job's.
    let jobs = place
        .api::<Job>()
        .list(&ListParams::default())
        .await
        .expect("listed")
        .items;
    assert!(!jobs.is_empty());

    // Suspended in place.
    cron.suspended = true;
    place.scheduler.apply_cron(&cron).await.expect("applied");
    let now = cron_jobs(&place).await;
    assert_eq!(now[0].uid(), made[0].uid());
    assert_eq!(now[0].spec.suspend, Some(true));

    // By other hands.
    let edit = json!({"spec": {"schedule": "0 0 1 1 *", "suspend": false}});
    let name = now[0].name_any();
    let edited = place
        .api::<CronJob>()
        .patch(&name, &Default::default(), &Patch::Merge(&edit))
        .await;
    edited.expect("edited");
    eventually("the edit is undone", async || {
        place.scheduler.apply_cron(&cron).await.expect("applied");
        let spec = cron_jobs(&place).await.remove(0).spec;
        let undone = (&*spec.schedule, spec.suspend) == ("* * * * *", Some(true));
        if undone {
            Ok(())
        } else {
            Err(format!("{spec:?}"))
        }
    })
    .await;

    let receipt = place.scheduler.remove_cron(&id).await.expect("removed");
    assert_eq!(receipt.removed[0].kind, "cron_job");
    let again = place.scheduler.remove_cron(&id).await.expect("removed");
    assert!(again.removed.is_empty(), "{again:?}");
    eventually("nothing of it is left", async || {
        let jobs = place
            .api::<Job>()
            .list(&ListParams::default())
            .await
            .expect("listed")
            .items;
        let pods = place
            .api::<Pod>()
            .list(&ListParams::default())
            .await
            .expect("listed")
            .items;
        let left = (cron_jobs(&place).await.len(), jobs.len(), pods.len());
        if left == (0, 0, 0) {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn what_kubernetes_cannot_keep_is_refused_and_what_is_not_wanted_is_not_made() {
    let place = place(|config| config.scheduler.cron_jobs = Some(CronJobConfig::default())).await;
    let mut cron = every_minute(&place);
    cron.suspended = true;
    place
        .scheduler
        .apply_cron(&cron)
        .await
        .expect("nothing to do");
    assert!(cron_jobs(&place).await.is_empty());
    cron.suspended = false;
    place.scheduler.apply_cron(&cron).await.expect("applied");
    let made = cron_jobs(&place).await;
    let job = made[0].spec.job_template.spec.as_ref();
    let pod = job
        .and_then(|job| job.template.spec.as_ref())
        .expect("a pod");
    assert_eq!(
        pod.containers[0].image.as_deref(),
        Some("curlimages/curl:8.5.0")
    );
    // A schedule of both days, where Kubernetes would take either.
    cron.schedule = Schedule::parse("0 0 */2 * 1", None).expect("a schedule");
    let seen = place.scheduler.apply_cron(&cron).await.expect("an answer");
    let failure = seen.failure.expect("a reason");
    assert_eq!(failure.reason, "cron_unsupported");
    assert!(cron_jobs(&place).await.is_empty());
    cron.schedule = Schedule::parse("0 0 * * 7", None).expect("a schedule");
    place.scheduler.apply_cron(&cron).await.expect("applied");
    assert_eq!(cron_jobs(&place).await.len(), 1);
    let quota =
        json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/cronjobs.batch": "0"}}});
    let quota = serde_json::from_value(quota).expect("a quota");
    place
        .api::<k8s_openapi::api::core::v1::ResourceQuota>()
        .create(&PostParams::default(), &quota)
        .await
        .expect("a quota");
    let mut other = every_minute(&place);
    other.trigger.name = Name::new("other").expect("a label");
    let told = eventually("the quota is told", async || {
        let seen = place.scheduler.apply_cron(&other).await.expect("an answer");
        match seen.failure.clone() {
            Some(failure) => Ok(failure),
            None => {
                place
                    .scheduler
                    .remove_cron(&other.trigger)
                    .await
                    .expect("removed");
                Err(format!("{seen:?}"))
            }
        }
    })
    .await;
    assert_eq!(told.reason, "quota", "{told:?}");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn all_own_cron_jobs_go_where_the_engine_takes_over() {
    // Of its own, since it is about those of everybody.
    let plane = Plane::start("crons");
    let (namespace, others) = ("sless-fn-crons", "sless-fn-others");
    for namespace in [namespace, others] {
        plane.run(&["create", "namespace", namespace], "");
    }
    let mut config = plane.config();
    config.scheduler.cron_jobs = Some(CronJobConfig::default());
    let cluster = Cluster::connect(config).await.expect("settings");
    let firing = KubeScheduler::connect(cluster).await.expect("a scheduler");
    let cron = CronTrigger {
        trigger: TriggerId {
            namespace: sless_core::Namespace::new("crons").expect("a label"),
            name: Name::new("clock").expect("a label"),
            uid: Uid::random(),
        },
        function: Name::new("hello").expect("a label"),
        schedule: Schedule::parse("* * * * *", None).expect("a schedule"),
        policies: Policies::default(),
        timeout: Duration::from_secs(20),
        suspended: false,
    };
    firing.apply_cron(&cron).await.expect("applied");
    let mut of_others = cron.clone();
    of_others.trigger.namespace = sless_core::Namespace::new("others").expect("a label");
    of_others.trigger.uid = Uid::random();
    firing.apply_cron(&of_others).await.expect("applied");
    firing.shutdown().await;
    let foreign = [
        "-n",
        namespace,
        "create",
        "cronjob",
        "foreign",
        "--image=x",
        "--schedule=* * * * *",
    ];
    plane.run(&foreign, "");
    // The other one is of another installation.
    let mut config = plane.config();
    config.catalog.namespace_prefix = "crons".to_owned();
    let cluster = Cluster::connect(config).await.expect("settings");
    let silent = std::sync::Arc::new(KubeScheduler::connect(cluster).await.expect("a scheduler"));
    assert!(silent.cron().is_none(), "the engine fires");
    let told = silent.apply_cron(&cron).await.expect_err("not asked for");
    assert_eq!(told.kind(), sless_core::ErrorKind::Unsupported);
    assert_eq!(silent.remove_cron_jobs().await.expect("removed"), 1);
    assert_eq!(silent.remove_cron_jobs().await.expect("removed"), 0);
    let left = plane.run(&["-n", namespace, "get", "cronjobs", "-o", "name"], "");
    assert_eq!(left.trim(), "cronjob.batch/foreign");
    let left = plane.run(&["-n", others, "get", "cronjobs", "-o", "name"], "");
    assert!(
        left.trim().starts_with("cronjob.batch/cron-clock-"),
        "{left}"
    );
    silent.shutdown().await;
    plane.down();
}
