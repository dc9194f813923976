//! A world that goes through a script.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use sless_core::{
    Backends, Body, BuildRequest, Catalog as _, CatalogExt as _, Failure, Function, Kind,
    ListQuery, Name, Namespace, Options, Scheduler as _, Sless, Trigger, TriggerType, VirtualClock,
    decorate::{Fault, FaultRule, Faults},
    memory::{
        BuildPlan, HandlerContext, HandlerError, MemoryBuilder, MemoryBuilderConfig, MemoryCatalog,
        MemoryCatalogConfig, MemoryDispatcher, MemoryInvocationLog, MemoryLease, MemoryScheduler,
        MemorySchedulerConfig, MemoryStorage,
    },
};
use tokio::task::JoinSet;

use super::{
    checks,
    client::ask,
    ops::{Build, Op, build_of},
    script::Script,
    seen::Seen,
    watched::Watched,
};

/// What came of a script.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) digest: u64,
    pub(super) broken: Vec<String>,
    pub(super) trace: Vec<String>,
}

/// Turns of the clock's tasks: what takes more goes on at the next instant, as on a slow machine.
const TURNS: usize = 6;

/// How long what was wanted may take to become so, once nothing fails any more: longer than the
/// slowest hint, the resync.
const CONVERGES_WITHIN: Duration = Duration::from_secs(25 * 60);

/// How long nothing may be written then.
const REST: Duration = Duration::from_secs(30 * 60);

/// How long a client may wait for an answer.
pub(super) const ANSWER: Duration = Duration::from_secs(20 * 60);

pub(super) fn run(script: &Script) -> Ended {
    let mut durable = Durable::new(script);
    let seen = durable.seen.clone();
    let mut ops = script.ops.iter();
    loop {
        // A process: when it crashes, its runtime goes, and every task with it.
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let crashed = runtime.block_on(async {
            let mut world = World::start(&durable, script).await;
            for op in ops.by_ref() {
                seen.note(format_args!("{op:?}"));
                if let Op::Crash { hang } = op {
                    world.hang(*hang).await;
                    return true;
                }
                world.apply(op).await;
            }
            world.finish().await;
            false
        });
        drop(runtime);
        if !crashed {
            break;
        }
        durable = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(durable.after_a_crash());
    }
    let broken = std::mem::take(&mut seen.state().broken);
    Ended {
        digest: seen.digest(),
        broken,
        trace: seen.trace(),
    }
}

/// What a crash leaves.
pub(super) struct Durable {
    pub(super) seen: Arc<Seen>,
    pub(super) clock: VirtualClock,
    pub(super) catalog: Arc<MemoryCatalog>,
    pub(super) storage: Arc<MemoryStorage>,
    pub(super) builder: Arc<MemoryBuilder>,
    pub(super) scheduler: Arc<MemoryScheduler>,
    pub(super) dispatcher: Arc<MemoryDispatcher>,
    log: Arc<MemoryInvocationLog>,
    lease: Arc<MemoryLease>,
    /// How often the build of a source that fails twice was tried.
    tries: Arc<Mutex<BTreeMap<String, u32>>>,
    /// Engines started so far.
    started: Arc<Mutex<u64>>,
}

impl Durable {
    fn new(script: &Script) -> Self {
        let clock = VirtualClock::default().with_turns(TURNS);
        let seen = Arc::new(Seen::new(clock.clone()));
        let shared = Arc::new(clock.clone());
        let mut of_catalog = MemoryCatalogConfig::default();
        of_catalog.uid_seed = Some(script.seed);
        let mut of_scheduler = MemorySchedulerConfig::default();
        of_scheduler.start_delay = script.start_delay;
        let tries = Arc::default();
        let of_builder = MemoryBuilderConfig::default();
        Self {
            catalog: Arc::new(MemoryCatalog::with_config(shared.clone(), of_catalog)),
            storage: Arc::new(MemoryStorage::new(shared.clone())),
            builder: Arc::new(MemoryBuilder::with_config(
                shared.clone(),
                of_builder,
                planner(&tries),
            )),
            scheduler: Arc::new(scheduler(
                MemoryScheduler::with_config(shared.clone(), of_scheduler),
                &seen,
            )),
            dispatcher: Arc::new(MemoryDispatcher::new(shared.clone())),
            log: Arc::default(),
            lease: Arc::new(MemoryLease::new(shared)),
            clock,
            seen,
            tries,
            started: Arc::default(),
        }
    }

    async fn after_a_crash(self) -> Self {
        Self {
            builder: Arc::new(self.builder.restarted(planner(&self.tries)).await),
            scheduler: Arc::new(self.scheduler.restarted().await),
            dispatcher: Arc::new(self.dispatcher.restarted().await),
            ..self
        }
    }

