//! How fast a function handles a queue of RabbitMQ, and what is left of that where one message in ten
//! fails: a real function in a worker, behind the engine.
//!
//! ```sh
//! eval "$(cargo xtask services up rabbitmq)"
//! cargo run --release -p sless-benches --features services --bin events
//! ```
//!
//! A queue is filled before a trigger is made for it. A round is the time from there until each message
//! was tried once; what fails is tried twice more, a second later, and is a dead letter then. Both kinds
//! take turns.
//!
//! How busy the machine was stands beside: broker, dispatcher and function share its cores, and where
//! those are full, a failure costs what it takes to store its message twice more and to write its trace.

#![allow(clippy::print_stdout, reason = "a program that prints a table")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use sless_amqp::{AmqpConfig, AmqpDispatcher};
use sless_core::{
    Catalog as _, CatalogExt as _, DeleteOptions, DeliveryOptions, Deploy, Dispatcher as _,
    FunctionSpec, Message, Metadata, Name, Namespace, Publish as _, Runtime, Sless, Trigger,
    TriggerId, TriggerSpec, Uid,
};
use sless_local::{Local, LocalConfig, ToolsConfig};

/// Fails where it is told to.
const HANDLER: &str = "
import os, time

def handle(event):
    time.sleep(float(os.environ['TAKES_MS']) / 1000)
    if event['fail']:
        raise ValueError('poison')
";

/// One message in so many fails.
const POISON: usize = 10;
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Parser)]
#[command(about = "What a queue with messages that fail costs the rest of it.")]
struct Options {
    /// Few messages, and no figures worth reading: that it works is seen.
    #[arg(long)]
    smoke: bool,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long a call takes, beside what it costs to make it.
    #[arg(long, default_value_t = 20)]
    takes_ms: u64,
}

struct Bench {
    sless: Sless,
    local: Local,
    broker: Arc<AmqpDispatcher>,
    namespace: Namespace,
    function: Name,
}

