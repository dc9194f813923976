//! How many calls a second a host runs, without HTTP in front: `throughput [python|node] [seconds]`.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sless_runtime::{Body, CallContext, DiscardLogs, Host, HostConfig, Language};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const HANDLERS: [(&str, &str); 3] = [
    (
        "handler.py",
        "def handle(event, context):\n    return {'hello': event.get('name', 'world')}\n",
    ),
    (
        "aio.py",
        "async def handle(event, context):\n    return {'hello': event.get('name', 'world')}\n",
    ),
    (
        "handler.js",
        "exports.handle = (event) => ({ hello: event.name ?? 'world' });\n",
    ),
];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("sless-throughput-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    for (name, text) in HANDLERS {
        std::fs::write(folder.join(name), text)?;
    }
    let kinds = [
        ("python", Language::Python, "handler.handle"),
        ("python async", Language::Python, "aio.handle"),
        ("node", Language::Node, "handler.handle"),
    ];
    for (name, language, entrypoint) in kinds {
        if only
            .as_ref()
            .is_some_and(|only| !name.starts_with(only.as_str()))
        {
            continue;
        }
        for (concurrency, callers) in [(1, 1), (1, 16), (16, 1), (16, 16)] {
            let mut config = HostConfig::new(language, &folder);
            config.entrypoint = entrypoint.to_owned();
            config.concurrency = concurrency;
            config.interpreter = std::env::var_os("SLESS_INTERPRETER").map(Into::into);
            let began = Instant::now();
            let host = Arc::new(Host::start(config, Arc::new(DiscardLogs)).await?);
            call(&host).await?;
            let first = began.elapsed();
            let rate = measure(&host, callers, Duration::from_secs_f64(seconds)).await?;
            println!(
                "{name:13} concurrency {concurrency:2} callers {callers:2}: {rate:7.0} calls/s, first answer after {first:?}"
            );
            host.drain(Duration::from_secs(1)).await;
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

async fn call(host: &Host) -> Result<(), Failure> {
    let request = http::Request::post("/")
        .header("content-type", "application/json")
        .body(Body::full(r#"{"name":"Ada"}"#))?;
    let response = host.call(request, CallContext::new("bench")).await?;
    if response.status() != 200 {
        return Err(format!("status {}", response.status()).into());
    }
    Ok(())
}

async fn measure(host: &Arc<Host>, callers: usize, time: Duration) -> Result<f64, Failure> {
    let (stop, count) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (host, stop, count) = (Arc::clone(host), Arc::clone(&stop), Arc::clone(&count));
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                call(&host).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Failure>(())
        });
    }
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}