    pub(super) fn watched(&self) -> Watched<MemoryDispatcher> {
        Watched {
            inner: self.dispatcher.clone(),
            seen: self.seen.clone(),
        }
    }
}

fn planner(
    tries: &Arc<Mutex<BTreeMap<String, u32>>>,
) -> impl Fn(&BuildRequest) -> BuildPlan + Send + Sync + 'static {
    let tries = tries.clone();
    move |request| {
        let plan = BuildPlan::default();
        match build_of(request.id.code) {
            Some(Build::Slow) => plan.taking(Duration::from_secs(20)),
            Some(Build::Bad) => plan.failing(Failure::new("install_failed", "never builds")),
            Some(Build::Flaky) => {
                let mut tries = tries.lock().unwrap();
                let tries = tries.entry(request.id.short()).or_default();
                *tries += 1;
                match *tries {
                    1 | 2 => plan.failing_for_now(Failure::new("registry_away", "not now")),
                    _ => plan,
                }
            }
            _ => plan,
        }
    }
}

/// The functions: `main.ok` answers with the digest of its code, `main.fail` raises, `main.slow` takes
/// seven seconds.
fn scheduler(scheduler: MemoryScheduler, seen: &Arc<Seen>) -> MemoryScheduler {
    let mut all = scheduler;
    for (entrypoint, takes, fails) in [
        ("main.ok", 0, false),
        ("main.fail", 0, true),
        ("main.slow", 7, false),
    ] {
        let seen = seen.clone();
        let handler = move |request: http::Request<Body>, context: HandlerContext| {
            let seen = seen.clone();
            async move {
                seen.note(format_args!(
                    "{} is called: {}",
                    context.function.name, entrypoint
                ));
                if context.run_id.is_some() {
                    *seen
                        .state()
                        .begun
                        .entry(context.request_id.to_string())
                        .or_default() += 1;
                }
                if takes > 0 {
                    context.clock().sleep(Duration::from_secs(takes)).await;
                }
                if fails {
                    return Err(HandlerError::new("ValueError", "no good"));
                }
                if let Some(id) = request.headers().get("x-sless-message-id") {
                    let id = id.to_str().unwrap().to_owned();
                    seen.state().handled.insert(id);
                }
                let code = context.code().map(|code| code.to_string());
                Ok(http::Response::new(Body::from(code.unwrap_or_default())))
            }
        };
        all = all.with_handler(entrypoint, handler);
    }
    all
}

pub(super) fn ns() -> Namespace {
    Namespace::new("sim").unwrap()
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A process with its engines.
pub(super) struct World<'a> {
    pub(super) durable: &'a Durable,
    seed: u64,
    engines: Vec<(Sless, Faults)>,
    /// What clients wait for.
    clients: JoinSet<()>,
    asked: usize,
}

impl<'a> World<'a> {
    async fn start(durable: &'a Durable, script: &Script) -> Self {
        durable.catalog.ensure_namespace(&ns()).await.unwrap();
        durable.scheduler.ensure_namespace(&ns()).await.unwrap();
        let mut world = Self {
            durable,
            seed: script.seed,
            engines: Vec::new(),
            clients: JoinSet::new(),
            asked: 0,
        };
        for _ in 0..script.engines {
            let engine = world.engine(script.engines > 1);
            world.engines.push(engine);
        }
        world
    }

    fn engine(&self, shared: bool) -> (Sless, Faults) {
        let Durable {
            catalog,
            storage,
            builder,
            scheduler,
            dispatcher,
            log,
            lease,
            clock,
            seen,
            ..
        } = self.durable;
        let number = {
            let mut started = self.durable.started.lock().unwrap();
            *started += 1;
            *started
        };
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(number);
        let clock = Arc::new(clock.clone());
        let faults = Faults::seeded(seed, clock.clone());
        let watched = Watched {
            inner: catalog.clone(),
            seen: seen.clone(),
        };
        let backends = Backends {
            catalog: Arc::new(Fault::new(watched, &faults)),
            storage: Arc::new(Fault::new(storage.clone(), &faults)),
            builders: vec![Arc::new(Fault::new(builder.clone(), &faults))],
            scheduler: Arc::new(Fault::new(scheduler.clone(), &faults)),
            dispatcher: Arc::new(Fault::new(self.durable.watched(), &faults)),
            publisher: Some(Arc::new(Fault::new(dispatcher.clone(), &faults))),
            invocations: Some(Arc::new(Fault::new(log.clone(), &faults))),
            lease: shared.then(|| Arc::new(Fault::new(lease.clone(), &faults)) as _),
            ..Backends::in_memory_on(clock)
        };
        let mut options = Options::default();
        options.instance = format!("engine-{number}");
        options.simulation = Some(seed);
        options.sweep = Some(Duration::from_secs(600));
        let engine = Sless::with_options(backends, options).unwrap();
        (engine, faults)
    }

