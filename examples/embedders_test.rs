//! How a program that embeds sless tests itself: backends in memory, a clock that it moves by hand,
//! and faults that come when it says so. Nothing here needs Python, a network or a disk.
//!
//! In your program each of the functions below is a `#[tokio::test]`.
//!
//! `cargo run -p sless-examples --example embedders_test`
#![allow(clippy::print_stdout, reason = "it shows how long a year takes")]

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use sless_core::{
    Backends, Body, CatalogExt as _, Deploy, Error, ErrorKind, Function, FunctionSpec, Metadata,
    Name, Namespace, Options, Result, Runtime, Sless, Trigger, TriggerSpec, VirtualClock,
    decorate::{Fault, FaultRule, Faults},
    memory::{HandlerContext, HandlerError, MemoryScheduler},
};

/// The program under test: it sends a greeting by a function, and knows what to do when that fails.
#[derive(Debug)]
struct Greeter {
    sless: Sless,
    namespace: Namespace,
    function: Name,
}

impl Greeter {
    async fn start(backends: Backends) -> Result<Self> {
        let mut options = Options::default();
        // Twice a day is enough here, and lets a year of it pass quickly.
        options.resync = Duration::from_secs(12 * 3600);
        let sless = Sless::with_options(backends, options)?;
        Ok(Self {
            sless,
            namespace: Namespace::new("greetings")?,
            function: Name::new("greet")?,
        })
    }

    async fn deploy(&self, code: &'static str) -> Result<Function> {
        let spec = FunctionSpec::new(Runtime::Python311);
        let (namespace, name) = (self.namespace.clone(), self.function.clone());
        self.sless
            .deploy(Deploy::files(
                namespace,
                name,
                spec,
                [("handler.py", code)],
            )?)
            .await
    }

    /// A greeting from the function, or a plain one where the function cannot be had.
    async fn greet(&self, whom: &'static str) -> Result<String> {
        let request = http::Request::new(Body::from(whom));
        match self
            .sless
            .invoke(&self.namespace, &self.function, request)
            .await
        {
            Ok(response) if response.status().is_success() => {
                let body = response.into_body().bytes(1024).await?;
                String::from_utf8(body.to_vec()).map_err(|_| Error::internal("no text"))
            }
            Ok(_) => Ok(format!("Dear {whom}")),
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(format!("Dear {whom}")),
            Err(error) => Err(error),
        }
    }

    /// Greets by itself at nine o'clock in Berlin, from Monday to Friday.
    async fn greet_daily(&self) -> Result<()> {
        let mut spec = TriggerSpec::cron(self.function.clone(), "0 9 * * 1-5");
        spec.time_zone = Some("Europe/Berlin".to_owned());
        let metadata = Metadata::new(self.namespace.clone(), Name::new("daily")?);
        self.sless
            .backends()
            .catalog
            .add(Trigger::new(metadata, spec))
            .await
            .map(drop)
    }
}

/// What a test holds in its hand.
#[derive(Debug)]
struct World {
    clock: VirtualClock,
    faults: Faults,
    greeter: Greeter,
    /// When the function was called.
    calls: Arc<Mutex<Vec<Timestamp>>>,
}

/// A program on backends in memory, with faults around those that the tests break.
async fn world() -> Result<World> {
    let clock = VirtualClock::default();
    let shared = Arc::new(clock.clone());
    let faults = Faults::seeded(1, shared.clone());
    let calls = Arc::new(Mutex::new(Vec::new()));
    // In memory the function is this closure; the code that is deployed only gives it a digest.
    let seen = calls.clone();
    let handler = move |request: http::Request<Body>, context: HandlerContext| {
        let seen = seen.clone();
        async move {
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(context.clock().now());
            let whom = request.into_body().bytes(1024).await;
            let whom = whom.map_err(|error| HandlerError::new("OSError", error.message()))?;
            let greeting = format!("Hello, {}!", String::from_utf8_lossy(&whom));
            Ok(http::Response::new(Body::from(greeting)))
        }
    };
    let scheduler = MemoryScheduler::new(shared.clone()).with_handler("handler.handle", handler);
    let memory = Backends::in_memory_on(shared);
    let backends = Backends {
        storage: Arc::new(Fault::new(memory.storage, &faults)),
        scheduler: Arc::new(Fault::new(scheduler, &faults)),
        ..memory
    };
    Ok(World {
        clock,
        faults,
        greeter: Greeter::start(backends).await?,
        calls,
    })
}

async fn it_greets() -> Result<()> {
    let world = world().await?;
    world.greeter.deploy("version 1").await?;
    assert_eq!(world.greeter.greet("Ada").await?, "Hello, Ada!");
    world.greeter.sless.shutdown().await;
    Ok(())
}

async fn it_is_polite_while_the_function_is_away() -> Result<()> {
    let world = world().await?;
    world.greeter.deploy("version 1").await?;
    let away = FaultRule::on("scheduler.invoke")
        .first(2)
        .failing(ErrorKind::Unavailable);
    world.faults.add(away);
    for _ in 0..2 {
        assert_eq!(world.greeter.greet("Ada").await?, "Dear Ada");
    }
    assert_eq!(world.greeter.greet("Ada").await?, "Hello, Ada!");
    assert_eq!(world.faults.injected("scheduler.invoke"), 2);
    world.greeter.sless.shutdown().await;
    Ok(())
}

async fn a_deploy_that_breaks_off_leaves_the_old_version() -> Result<()> {
    let world = world().await?;
    let before = world.greeter.deploy("version 1").await?;
    // The zip is stored, and then the store is away: half of an upload.
    let puts = world.faults.calls("storage.put");
    world.faults.add(
        FaultRule::on("storage.put")
            .nth(2)
            .failing(ErrorKind::Unavailable),
    );
    let error = world
        .greeter
        .deploy("version 2")
        .await
        .expect_err("the store is away");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(world.faults.calls("storage.put"), puts + 2);
    let Greeter {
        sless,
        namespace,
        function,
    } = &world.greeter;
    let now: Function = sless.backends().catalog.read(namespace, function).await?;
    assert_eq!(now.spec.code_sha256, before.spec.code_sha256);
    assert_eq!(world.greeter.greet("Ada").await?, "Hello, Ada!");
    // The same again, and it goes through.
    let after = world.greeter.deploy("version 2").await?;
    assert_ne!(after.spec.code_sha256, before.spec.code_sha256);
    world.greeter.sless.shutdown().await;
    Ok(())
}

async fn it_greets_on_every_working_day_of_a_year() -> Result<()> {
    let world = world().await?;
    world.greeter.deploy("version 1").await?;
    world.greeter.greet_daily().await?;
    let begun = Instant::now();
    // From the first of January 2026, where this clock begins.
    world
        .clock
        .advance(Duration::from_secs(365 * 24 * 3600))
        .await;
    println!("a year took {:.1?}", begun.elapsed());
    let calls = world
        .calls
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    assert_eq!(calls.len(), 261, "working days of 2026");
    // Nine o'clock stays nine o'clock when the clocks change: eight in UTC in winter, seven in summer.
    let hours = |hour| {
        calls
            .iter()
            .filter(|at| at.strftime("%H:%M").to_string() == hour)
            .count()
    };
    assert_eq!((hours("08:00"), hours("07:00")), (111, 150));
    world.greeter.sless.shutdown().await;
    Ok(())
}

/// On one thread a virtual clock gives the same run every time.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    it_greets().await?;
    it_is_polite_while_the_function_is_away().await?;
    a_deploy_that_breaks_off_leaves_the_old_version().await?;
    it_greets_on_every_working_day_of_a_year().await
}
