//! Load on one function, and what came of it.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use bytes::Bytes;
use futures::future::try_join_all;
use hdrhistogram::Histogram;

use crate::http::Connection;

/// What is asked: a function that answers its body.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// What is called there.
    pub path: String,
    /// What is sent, and has to come back.
    pub body: Bytes,
}

/// How it is asked.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// It ends after this time,
    pub duration: Duration,
    /// or after so many requests.
    pub requests: u64,
    /// Requests a second, begun at their times whether or not earlier ones were answered; as soon as
    /// the one before was answered where absent.
    pub rate: Option<f64>,
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    /// Requests that were answered.
    pub requests: u64,
    /// How long all of them took together.
    pub elapsed: Duration,
    /// In nanoseconds; from when a request was due to the end of its answer.
    pub latency: Histogram<u64>,
}

impl Measured {
    /// Requests a second.
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }

    /// In microseconds.
    pub fn quantile(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Puts load on a target.
///
/// # Errors
/// An answer that is not 200 with the body that was sent, and a connection that breaks off.
pub async fn run(target: &Target, load: Load) -> Result<Measured> {
    let mut connections = Vec::new();
    for _ in 0..load.connections {
        connections.push(Connection::open(target.address).await?);
    }
    let latency = Rc::new(RefCell::new(Histogram::new_with_bounds(
        1,
        60_000_000_000,
        3,
    )?));
    let next = Rc::new(Cell::new(0));
    let begun = Instant::now();
    let workers = connections.into_iter().map(|mut connection| {
        let (next, latency) = (next.clone(), latency.clone());
        async move {
            loop {
                let number = next.get();
                if number >= load.requests || begun.elapsed() >= load.duration {
                    return anyhow::Ok(());
                }
                next.set(number + 1);
                let due = match load.rate {
                    Some(rate) => {
                        wait_until(begun + Duration::from_secs_f64(number as f64 / rate)).await
                    }
                    None => Instant::now(),
                };
                let answer = connection.post(&target.path, target.body.clone()).await?;
                if answer.status != 200 || answer.body != target.body {
                    let (status, body) = (answer.status, answer.body);
                    let start = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
                    bail!(
                        "{} answered {status}, {} bytes: {start}",
                        target.path,
                        body.len()
                    );
                }
                let took = u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX);
                latency.borrow_mut().saturating_record(took);
            }
        }
    });
    try_join_all(workers).await?;
    let elapsed = begun.elapsed();
    let latency = latency.replace(Histogram::new(1)?);
    Ok(Measured {
        requests: latency.len(),
        elapsed,
        latency,
    })
}

/// Waits for a moment, more finely than the runtime's timer, which goes in milliseconds.
async fn wait_until(due: Instant) -> Instant {
    const COARSE: Duration = Duration::from_millis(3);
    let left = due.saturating_duration_since(Instant::now());
    if left > COARSE {
        tokio::time::sleep(left - COARSE).await;
    }
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
    due
}