    /// One line of the script. What clients ask for goes on beside what follows.
    async fn apply(&mut self, op: &Op) {
        match op {
            Op::Advance(time) => self.durable.clock.advance(*time).await,
            Op::Fault { engine, rule } => self.engines[*engine].1.add(rule.clone()),
            Op::FaultsEnd => self.engines.iter().for_each(|(_, faults)| faults.clear()),
            Op::ForgetHistory => self.durable.catalog.forget_history(),
            Op::Restart { engine } => self.restart(*engine).await,
            Op::Crash { .. } => {}
            op => {
                self.asked += 1;
                let (sless, _) = &self.engines[self.asked % self.engines.len()];
                let (sless, seen, op) = (sless.clone(), self.durable.seen.clone(), op.clone());
                self.clients.spawn(async move {
                    let answer = ask(&sless, &seen, &op).await;
                    let answer = answer.map_err(|error| error.kind());
                    seen.note(format_args!("answer to {op:?}: {answer:?}"));
                });
                self.durable.clock.settle().await;
            }
        }
    }

    async fn restart(&mut self, engine: usize) {
        let shared = self.engines.len() > 1;
        let stopping = self.engines[engine].0.clone();
        self.within(
            ANSWER,
            "a shutdown",
            async move { stopping.shutdown().await },
        )
        .await;
        self.engines[engine] = self.engine(shared);
        self.durable.clock.settle().await;
    }

    /// Lets every call of this kind hang, before or after it was carried out, and goes on a little.
    async fn hang(&mut self, hang: Option<(&'static str, bool)>) {
        let Some((operation, after)) = hang else {
            return;
        };
        for (_, faults) in &self.engines {
            faults.clear();
            let rule = FaultRule::on(operation);
            faults.add(if after {
                rule.hanging_after()
            } else {
                rule.hanging()
            });
        }
        self.durable.clock.advance(Duration::from_secs(2)).await;
    }

    /// Lets time pass until this is done.
    pub(super) async fn within(
        &self,
        limit: Duration,
        what: &str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let clock = &self.durable.clock;
        let work = tokio::spawn(work);
        let until = clock_elapsed(clock) + limit;
        clock.settle().await;
        while !work.is_finished() {
            if clock_elapsed(clock) > until {
                self.durable.seen.broken(format!("{what} does not end"));
                return;
            }
            clock.advance(Duration::from_millis(500)).await;
        }
    }

    /// Ends the faults, and looks at what has become of everything.
    async fn finish(mut self) {
        let Durable {
            clock,
            catalog,
            seen,
            ..
        } = self.durable;
        self.engines.iter().for_each(|(_, faults)| faults.clear());
        let mut clients = std::mem::take(&mut self.clients);
        let answered = async move { while clients.join_next().await.is_some() {} };
        self.within(ANSWER, "a client's call", answered).await;
        let triggers: Vec<Trigger> = catalog.read_all(None).await.unwrap();
        for trigger in triggers {
            if trigger.spec.kind == TriggerType::Cron && !trigger.metadata.is_deleting() {
                let rare = |trigger: &mut Trigger| {
                    trigger.spec.schedule = Some("0 0 1 12 *".to_owned());
                    Ok(())
                };
                let changed = catalog.modify(&ns(), &trigger.metadata.name, rare).await;
                changed.unwrap();
            }
        }
        clock.advance(CONVERGES_WITHIN).await;
        let before = self.position().await;
        seen.note(format_args!("rests"));
        clock.advance(REST).await;
        let after = self.position().await;
        if before != after {
            seen.broken(format!("written at rest: from {before} to {after}"));
        }
        let (sless, _) = &self.engines[0];
        checks::all(&self, sless).await;
        checks::messages(&self, sless).await;
        for engine in 0..self.engines.len() {
            let stopping = self.engines[engine].0.clone();
            self.within(
                ANSWER,
                "a shutdown",
                async move { stopping.shutdown().await },
            )
            .await;
        }
    }

    async fn position(&self) -> String {
        let query = ListQuery::all(Kind::Function);
        let page = self.durable.catalog.list(&query);
        page.await.unwrap().position.as_str().to_owned()
    }
}

fn clock_elapsed(clock: &VirtualClock) -> Duration {
    sless_core::Clock::elapsed(clock)
}

/// All functions that there are.
pub(super) async fn functions(world: &World<'_>) -> Vec<Function> {
    world.durable.catalog.read_all(None).await.unwrap()
}
