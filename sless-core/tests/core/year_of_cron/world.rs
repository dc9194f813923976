//! An engine that goes through the year, and is ended again and again.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use sless_core::{
    Backends, Body, Catalog, CatalogExt as _, Clock as _, Deploy, FunctionSpec, Metadata, Name,
    Namespace, Options, Runtime, Sless, Trigger, TriggerSpec, VirtualClock,
    decorate::{Fault, FaultRule, Faults},
    memory::{HandlerContext, MemoryBuilder, MemoryCatalog, MemoryScheduler, MemoryStorage},
};

use super::{
    history::{History, Process, Run},
    schedules::Plan,
};

/// Turns of the clock's tasks: few, since [`Year::rest`] goes on until all is done.
const TURNS: usize = 2;

/// What the functions have told so far.
type Runs = Arc<Mutex<BTreeMap<String, Vec<Run>>>>;

/// How a process ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is shut down.
    Orderly,
    /// It is gone.
    Crash,
    /// It is gone while it waits for the answer to this write of a status, which was carried out or
    /// not.
    InWrite { nth: u64, done: bool },
}

fn ns() -> Namespace {
    Namespace::new("year").unwrap()
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Lets so many days pass, in which the process ends so often.
pub(super) fn run(plans: &[Plan], days: i64, ends: usize, random: &mut fastrand::Rng) -> History {
    let mut year = Year::new(plans);
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    let (begin, length) = (year.clock.now(), SignedDuration::from_hours(days * 24));
    let mut moments: Vec<i64> = (0..ends)
        .map(|_| random.i64(3_600..length.as_secs() - 3_600))
        .collect();
    moments.sort_unstable();
    for moment in moments {
        let at = begin + SignedDuration::from_secs(moment);
        let at = at.max(year.clock.now() + SignedDuration::from_secs(90));
        let end = match random.u8(..10) {
            0..2 => End::Orderly,
            2..5 => End::Crash,
            _ => End::InWrite {
                nth: random.u64(1..4),
                done: random.bool(),
            },
        };
        runtime().block_on(year.live(at, end));
        year.note_the_end();
        let down = match random.u8(..10) {
            0..6 => random.u64(1..180),
            6..9 => random.u64(180..12_000),
            _ => random.u64(12_000..150_000),
        };
        runtime().block_on(async {
            year.clock.advance(Duration::from_secs(down)).await;
            year.scheduler = Arc::new(year.scheduler.restarted().await);
        });
    }
    runtime().block_on(year.live(begin + length, End::Crash));
    year.note_the_end();
    year.history()
}

struct Year<'a> {
    plans: &'a [Plan],
    clock: VirtualClock,
    catalog: Arc<MemoryCatalog>,
    storage: Arc<MemoryStorage>,
    builder: Arc<MemoryBuilder>,
    scheduler: Arc<MemoryScheduler>,
    runs: Runs,
    processes: Vec<Process>,
    created: Timestamp,
}

impl<'a> Year<'a> {
    fn new(plans: &'a [Plan]) -> Self {
        let clock = VirtualClock::default().with_turns(TURNS);
        let shared = Arc::new(clock.clone());
        let runs = Runs::default();
        Self {
            plans,
            created: clock.now(),
            catalog: Arc::new(MemoryCatalog::new(shared.clone())),
            storage: Arc::new(MemoryStorage::new(shared.clone())),
            builder: Arc::new(MemoryBuilder::new(shared.clone())),
            scheduler: Arc::new(scheduler(plans, &clock, &runs)),
            clock,
            runs,
            processes: Vec::new(),
        }
    }

    /// A process from now until about this time.
    async fn live(&mut self, until: Timestamp, end: End) {
        let clock: Arc<dyn sless_core::Clock> = Arc::new(self.clock.clone());
        let faults = Faults::seeded(1, clock.clone());
        let backends = Backends {
            catalog: Arc::new(Fault::new(self.catalog.clone(), &faults)),
            storage: self.storage.clone(),
            builders: vec![self.builder.clone()],
            scheduler: self.scheduler.clone(),
            invocations: None,
            ..Backends::in_memory_on(clock)
        };
        let mut options = Options::default();
        options.simulation = Some(1);
        // No hint is lost here.
        options.resync = Duration::from_secs(100 * 3600);
        let mut process = Process {
            began: self.clock.now(),
            leaves: None,
            ended: self.clock.now(),
            claimed: BTreeMap::new(),
        };
        let sless = Sless::with_options(backends, options).unwrap();
        if self.processes.is_empty() {
            self.begin(&sless).await;
        }
        self.rest(&faults).await;
        self.go_on(until, &faults, || false).await;
        match end {
            End::Crash => {}
            End::Orderly => {
                let stopped = Arc::new(AtomicBool::new(false));
                let (stopping, done) = (sless.clone(), stopped.clone());
                tokio::spawn(async move {
                    stopping.shutdown().await;
                    done.store(true, Ordering::Relaxed);
                });
                process.leaves = Some(self.clock.now());
                let limit = self.clock.now() + SignedDuration::from_secs(120);
                self.go_on(limit, &faults, || stopped.load(Ordering::Relaxed))
                    .await;
                assert!(stopped.load(Ordering::Relaxed), "a shutdown does not end");
            }
            End::InWrite { nth, done } => {
                const WRITE: &str = "catalog.update_status";
                let rule = FaultRule::on(WRITE).nth(nth);
                faults.add(if done {
                    rule.hanging_after()
                } else {
                    rule.hanging()
                });
                let limit = self.clock.now() + SignedDuration::from_hours(2);
                self.go_on(limit, &faults, || faults.injected(WRITE) > 0)
                    .await;
            }
        }
        process.ended = self.clock.now();
        self.processes.push(process);
    }

