//! Several engines on the same backends: one of them leads.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use sless_core::{
    Backends, Body, CatalogExt as _, Error, FunctionPhase, Grant, Lease, Metadata, Options, Result,
    Sless, Trigger, TriggerSpec, VirtualClock,
    memory::{HandlerContext, MemoryLease},
};

use super::{World, deploy, name, ns, scheduler};

/// A lease that one process cannot reach any more.
#[derive(Debug)]
struct Reached {
    lease: Arc<MemoryLease>,
    cut: AtomicBool,
}

#[async_trait]
impl Lease for Reached {
    async fn acquire(&self, name: &str, holder: &str, ttl: Duration) -> Result<Option<Grant>> {
        if self.cut.load(Ordering::Relaxed) {
            return Err(Error::unavailable("cut off"));
        }
        self.lease.acquire(name, holder, ttl).await
    }

    async fn release(&self, name: &str, holder: &str) -> Result<()> {
        self.lease.release(name, holder).await
    }
}

struct Pair {
    first: World,
    second: Sless,
    /// How the first one reaches the lease.
    reached: Arc<Reached>,
    /// The due times with which the function was called.
    calls: Arc<Mutex<Vec<String>>>,
}

fn pair() -> Pair {
    let clock = VirtualClock::default();
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let noted = calls.clone();
    let scheduler = scheduler(&clock).with_handler(
        "main.note",
        move |request: http::Request<Body>, _: HandlerContext| {
            let noted = noted.clone();
            async move {
                let body = request.into_body().bytes(1024).await.expect("a body");
                let event: serde_json::Value = serde_json::from_slice(&body).expect("an event");
                let at = event["scheduled_at"].as_str().expect("a time").to_owned();
                noted.lock().expect("not poisoned").push(at);
                Ok(http::Response::new(Body::empty()))
            }
        },
    );
    let lease = Arc::new(MemoryLease::new(Arc::new(clock.clone())));
    let reached = Arc::new(Reached {
        lease: lease.clone(),
        cut: AtomicBool::new(false),
    });
    let mut backends = Backends::in_memory_on(Arc::new(clock.clone()));
    backends.scheduler = Arc::new(scheduler);
    let mut of_second = backends.clone();
    backends.lease = Some(reached.clone());
    of_second.lease = Some(lease);
    let builder = Arc::new(sless_core::memory::MemoryBuilder::new(Arc::new(
        clock.clone(),
    )));
    let dispatcher = Arc::new(sless_core::memory::MemoryDispatcher::new(Arc::new(
        clock.clone(),
    )));
    let first = World {
        sless: Sless::with_options(backends, Options::default()).expect("backends that fit"),
        clock,
        builder,
        dispatcher,
    };
    let second = Sless::with_options(of_second, Options::default()).expect("backends that fit");
    Pair {
        first,
        second,
        reached,
        calls,
    }
}

async fn every_minute(pair: &Pair) {
    let spec = TriggerSpec::cron(name("note"), "* * * * *");
    let trigger = Trigger::new(Metadata::new(ns(), name("clock")), spec);
    let catalog = &pair.second.backends().catalog;
    catalog.add(trigger).await.expect("created");
    pair.first.rest().await;
}

fn minutes(count: u32) -> Vec<String> {
    (1..=count)
        .map(|minute| format!("2026-01-01T00:{minute:02}:00Z"))
        .collect()
}

#[tokio::test]
async fn one_of_two_fires_and_the_other_takes_over_when_it_is_cut_off() {
    let pair = pair();
    pair.first.rest().await;
    let code = deploy("note", "main.note", "code");
    pair.second
        .deploy(code)
        .await
        .expect("deployed by the other");
    every_minute(&pair).await;
    for _ in 0..3 * 60 + 30 {
        pair.first.clock.advance(Duration::from_secs(1)).await;
    }
    pair.reached.cut.store(true, Ordering::Relaxed);
    for _ in 0..6 * 60 + 35 {
        pair.first.clock.advance(Duration::from_secs(1)).await;
    }
    pair.first.rest().await;
    let mut calls = pair.calls.lock().expect("not poisoned").clone();
    calls.sort();
    assert_eq!(calls, minutes(10), "each time once, and none left out");
    let seen: Trigger = pair
        .second
        .backends()
        .catalog
        .read(&ns(), &name("clock"))
        .await
        .expect("a trigger");
    assert_eq!(seen.status.ledger.expect("a ledger").fired, 10);
}

#[tokio::test]
async fn a_process_that_ends_hands_over_at_once() {
    let pair = pair();
    pair.first.rest().await;
    let stopping = pair.first.sless.clone();
    stopping.shutdown().await;
    // Less than a lease lasts.
    pair.first.clock.advance(Duration::from_secs(5)).await;
    let code = deploy("hello", "main.echo", "code");
    pair.second
        .deploy(code)
        .await
        .expect("deployed by the other");
    let hello = pair.first.until("hello", FunctionPhase::Ready).await;
    assert_eq!(hello.status.observed_generation, hello.metadata.generation);
}
