//! The path of a call: what the engine adds to a handler that does nothing, and what a worker adds.
#![allow(
    missing_docs,
    reason = "criterion's macros make public functions without documentation"
)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use criterion::{Criterion, criterion_group, criterion_main};
use sless_core::{
    Backends, Body, Deploy, FunctionSpec, Name, Namespace, Runtime, Sless, memory::MemoryScheduler,
};
use sless_local::{Local, LocalConfig, ToolsConfig};

fn namespace() -> Namespace {
    Namespace::new("bench").expect("a label")
}

async fn deploy(sless: &Sless, name: &Name, runtime: Runtime, file: &str, code: &'static str) {
    let spec = FunctionSpec::new(runtime);
    let deploy = Deploy::files(namespace(), name.clone(), spec, [(file, code)]).expect("a source");
    sless.deploy(deploy).await.expect("deployed");
}

/// Functions in memory whose handler answers at once.
async fn in_memory(functions: usize, log: bool) -> (Sless, Vec<Name>) {
    let mut backends = Backends::in_memory();
    if !log {
        backends.invocations = None;
    }
    let handler = |_, _| async { Ok(http::Response::new(Body::from("ok"))) };
    let scheduler =
        MemoryScheduler::new(backends.clock.clone()).with_handler("handler.handle", handler);
    backends.scheduler = Arc::new(scheduler);
    let sless = Sless::new(backends).expect("backends that fit");
    let mut names = Vec::new();
    for number in 0..functions {
        let name = Name::new(format!("f{number}")).expect("a label");
        deploy(&sless, &name, Runtime::Python311, "handler.py", "code").await;
        names.push(name);
    }
    (sless, names)
}

/// One call, its answer read to the end.
async fn call(sless: &Sless, function: &Name) {
    let request = http::Request::new(Body::from("{}"));
    let response = sless
        .invoke(&namespace(), function, request)
        .await
        .expect("answers");
    assert_eq!(response.status(), 200);
    response.into_body().bytes(1024).await.expect("a body");
}

fn invoke(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("invoke");
    for (name, functions, log) in [
        ("memory_without_log", 1, false),
        ("memory_with_log", 1, true),
        ("memory_among_1000_functions", 1000, false),
    ] {
        let (sless, names) = runtime.block_on(in_memory(functions, log));
        let turn = AtomicUsize::new(0);
        group.bench_function(name, |bencher| {
            bencher.to_async(&runtime).iter(|| {
                let turn = turn.fetch_add(1, Ordering::Relaxed);
                call(&sless, &names[turn % names.len()])
            });
        });
        runtime.block_on(sless.shutdown());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = LocalConfig::new(folder.path());
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    let local = runtime
        .block_on(Local::open(config))
        .expect("a data folder");
    let sless =
        runtime.block_on(async { Sless::new(local.backends()).expect("backends that fit") });
    for (name, language, file, code) in [
        (
            "python",
            Runtime::Python311,
            "handler.py",
            "def handle(event):\n    return 'ok'\n",
        ),
        (
            "node",
            Runtime::NodeJs20,
            "handler.js",
            "exports.handle = () => 'ok';\n",
        ),
    ] {
        let function = Name::new(name).expect("a label");
        runtime.block_on(deploy(&sless, &function, language, file, code));
        group.bench_function(format!("local_{name}"), |bencher| {
            bencher.to_async(&runtime).iter(|| call(&sless, &function));
        });
    }
    group.finish();
    runtime.block_on(async {
        sless.shutdown().await;
        local.shutdown().await;
    });
}

criterion_group!(benches, invoke);
criterion_main!(benches);
