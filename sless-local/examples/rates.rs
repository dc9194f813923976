//! Prints how fast the local backends are on this machine and disk:
//! `cargo run --release -p sless-local --example rates [folder]`.
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_core::{
    Catalog as _, CatalogExt as _, Delivery, DeliveryOptions, Dispatcher as _, Disposition, Error,
    EventSink, Function, FunctionSpec, GetOptions, Invocation, InvocationLog as _, InvocationQuery,
    Kind, Message, Metadata, Name, Namespace, Object, ObjectKey, Origin, Publish as _, PutOptions,
    Resource as _, Result, Retention, Runtime, Storage as _, StorageKey, Subscription,
    bytes_stream,
    resource::{TriggerId, Uid},
};
use sless_local::{Local, LocalConfig};

const FUNCTIONS: u32 = 10_000;
const MESSAGES: u32 = 20_000;
const RECORDS: u32 = 100_000;

#[tokio::main]
async fn main() -> Result<()> {
    let beside = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(beside).map_err(io)?;
    let config = LocalConfig::new(folder.path());
    let local = Local::open(config.clone()).await?;
    catalog(&local).await?;
    queue(&local).await?;
    invocations(&local).await?;
    storage(&local).await?;
    local.shutdown().await;
    drop(local);
    let begun = Instant::now();
    let local = Local::open(config).await?;
    println!("reopen: {:?}", begun.elapsed());
    local.shutdown().await;
    Ok(())
}

fn io(error: std::io::Error) -> Error {
    Error::internal("no folder").with_source(error)
}

fn rate(what: &str, count: u32, begun: Instant) {
    let took = begun.elapsed();
    let each = took / count.max(1);
    println!(
        "{what}: {count} in {took:.0?}, {each:.1?} each, {:.0}/s",
        f64::from(count) / took.as_secs_f64()
    );
}

/// This process's memory that is not shared with files, where the system tells.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    line.unwrap_or("memory unknown")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

async fn catalog(local: &Local) -> Result<()> {
    let namespace = Namespace::new("ns")?;
    let catalog = local.catalog();
    catalog.ensure_namespace(&namespace).await?;
    let function = |number: u32| -> Result<Object> {
        let metadata = Metadata::new(namespace.clone(), Name::new(format!("f{number:05}"))?);
        let mut spec = FunctionSpec::new(Runtime::Python311);
        spec.env.insert("GREETING".to_owned(), "hello ".repeat(20));
        Ok(Function::new(metadata, spec).into())
    };
    println!("before: {}", memory());
    let begun = Instant::now();
    for number in 0..500 {
        catalog.create(function(number)?).await?;
    }
    rate("catalog.create, one at a time", 500, begun);
    let begun = Instant::now();
    stream::iter(500..FUNCTIONS)
        .map(|number| async move { catalog.create(function(number)?).await.map(drop) })
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;
    rate("catalog.create, 64 at a time", FUNCTIONS - 500, begun);
    println!("with {FUNCTIONS} functions: {}", memory());
    let begun = Instant::now();
    let all: Vec<Function> = catalog.read_all(None).await?;
    println!("catalog.list, all {}: {:?}", all.len(), begun.elapsed());
    let begun = Instant::now();
    for number in 0..FUNCTIONS {
        let name = Name::new(format!("f{:05}", number * 7919 % FUNCTIONS))?;
        catalog
            .get(&ObjectKey::new(Kind::Function, namespace.clone(), name))
            .await?;
    }
    rate("catalog.get, one at a time", FUNCTIONS, begun);
    let begun = Instant::now();
    for function in all.iter().take(500) {
        let mut function = function.clone();
        function.status.ready_replicas += 1;
        catalog.update_status(function.into()).await?;
    }
    rate("catalog.update_status, one at a time", 500, begun);
    let begun = Instant::now();
    stream::iter(all.iter().skip(500))
        .map(|function| async move {
            let mut function = function.clone();
            function.spec.timeout_seconds += 1;
            catalog.update(function.into()).await.map(drop)
        })
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;
    rate("catalog.update, 64 at a time", FUNCTIONS - 500, begun);
    let begun = Instant::now();
    for function in all.iter().take(2000) {
        let stored = catalog.get(&function.key()).await?;
        catalog.update(stored).await?;
    }
    rate(
        "catalog.get and an update that changes nothing",
        2000,
        begun,
    );
    println!("after the catalog: {}", memory());
    Ok(())
}

#[derive(Debug, Default)]
struct Count(AtomicU64);

