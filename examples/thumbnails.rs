//! Images from a queue become thumbnails in a bucket: functions on this machine, sources and results
//! in S3, messages from RabbitMQ, and the log of calls in PostgreSQL. Each of these is one trait
//! object put in the place of the local one.
//!
//! ```sh
//! eval "$(cargo xtask services up s3 rabbitmq postgres)"
//! cargo run -p sless-examples --all-features --example thumbnails
//! ```

#![allow(clippy::print_stdout, reason = "a program that people read")]

use std::{env, error::Error, path::Path, sync::Arc, time::Duration};

use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_core::{
    CatalogExt as _, DeadLetterQuery, DeliveryOptions, Deploy, Dispatcher as _, FunctionSpec,
    GetOptions, InvocationLog as _, InvocationQuery, Message, Metadata, Name, Namespace,
    Publish as _, Runtime, Sless, Storage as _, StorageKey, Trigger, TriggerId, TriggerSpec, Uid,
};
use sless_local::{Local, LocalConfig, ToolsConfig};
use sless_postgres::{PostgresConfig, PostgresInvocationLog};
use sless_s3::{S3Config, S3Storage};

const IMAGES: [&str; 4] = ["sunset.jpg", "turned.jpg", "badge.png", "not-an-image.jpg"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let mut config = LocalConfig::new(folder.path());
    config.tools = ToolsConfig::default().with_environment(env::vars());
    let local = Local::open(config).await?;

    let storage = Arc::new(S3Storage::connect(s3()?).await?);
    let broker = Arc::new(AmqpDispatcher::connect(AmqpConfig::new(given("RABBITMQ_URL")?)).await?);
    let database = PostgresConfig::new(given("POSTGRES_URL")?);
    let log = PostgresInvocationLog::open(database)?;
    let mut backends = local.backends();
    backends.storage = storage.clone();
    backends.dispatcher = broker.clone();
    backends.publisher = Some(broker.clone());
    backends.invocations = Some(Arc::new(log.clone()));
    let sless = Sless::new(backends)?;

    // Another name each time, since the services may be older than this run.
    let run = Uid::random().as_str()[..8].to_owned();
    let namespace = Namespace::new(format!("thumbnails-{run}"))?;
    let function = Name::new("thumbnails")?;
    let results = format!("thumbnails/{run}");
    let deploy = thumbnailer(&namespace, &function, &results)?;
    sless.deploy(deploy).await?;
    println!("deployed; the source is in the bucket");

    let queue = format!("images-{run}");
    let mut spec = TriggerSpec::event(function.clone(), &queue);
    spec.delivery = Some(DeliveryOptions {
        max_attempts: 2,
        min_backoff_ms: 50,
        in_flight: 2,
        ..DeliveryOptions::default()
    });
    let metadata = Metadata::new(namespace.clone(), Name::new("images")?);
    let trigger = local.catalog().add(Trigger::new(metadata, spec)).await?;

    for name in IMAGES {
        let message = Message {
            id: name.to_owned(),
            body: std::fs::read(image(name))?.into(),
            content_type: Some("application/octet-stream".to_owned()),
            headers: [("image-name".to_owned(), name.to_owned())].into(),
            ..Message::default()
        };
        broker.publish(&namespace, &queue, message).await?;
    }
    until("three are done and one is given up", async || {
        let counts = sless.event_counts(&trigger).await?;
        Ok(counts.delivered == 3 && counts.dead_lettered == 1)
    })
    .await?;

    for name in &IMAGES[..3] {
        let key = StorageKey::new(format!("{results}/{name}"))?;
        let fetched = storage.get(&key, &GetOptions::default()).await?;
        let thumbnail = sless_core::Body::from_stream(fetched.body)
            .bytes(1 << 20)
            .await?;
        let size = imagesize::blob_size(&thumbnail)?;
        println!(
            "{key}: {} x {}, {} bytes",
            size.width,
            size.height,
            thumbnail.len()
        );
        assert!(size.width <= 128, "wider than asked for");
    }
    let id = TriggerId::of(&trigger.metadata);
    let letters = broker
        .dead_letters(&id, &DeadLetterQuery::first(10))
        .await?;
    for letter in &letters.items {
        println!("{}: {}", letter.message.id, letter.reason);
    }
    assert_eq!(letters.items.len(), 1);

    // Three calls that went well, and two attempts at the one that did not. They are written behind
    // the calls, so the last may still be under way.
    let query = InvocationQuery::of_function(namespace, function, 10);
    until("all calls are in the log", async || {
        Ok(log.query(&query).await?.items.len() == 5)
    })
    .await?;
    println!(
        "{:24} {:>6} {:>7} {:>9}  log",
        "request", "status", "attempt", "duration"
    );
    for call in log.query(&query).await?.items {
        println!(
            "{:24} {:>6} {:>7} {:>6} ms  {}",
            call.request_id,
            call.status,
            call.attempt,
            call.duration.as_millis(),
            call.log_tail.as_deref().unwrap_or_default().trim_end(),
        );
    }

    broker.forget(&id).await?;
    sless.shutdown().await;
    broker.shutdown().await;
    storage.shutdown().await;
    local.shutdown().await;
    Ok(())
}

