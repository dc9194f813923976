//! Five times as many calls as a function can take.

use std::time::{Duration, Instant};

use sless_api::CreateFunction;
use tokio::task::JoinSet;

use super::{Answered, Good, is_long, quantile, report};
use crate::e2e::machine::{Machine, python};

/// How long a call takes in the function, and how many run at once: what it can take is known.
const TAKES: Duration = Duration::from_millis(50);
const AT_ONCE: u32 = 10;

/// How quickly whoever is refused is to be told, for all but one in a hundred.
const REFUSED_WITHIN: Duration = Duration::from_millis(100);

/// How soon after the load a call is served as before; what waits then is served first.
const RECOVERED_WITHIN: Duration = Duration::from_secs(1);

const CODE: &str = "import time\n\ndef handle(event):\n    time.sleep(0.05)\n    return 'ok'\n";

/// Each of these clients asks again as soon as it is answered: how many calls a second are served.
async fn peak(machine: &Machine, path: &str, clients: u32, lasts: Duration) -> f64 {
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let mut good = Good::connect(machine, path).await;
        asking.spawn(async move {
            let (began, mut served) = (Instant::now(), 0_u32);
            while began.elapsed() < lasts {
                if good.ask().await.status == 200 {
                    served += 1;
                }
            }
            served
        });
    }
    let served: u32 = asking.join_all().await.into_iter().sum();
    f64::from(served) / lasts.as_secs_f64()
}

/// What became of a call under load.
#[derive(Debug)]
struct Call {
    answered: Answered,
    took: Duration,
    /// When it was answered, after the load began.
    at: Duration,
}

/// So many clients, each of which asks once in a second whatever became of the call before. Answers
/// also how long after the last of them asked a call is served as if nothing had been.
async fn load(machine: &Machine, path: &str, clients: u32, seconds: u32) -> (Vec<Call>, Duration) {
    let mut asking = JoinSet::new();
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(Good::connect(machine, path).await);
    }
    let mut other = Good::connect(machine, path).await;
    let began = tokio::time::Instant::now();
    let end = began + Duration::from_secs(seconds.into());
    let recovered = tokio::spawn(async move {
        tokio::time::sleep_until(end).await;
        loop {
            let asked = Instant::now();
            if other.ask().await.status == 200 && asked.elapsed() < 2 * TAKES {
                return end.elapsed();
            }
            tokio::time::sleep(TAKES).await;
        }
    });
    for (mut good, number) in all.into_iter().zip(0..) {
        asking.spawn(async move {
            let mut calls = Vec::new();
            let first = began + Duration::from_secs(1) * number / clients;
            for second in 0..seconds {
                tokio::time::sleep_until(first + Duration::from_secs(second.into())).await;
                let asked = Instant::now();
                let answered = good.ask().await;
                let (took, at) = (asked.elapsed(), began.elapsed());
                calls.push(Call { answered, took, at });
            }
            calls
        });
    }
    let calls = asking.join_all().await.into_iter().flatten().collect();
    (calls, recovered.await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_five_times_what_it_takes_a_function_serves_as_much_and_refuses_the_rest_quickly() {
    let _alone = super::ALONE.lock().await;
    let seconds = if is_long() { 30 } else { 4 };
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let function = CreateFunction {
        concurrency: Some(AT_ONCE),
        ..python("busy")
    };
    machine.deploy(function, &[("handler.py", CODE)]).await;
    let path = format!("/fn/{}/busy", machine.namespace);
    let peak = peak(&machine, &path, 2 * AT_ONCE, Duration::from_secs(3)).await;
    let can = f64::from(AT_ONCE) / TAKES.as_secs_f64();
    assert!(
        peak > can / 2.0 && peak <= can * 1.05,
        "{peak} calls a second of {can}"
    );

    let clients = (peak * 5.0).round() as u32;
    let (calls, recovered) = load(&machine, &path, clients, seconds).await;

    // From when the queue is full until the load ends.
    let whole = Duration::from_secs(1)..Duration::from_secs(seconds.into());
    let served = |call: &&Call| call.answered.status == 200 && whole.contains(&call.at);
    let goodput = calls.iter().filter(served).count() as f64 / f64::from(seconds - 1);
    let mut refused = Vec::new();
    for call in calls.iter().filter(|call| call.answered.status != 200) {
        let Answered { status, retry } = call.answered;
        assert!(matches!(status, 429 | 503), "{call:?}");
        assert!(retry, "says when to come again: {call:?}");
        refused.push(call.took);
    }
    assert!(
        refused.len() > calls.len() / 2,
        "{} refused of {}",
        refused.len(),
        calls.len()
    );
    let slow = quantile(&mut refused, 0.99);
    report(&format!(
        "peak {peak:.0} calls a second; {} calls in {seconds} s: {goodput:.0} a second served, {:.1} % of \
         the peak; {} refused, p99 after {slow:?}; as before {recovered:?} after the load",
        calls.len(),
        100.0 * goodput / peak,
        refused.len(),
    ));
    assert!(goodput >= 0.9 * peak, "{goodput} of {peak}");
    assert!(slow <= REFUSED_WITHIN, "{slow:?}");
    assert!(recovered <= RECOVERED_WITHIN, "{recovered:?}");
    machine.stop().await;
}
