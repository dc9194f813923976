//! The engine on backends in memory, on a virtual clock.

mod cron_scheduler;
mod events;
mod functions;
mod jobs;
mod leadership;
mod orphans;
mod records;
mod runtimes;
mod schedules;
mod uploads;

use std::{sync::Arc, time::Duration};

use sless_core::{
    Backends, Body, CatalogExt as _, Deploy, Error, Function, FunctionPhase, FunctionSpec, Name,
    Namespace, Options, Result, Runtime, Sless, VirtualClock,
    memory::{HandlerContext, HandlerError, MemoryBuilder, MemoryDispatcher, MemoryScheduler},
};

/// An engine and what a test wants to get hold of.
struct World {
    clock: VirtualClock,
    sless: Sless,
    builder: Arc<MemoryBuilder>,
    dispatcher: Arc<MemoryDispatcher>,
}

/// The functions of the tests: `main.echo` answers the body, `main.fail` raises, `main.slow` takes ten
/// seconds, `main.count` answers the request's headers of ours.
fn scheduler(clock: &VirtualClock) -> MemoryScheduler {
    MemoryScheduler::new(Arc::new(clock.clone()))
        .with_handler(
            "main.echo",
            |request: http::Request<Body>, _: HandlerContext| async move {
                Ok(http::Response::new(request.into_body()))
            },
        )
        .with_handler(
            "main.fail",
            |_: http::Request<Body>, _: HandlerContext| async move {
                Err(HandlerError::new("ValueError", "no good"))
            },
        )
        .with_handler(
            "main.slow",
            |_: http::Request<Body>, context: HandlerContext| async move {
                context.clock().sleep(Duration::from_secs(10)).await;
                Ok(http::Response::new(Body::empty()))
            },
        )
}

fn world() -> World {
    world_with(Options::default(), |_| {})
}

fn world_with(options: Options, change: impl FnOnce(&mut Backends)) -> World {
    let clock = VirtualClock::default();
    let builder = Arc::new(MemoryBuilder::new(Arc::new(clock.clone())));
    let dispatcher = Arc::new(MemoryDispatcher::new(Arc::new(clock.clone())));
    let mut backends = Backends {
        builders: vec![builder.clone()],
        dispatcher: dispatcher.clone(),
        publisher: Some(dispatcher.clone()),
        scheduler: Arc::new(scheduler(&clock)),
        ..Backends::in_memory_on(Arc::new(clock.clone()))
    };
    change(&mut backends);
    let sless = Sless::with_options(backends, options).expect("backends that fit");
    World {
        clock,
        sless,
        builder,
        dispatcher,
    }
}

fn ns() -> Namespace {
    Namespace::new("test").expect("a label")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a label")
}

fn spec(entrypoint: &str) -> FunctionSpec {
    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.entrypoint = entrypoint.parse().expect("an entrypoint");
    spec
}

fn deploy(function: &str, entrypoint: &str, code: &str) -> Deploy {
    Deploy::files(
        ns(),
        name(function),
        spec(entrypoint),
        [("main.py", code.to_owned())],
    )
    .expect("a source")
}

impl World {
    async fn deploy(&self, function: &str, entrypoint: &str, code: &str) -> Result<Function> {
        self.sless.deploy(deploy(function, entrypoint, code)).await
    }

    async fn call(&self, function: &str, body: &'static str) -> Result<(u16, String)> {
        let request = http::Request::post("/")
            .body(Body::from(body))
            .expect("a request");
        let response = self.sless.invoke(&ns(), &name(function), request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().bytes(1 << 20).await?;
        Ok((
            status,
            String::from_utf8(body.to_vec()).map_err(|_| Error::internal("no text"))?,
        ))
    }

    async fn function(&self, function: &str) -> Function {
        self.sless
            .backends()
            .catalog
            .read(&ns(), &name(function))
            .await
            .expect("a function")
    }

    /// Lets things settle until the function is in this phase.
    async fn until(&self, function: &str, phase: FunctionPhase) -> Function {
        for _ in 0..1_000 {
            let now = self.function(function).await;
            if now.status.phase == phase {
                return now;
            }
            self.clock.settle().await;
        }
        panic!(
            "{function} is not {phase:?}: {:?}",
            self.function(function).await.status
        );
    }

    /// Lets things settle until nothing waits to be done now.
    async fn rest(&self) {
        for _ in 0..20 {
            self.clock.settle().await;
        }
    }
}