#[async_trait]
impl EventSink for Count {
    async fn deliver(&self, _: Delivery) -> Disposition {
        self.0.fetch_add(1, Ordering::Relaxed);
        Disposition::Done
    }
}

async fn queue(local: &Local) -> Result<()> {
    let namespace = Namespace::new("ns")?;
    let dispatcher = local.dispatcher();
    let message = || Message {
        body: vec![7; 256].into(),
        ..Message::default()
    };
    let begun = Instant::now();
    for _ in 0..500 {
        dispatcher.publish(&namespace, "q", message()).await?;
    }
    rate("publish, one at a time", 500, begun);
    let begun = Instant::now();
    stream::iter(500..MESSAGES)
        .map(|_| dispatcher.publish(&namespace, "q", message()))
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;
    rate("publish, 64 at a time", MESSAGES - 500, begun);
    for (in_flight, prefetch) in [(1, 0), (1, 16), (16, 0), (16, 64)] {
        let trigger = TriggerId {
            namespace: namespace.clone(),
            name: Name::new("t")?,
            uid: Uid::new(format!("{in_flight}-{prefetch}")),
        };
        let delivery = DeliveryOptions {
            in_flight,
            prefetch,
            ..DeliveryOptions::default()
        };
        let queue = "q".to_owned();
        let subscription = Subscription {
            trigger: trigger.clone(),
            generation: 1,
            queue,
            declare: sless_core::QueueDeclare::default(),
            delivery,
        };
        let sink = Arc::new(Count::default());
        let begun = Instant::now();
        dispatcher.apply(&subscription, sink.clone()).await?;
        while sink.0.load(Ordering::Relaxed) < 4000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        dispatcher.remove(&trigger).await?;
        let count = sink.0.load(Ordering::Relaxed);
        let what = format!("take, deliver, settle; {in_flight} in flight, {prefetch} ahead");
        rate(&what, u32::try_from(count).unwrap_or(u32::MAX), begun);
    }
    println!("after the queue: {}", memory());
    Ok(())
}

async fn invocations(local: &Local) -> Result<()> {
    let (namespace, function) = (Namespace::new("ns")?, Name::new("f00001")?);
    let log = local.invocations();
    let now = local.clock().now();
    let record = |number: u32| Invocation {
        id: Uid::random(),
        request_id: number.to_string(),
        namespace: namespace.clone(),
        function: function.clone(),
        origin: Origin::Http,
        cause: None,
        caller: None,
        attempt: 1,
        started_at: now,
        duration: Duration::from_millis(1),
        status: 200,
        error: None,
        request_bytes: 100,
        response_bytes: 100,
        log_tail: None,
    };
    let begun = Instant::now();
    for batch in 0..RECORDS / 500 {
        log.append(
            (0..500)
                .map(|number| record(batch * 500 + number))
                .collect(),
        )
        .await?;
    }
    rate("invocations.append, 500 at a time", RECORDS, begun);
    let begun = Instant::now();
    for _ in 0..100 {
        let query = InvocationQuery::of_function(namespace.clone(), function.clone(), 50);
        log.query(&query).await?;
    }
    rate("invocations.query, 50 of one function", 100, begun);
    let begun = Instant::now();
    let rule = Retention {
        max_records: u64::from(RECORDS / 2),
        ..Retention::default()
    };
    log.retain(&rule, now).await?;
    rate("invocations.retain, records dropped", RECORDS / 2, begun);
    Ok(())
}

async fn storage(local: &Local) -> Result<()> {
    let storage = local.storage();
    let begun = Instant::now();
    for number in 0..200 {
        let key = StorageKey::new(format!("small/{number}"))?;
        storage
            .put(&key, bytes_stream(vec![7; 4096]), &PutOptions::default())
            .await?;
    }
    rate("storage.put, 4 KiB", 200, begun);
    let begun = Instant::now();
    let megabyte = bytes::Bytes::from(vec![7; 1 << 20]);
    let body = stream::iter((0..200).map(move |_| Ok(megabyte.clone()))).boxed();
    let key = StorageKey::new("large")?;
    storage.put(&key, body, &PutOptions::default()).await?;
    rate("storage.put, MiB of one body", 200, begun);
    let begun = Instant::now();
    let mut body = storage.get(&key, &GetOptions::default()).await?.body;
    while body.try_next().await?.is_some() {}
    rate("storage.get, MiB of one body", 200, begun);
    let begun = Instant::now();
    let listed = storage.list("small/").try_collect::<Vec<_>>().await?.len();
    rate(
        "storage.list, objects",
        u32::try_from(listed).unwrap_or(0),
        begun,
    );
    println!("at the end: {}", memory());
    Ok(())
}