    async fn begin(&self, sless: &Sless) {
        let mut spec = FunctionSpec::new(Runtime::Python311);
        spec.entrypoint = "main.run".parse().unwrap();
        spec.timeout_seconds = FunctionSpec::TIMEOUT_SECONDS_MAX;
        (spec.replicas, spec.concurrency) = (Some(20), FunctionSpec::CONCURRENCY_MAX);
        let code = [("main.py", "# runs")];
        let deploy = Deploy::files(ns(), name("run"), spec, code).unwrap();
        sless.deploy(deploy).await.unwrap();
        for plan in self.plans {
            let mut spec = TriggerSpec::cron(name("run"), plan.text.as_str());
            spec.time_zone = Some(plan.zone.to_owned());
            spec.policies = Some(plan.policies.clone());
            let trigger = Trigger::new(Metadata::new(ns(), name(&plan.name)), spec);
            self.catalog.add(trigger).await.unwrap();
        }
    }

    /// Lets time pass up to `until`, or until something is so.
    async fn go_on(&self, until: Timestamp, faults: &Faults, over: impl Fn() -> bool) {
        let reached = Arc::new(AtomicBool::new(false));
        let alarm = tokio::spawn({
            let (clock, reached) = (self.clock.clone(), reached.clone());
            async move {
                clock.wake_at(until).await;
                reached.store(true, Ordering::Relaxed);
            }
        });
        self.clock.settle().await;
        while !reached.load(Ordering::Relaxed) && !over() {
            assert!(self.clock.advance_to_next().await, "time stands still");
            self.rest(faults).await;
        }
        alarm.abort();
    }

    /// Lets everything be done that is to be done now: hundreds of triggers may be due at once.
    async fn rest(&self, faults: &Faults) {
        let done = || faults.all_calls().values().sum::<u64>();
        let mut before = done();
        loop {
            self.clock.settle().await;
            let now = done();
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// The process is gone: its runs were cut off, and the catalog says what it had claimed.
    fn note_the_end(&mut self) {
        let now = self.clock.now();
        for run in self.runs.lock().unwrap().values_mut().flatten() {
            run.ended.get_or_insert(now);
        }
        let triggers = self.triggers().now_or_never().expect("at once");
        let process = self.processes.last_mut().unwrap();
        for trigger in triggers {
            let ledger = trigger.status.ledger.unwrap_or_default();
            let claimed = ledger.running.into_iter().chain(ledger.interrupted);
            let trigger = trigger.metadata.name.as_str().to_owned();
            process.claimed.insert(trigger, claimed.collect());
        }
    }

    async fn triggers(&self) -> Vec<Trigger> {
        let catalog: &dyn Catalog = &*self.catalog;
        catalog.read_all(None).await.unwrap()
    }

    fn history(self) -> History {
        let triggers = self.triggers().now_or_never().expect("at once");
        let ledgers = triggers.into_iter().map(|trigger| {
            let ledger = trigger.status.ledger.unwrap_or_default();
            (trigger.metadata.name.as_str().to_owned(), ledger)
        });
        let runs = self.runs.lock().unwrap().clone();
        History {
            created: self.created,
            runs,
            processes: self.processes,
            ledgers: ledgers.collect(),
        }
    }
}

/// One function for all triggers, whose runs take as long as their plan says.
fn scheduler(plans: &[Plan], clock: &VirtualClock, runs: &Runs) -> MemoryScheduler {
    let takes = plans.iter().map(|plan| (plan.name.clone(), plan.takes));
    let takes: Arc<BTreeMap<_, _>> = Arc::new(takes.collect());
    let (shared, runs) = (clock.clone(), runs.clone());
    let handler = move |request: http::Request<Body>, _: HandlerContext| {
        let (clock, runs, takes) = (shared.clone(), runs.clone(), takes.clone());
        async move {
            let body = request.into_body().bytes(10_000).await.unwrap();
            let event: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let text = |field: &str| event[field].as_str().unwrap().to_owned();
            let trigger = text("trigger");
            let place = {
                let mut runs = runs.lock().unwrap();
                let runs = runs.entry(trigger.clone()).or_default();
                runs.push(Run {
                    due: text("scheduled_at").parse().unwrap(),
                    cause: text("cause"),
                    began: clock.now(),
                    ended: None,
                });
                runs.len() - 1
            };
            let takes = takes[&trigger];
            if !takes.is_zero() {
                clock.sleep(takes).await;
            }
            runs.lock().unwrap().get_mut(&trigger).unwrap()[place].ended = Some(clock.now());
            Ok(http::Response::new(Body::empty()))
        }
    };
    MemoryScheduler::new(Arc::new(clock.clone())).with_handler("main.run", handler)
}