/// The example function `thumbnailer`, behind a handler that stores what it makes.
fn thumbnailer(
    namespace: &Namespace,
    name: &Name,
    results: &str,
) -> Result<Deploy, Box<dyn Error>> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [
        ("store.py", "thumbnails/store.py"),
        ("requirements.txt", "thumbnails/requirements.txt"),
        ("handler.py", "functions/thumbnailer/handler.py"),
    ];
    let read = files.map(|(name, path)| Ok((name, std::fs::read(examples.join(path))?)));
    let files = read
        .into_iter()
        .collect::<Result<Vec<_>, std::io::Error>>()?;
    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.entrypoint = "store.handle".parse()?;
    let endpoint = given("S3_ENDPOINT")?;
    let host = endpoint.strip_prefix("http://").unwrap_or(&endpoint);
    for (name, value) in [
        ("S3_HOST", host.to_owned()),
        ("S3_ACCESS_KEY", given("S3_ACCESS_KEY")?),
        ("S3_SECRET_KEY", given("S3_SECRET_KEY")?),
        ("S3_REGION", given("S3_REGION")?),
        ("BUCKET", given("S3_BUCKET")?),
        ("FOLDER", results.to_owned()),
    ] {
        spec.env.insert(name.to_owned(), value);
    }
    Ok(Deploy::files(namespace.clone(), name.clone(), spec, files)?)
}

fn s3() -> Result<S3Config, Box<dyn Error>> {
    let mut config = S3Config::new(given("S3_BUCKET")?)
        .with_endpoint(given("S3_ENDPOINT")?)
        .with_keys(given("S3_ACCESS_KEY")?, given("S3_SECRET_KEY")?);
    config.region = given("S3_REGION")?;
    Ok(config)
}

/// What the services said of themselves.
fn given(name: &str) -> Result<String, Box<dyn Error>> {
    let name = format!("SLESS_TEST_{name}");
    env::var(&name).map_err(|_| {
        let how = "eval \"$(cargo xtask services up s3 rabbitmq postgres)\"";
        format!("{name} is missing; start the services first: {how}").into()
    })
}

fn image(name: &str) -> std::path::PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR"));
    examples.join("functions/thumbnailer/test").join(name)
}

/// Waits until it is so.
async fn until(
    what: &str,
    is_so: impl AsyncFn() -> sless_core::Result<bool>,
) -> Result<(), Box<dyn Error>> {
    let wait = async {
        while !is_so().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok::<_, sless_core::Error>(())
    };
    match tokio::time::timeout(Duration::from_secs(60), wait).await {
        Ok(reached) => Ok(reached?),
        Err(_) => Err(format!("not within a minute: {what}").into()),
    }
}