impl Bench {
    /// Messages a second, from the first until each was tried, and how busy the machine was.
    async fn round(&self, in_flight: u32, count: usize, poison: bool) -> Result<(f64, f64)> {
        let run = Uid::random().as_str()[..8].to_owned();
        let queue = format!("events-{run}");
        stream::iter(0..count)
            .map(|number| {
                let fail = poison && number % POISON == 0;
                let message = Message {
                    id: number.to_string(),
                    body: format!("{{\"fail\": {fail}}}").into(),
                    content_type: Some("application/json".to_owned()),
                    ..Message::default()
                };
                self.broker.publish(&self.namespace, &queue, message)
            })
            .buffer_unordered(64)
            .try_for_each(async |()| Ok(()))
            .await?;
        let mut spec = TriggerSpec::event(self.function.clone(), &queue);
        spec.delivery = Some(DeliveryOptions {
            max_attempts: 3,
            in_flight,
            ..DeliveryOptions::default()
        });
        let metadata = Metadata::new(self.namespace.clone(), Name::new(format!("t-{run}"))?);
        let trigger = Trigger::new(metadata, spec);
        let trigger = self.local.catalog().add(trigger).await?;
        let id = TriggerId::of(&trigger.metadata);
        let tried = async || {
            let status = self.broker.status(&id).await?;
            anyhow::Ok(status.map_or(0, |status| status.delivered + status.failed))
        };
        // From the first answer on: what the reconciler takes to see the trigger is not the queue's.
        let (first, began) = loop {
            match tried().await? {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                some => break (some, Instant::now()),
            }
        };
        let cpu = Cpu::now()?;
        // What fails first is tried again after a second, and counts again.
        let all = count as u64;
        let seen = loop {
            let seen = tried().await?;
            if seen >= all {
                break seen;
            }
            ensure!(began.elapsed() < LIMIT, "{seen} of {count} after {LIMIT:?}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        let rate = (seen - first) as f64 / began.elapsed().as_secs_f64();
        let busy = cpu.busy()?;
        let options = DeleteOptions::default();
        self.local.catalog().delete(&id.key(), &options).await?;
        Ok((rate, busy))
    }
}

/// What the machine has done so far, in ticks of all its cores.
struct Cpu {
    idle: u64,
    all: u64,
}

impl Cpu {
    #[cfg(target_os = "linux")]
    fn now() -> Result<Self> {
        use procfs::CurrentSI as _;
        let total = procfs::KernelStats::current()?.total;
        let idle = total.idle + total.iowait.unwrap_or(0);
        let busy = total.user + total.nice + total.system;
        let aside = total.irq.unwrap_or(0) + total.softirq.unwrap_or(0) + total.steal.unwrap_or(0);
        Ok(Self {
            idle,
            all: idle + busy + aside,
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn now() -> Result<Self> {
        Ok(Self { idle: 0, all: 0 })
    }

    /// Which part of all cores was in use since then: 0 to 1.
    fn busy(&self) -> Result<f64> {
        let now = Self::now()?;
        let (idle, all) = (now.idle - self.idle, (now.all - self.all).max(1));
        Ok(1.0 - idle as f64 / all as f64)
    }
}

/// The middle one, the least and the most.
fn median(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (
        values[values.len() / 2],
        values[0],
        values[values.len() - 1],
    )
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let url = std::env::var("SLESS_TEST_RABBITMQ_URL")
        .context("SLESS_TEST_RABBITMQ_URL is missing; start RabbitMQ by testing/rabbitmq/up")?;
    let folder = tempfile::tempdir()?;
    let mut config = LocalConfig::new(folder.path());
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    let local = Local::open(config).await?;
    let broker = Arc::new(AmqpDispatcher::connect(AmqpConfig::new(url)).await?);
    let mut backends = local.backends();
    backends.dispatcher = broker.clone();
    backends.publisher = Some(broker.clone());
    let bench = Bench {
        sless: Sless::new(backends)?,
        local,
        broker,
        namespace: Namespace::new("events")?,
        function: Name::new("handler")?,
    };
    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.concurrency = 50;
    let takes = options.takes_ms.to_string();
    spec.env.insert("TAKES_MS".to_owned(), takes);
    let code = [("handler.py", HANDLER)];
    let deploy = Deploy::files(bench.namespace.clone(), bench.function.clone(), spec, code)?;
    bench.sless.deploy(deploy).await?;
    let rounds = if options.smoke { 1 } else { options.rounds };
    println!(
        "at once  clean msg/s (least, most)  busy  10 % poison msg/s  busy  of clean (least, most)"
    );
    for (in_flight, count) in [(1, 1_500), (10, 6_000), (50, 6_000)] {
        let count = if options.smoke { 100 } else { count };
        let (mut clean, mut poisoned) = (vec![], vec![]);
        for _ in 0..rounds {
            clean.push(bench.round(in_flight, count, false).await?);
            poisoned.push(bench.round(in_flight, count, true).await?);
        }
        let pairs = poisoned.iter().zip(&clean);
        let kept = median(pairs.map(|((poisoned, _), (clean, _))| poisoned / clean));
        let rate = |of: &[(f64, f64)]| median(of.iter().map(|(rate, _)| *rate));
        let busy = |of: &[(f64, f64)]| median(of.iter().map(|(_, busy)| *busy)).0 * 100.0;
        let (least, most) = (rate(&clean).1, rate(&clean).2);
        println!(
            "{in_flight:7}  {:7.0} ({least:.0}, {most:.0})  {:3.0} %  {:17.0}  {:3.0} %  {:.2} ({:.2}, {:.2})",
            rate(&clean).0,
            busy(&clean),
            rate(&poisoned).0,
            busy(&poisoned),
            kept.0,
            kept.1,
            kept.2,
        );
    }
    bench.sless.shutdown().await;
    bench.broker.shutdown().await;
    bench.local.shutdown().await;
    Ok(())
}
