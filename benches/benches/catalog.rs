//! Reading and writing one of a thousand objects, in memory and in SQLite.
#![allow(
    missing_docs,
    reason = "criterion's macros make public functions without documentation"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use criterion::{Criterion, criterion_group, criterion_main};
use sless_core::{
    Catalog, CatalogExt as _, Function, FunctionSpec, Metadata, Name, Namespace, Resource as _,
    Runtime, SystemClock, memory::MemoryCatalog,
};
use sless_local::{Local, LocalConfig};
use tokio::sync::Mutex;

const FUNCTIONS: usize = 1000;

async fn fill(catalog: &Arc<dyn Catalog>) -> Vec<Function> {
    let namespace = Namespace::new("bench").expect("a label");
    catalog
        .ensure_namespace(&namespace)
        .await
        .expect("a namespace");
    let mut functions = Vec::new();
    for number in 0..FUNCTIONS {
        let name = Name::new(format!("f{number}")).expect("a label");
        let mut spec = FunctionSpec::new(Runtime::Python311);
        spec.env.insert("GREETING".to_owned(), "hello ".repeat(20));
        let function = Function::new(Metadata::new(namespace.clone(), name), spec);
        functions.push(catalog.add(function).await.expect("created"));
    }
    functions
}

fn measure(criterion: &mut Criterion, backend: &str, catalog: &Arc<dyn Catalog>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let functions = runtime.block_on(fill(catalog));
    let turn = AtomicUsize::new(0);
    let next = || turn.fetch_add(1, Ordering::Relaxed) % FUNCTIONS;
    let mut group = criterion.benchmark_group("catalog");
    group.measurement_time(Duration::from_secs(3));
    group.bench_function(format!("{backend}/get"), |bencher| {
        bencher.to_async(&runtime).iter(|| {
            let key = functions[next()].key();
            async move { catalog.get(&key).await.expect("there") }
        });
    });
    // One writer at a time, each write stored when it is answered.
    let function = Mutex::new(functions[0].clone());
    group.bench_function(format!("{backend}/update_status"), |bencher| {
        bencher.to_async(&runtime).iter(|| async {
            let mut function = function.lock().await;
            function.status.ready_replicas += 1;
            let written = catalog
                .update_status(function.clone().into())
                .await
                .expect("written");
            *function = written.try_into().expect("a function");
        });
    });
    group.finish();
}

fn catalog(criterion: &mut Criterion) {
    let memory: Arc<dyn Catalog> = Arc::new(MemoryCatalog::new(Arc::new(SystemClock)));
    measure(criterion, "memory", &memory);

    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let config = LocalConfig::new(folder.path());
    let local = runtime
        .block_on(Local::open(config))
        .expect("a data folder");
    let sqlite: Arc<dyn Catalog> = local.catalog().clone();
    measure(criterion, "sqlite", &sqlite);
    runtime.block_on(local.shutdown());
}

criterion_group!(benches, catalog);
criterion_main!(benches);
