//! Waking: what sless adds to what a pod takes anyway, and what becomes of a burst of calls meanwhile.
//!
//! `SLESS_TEST_WAKES` says how often it is measured (3 times where it says nothing).

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::join_all};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, runtime::watcher};
use serde_json::json;
use sless_core::{Invoke, Scheduler as _, Workload};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use super::{
    place::{Place, ask, call},
    world::{self, eventually},
};

/// What sless may add on a machine that does nothing else.
const ADDED: Duration = Duration::from_millis(50);

async fn asleep(place: &Place, workload: &Workload) {
    let deployments = place.api::<Deployment>();
    let pods = place.api::<Pod>();
    eventually("it sleeps, and no pod is left", async || {
        let status = place.scheduler.status(&workload.function).await;
        let status = status.expect("a status");
        let there = pods.list(&Default::default()).await.expect("pods").items;
        let asked = deployments.list(&Default::default()).await.expect("listed");
        let asked = asked
            .items
            .iter()
            .filter_map(|found| found.spec.as_ref()?.replicas);
        let sleeps = status.asleep && there.is_empty() && asked.sum::<i32>() == 0;
        if sleeps {
            Ok(())
        } else {
            Err(format!("{status:?}, {} pods", there.len()))
        }
    })
    .await;
}

/// Whether the runtime at this address says that it is ready.
async fn is_ready(address: SocketAddr) -> bool {
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = "GET /_sless/readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        Ok::<_, std::io::Error>(&head == b"HTTP/1.1 200")
    };
    asked.await.unwrap_or(false)
}

/// When the copy was asked for, and when its runtime was ready, as somebody sees it who only looks on.
/// Says when it does so.
async fn look_on(
    deployments: Api<Deployment>,
    pods: Api<Pod>,
    looks: mpsc::Sender<()>,
) -> (Instant, Instant) {
    let asked = async {
        let mut all = watcher(deployments, watcher::Config::default()).boxed();
        loop {
            match all.next().await.expect("the watch goes on") {
                Ok(watcher::Event::InitDone) => looks.send(()).await.expect("somebody waits"),
                Ok(watcher::Event::Apply(found)) => {
                    let replicas = found.spec.and_then(|spec| spec.replicas);
                    if replicas.is_some_and(|replicas| replicas > 0) {
                        return Instant::now();
                    }
                }
                _ => {}
            }
        }
    };
    let ready = async {
        let mut all = watcher(pods, watcher::Config::default()).boxed();
        let address = loop {
            match all.next().await.expect("the watch goes on") {
                Ok(watcher::Event::InitDone) => looks.send(()).await.expect("somebody waits"),
                Ok(watcher::Event::Apply(pod)) => {
                    let ip = pod.status.and_then(|status| status.pod_ip);
                    if let Some(ip) = ip.and_then(|ip| ip.parse::<IpAddr>().ok()) {
                        break SocketAddr::new(ip, 8080);
                    }
                }
                _ => {}
            }
        };
        while !is_ready(address).await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Instant::now()
    };
    futures::join!(asked, ready)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn waking_adds_little_to_what_a_pod_takes() {
    let rounds = std::env::var("SLESS_TEST_WAKES").ok();
    let rounds: usize = rounds.map_or(3, |said| said.parse().expect("a number"));
    let place = Place::new().await;
    let mut workload = place
        .python("sleeper", "def handle(event):\n    return event\n")
        .await;
    workload.idle = Some(Duration::from_millis(300));
    let invoker = place.ready(&workload).await;
    ask(&invoker, &json!(0)).await;
    let mut added = Vec::new();
    for round in 0..rounds {
        asleep(&place, &workload).await;
        let (looks, mut looked) = mpsc::channel(2);
        let looking = tokio::spawn(look_on(place.api(), place.api(), looks));
        for _ in 0..2 {
            looked.recv().await.expect("it looks on");
        }
        let begun = Instant::now();
        let answer = call(&invoker, &json!(round)).await.expect("an answer");
        let first_byte = Instant::now();
        assert!(answer.status().is_success(), "{answer:?}");
        drop(answer);
        let (asked, ready) = looking.await.expect("it saw both");
        let before = asked.saturating_duration_since(begun);
        let after = first_byte.saturating_duration_since(ready);
        println!(
            "request to first byte {:?}; the pod's own start {:?}; added {:?} before and {:?} after it",
            first_byte - begun,
            ready.saturating_duration_since(asked),
            before,
            after,
        );
        added.push(before + after);
    }
    added.sort_unstable();
    println!("added by sless, of {rounds}: {added:?}");
    // The best of a few says what it costs; the others say what else the machine had to do.
    assert!(added[0] < 10 * ADDED, "{added:?}");
    place.end().await;
}

/// How many calls were answered, and how many refused with this word.
async fn burst(invoker: &Arc<dyn Invoke>, calls: usize, word: &str) -> (usize, usize) {
    let calls = (0..calls).map(|at| async move {
        let answer = call(invoker, &json!(at)).await?;
        let success = answer.status().is_success();
        // A call goes on until its answer is read.
        let body = answer.into_body().bytes(1 << 20).await?;
        sless_core::Result::Ok(success && body == at.to_string())
    });
    let all = join_all(calls).await;
    let answered = all.iter().filter(|call| matches!(call, Ok(true))).count();
    let is_refusal = |call: &sless_core::Result<bool>| {
        let refused = call.as_ref().err();
        refused.is_some_and(|error| error.reason() == word)
    };
    let refused = all.iter().filter(|call| is_refusal(call)).count();
    let other = all
        .iter()
        .find(|call| !matches!(call, Ok(true)) && !is_refusal(call));
    assert!(
        other.is_none(),
        "{other:?}; {answered} answered, {refused} refused"
    );
    (answered, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_burst_at_a_sleeping_function_is_served_within_its_bound() {
    const WAIT: usize = 60;
    let mark = world::mark();
    let mut config = world::config(&mark);
    config.scheduler.wake_queue_length = WAIT;
    let place = Place::of(mark, config).await;
    let mut workload = place
        .python(
            "burst",
            "import time\ndef handle(event):\n    time.sleep(0.02)\n    return event\n",
        )
        .await;
    (workload.concurrency, workload.idle) = (2, Some(Duration::from_millis(300)));
    let invoker = place.ready(&workload).await;
    // More than one pod takes at once.
    const { assert!(WAIT > 2 * (world::QUEUE_LENGTH + 2)) };
    asleep(&place, &workload).await;
    let served = burst(&invoker, WAIT, "limit_wake_queue_length").await;
    assert_eq!(served, (WAIT, 0));
    asleep(&place, &workload).await;
    let (served, refused) = burst(&invoker, WAIT + 15, "limit_wake_queue_length").await;
    assert_eq!((served, refused), (WAIT, 15));
    place.end().await;
}
