//! Clients that are slow, by the thousand, and those that stop altogether.

use std::time::{Duration, Instant};

use sless_api::CreateFunction;
use tokio::io::AsyncWriteExt;

use super::{
    Good, crowd::Crowd, holds, is_long, memory, open_files, quantile, read_to_the_end, report,
};
use crate::{
    e2e::{
        machine::{Machine, json, python},
        process::{DEADLINE, LOOK},
    },
    support::Answer,
};

/// Answers much where it is asked for much.
const CODE: &str = "def handle(event, context):\n    if context.path != '/much':\n        \
                    return 'ok'\n    def much():\n        while True:\n            \
                    yield b'x' * 65536\n    return much()\n";

/// How much memory a server may hold for each connection of a crowd, in bytes: what was read of its
/// head or body, and what is to be written.
const EACH: u64 = 256 << 10;

async fn deploy(machine: &Machine, name: &str, concurrency: u32) -> String {
    let function = CreateFunction {
        concurrency: Some(concurrency),
        timeout_seconds: Some(10),
        ..python(name)
    };
    machine.deploy(function, &[("handler.py", CODE)]).await;
    format!("/fn/{}/{name}", machine.namespace)
}

/// How long each request took, asked one after the other for so long.
async fn times(good: &mut Good, lasts: Duration) -> Vec<Duration> {
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < lasts {
        let asked = Instant::now();
        assert_eq!(good.ask().await.status, 200);
        times.push(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times
}

/// Waits until the server has so many files open, or no more than that.
async fn opened(server: u32, is_enough: impl Fn(usize) -> bool) {
    let began = Instant::now();
    while !is_enough(open_files(server)) {
        let now = open_files(server);
        assert!(began.elapsed() < DEADLINE, "{now} files are open");
        tokio::time::sleep(LOOK).await;
    }
}

/// With and without the crowd in turns.
#[tokio::test]
async fn a_thousand_slow_clients_cost_the_others_at_most_their_double() {
    let _alone = super::ALONE.lock().await;
    let (count, rounds, lasts) = if is_long() {
        (5_000, 9, Duration::from_secs(5))
    } else {
        (1_200, 5, Duration::from_millis(1200))
    };
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start_with(data.path(), &[("SLESS_STALL_TIMEOUT", "10s")]).await;
    let server = machine.process.id();
    let good = deploy(&machine, "good", 4).await;
    let victim = deploy(&machine, "victim", 50).await;
    let mut good = Good::connect(&machine, &good).await;
    times(&mut good, lasts).await;
    let (memory_before, files_before) = (memory(server), open_files(server));
    let mut most = 0;
    let round = async || {
        let mut quiet = times(&mut good, lasts).await;
        let crowd = Crowd::gather(machine.address, &victim, count);
        crowd.is_there().await;
        // They have connected to the system; now the server has them, and whom it refuses is refused.
        opened(server, |files| files >= files_before + Crowd::stay(count)).await;
        let mut busy = times(&mut good, lasts).await;
        most = most.max(memory(server));
        crowd.leave().await;
        // Those who have left are forgotten before the next round.
        opened(server, |files| files <= files_before + 100).await;
        let began = Instant::now();
        while machine.call("victim", json("{}")).await.0 != 200 {
            assert!(began.elapsed() < DEADLINE, "what they wanted goes on");
            tokio::time::sleep(LOOK).await;
        }
        (quantile(&mut quiet, 0.99), quantile(&mut busy, 0.99))
    };
    holds(2.0, rounds, round).await;
    let more = most.saturating_sub(memory_before);
    report(&format!(
        "{} KiB of memory for each of {count} slow clients",
        (more / count as u64) >> 10
    ));
    assert!(
        more < EACH * count as u64,
        "{memory_before} bytes before, {most} with {count} clients"
    );
    machine.stop().await;
}

/// One call at a time, and one client that does not take its answer: it is cut off by the server, or by
/// the end of the call's time, whichever comes first.
#[tokio::test]
async fn who_takes_nothing_of_an_answer_does_not_keep_the_function() {
    let _alone = super::ALONE.lock().await;
    for (stall_timeout, timeout_seconds) in [("1s", 60), ("60s", 3)] {
        let data = tempfile::tempdir().unwrap();
        let settings = [("SLESS_STALL_TIMEOUT", stall_timeout)];
        let machine = Machine::start_with(data.path(), &settings).await;
        let function = CreateFunction {
            timeout_seconds: Some(timeout_seconds),
            ..python("one")
        };
        machine.deploy(function, &[("handler.py", CODE)]).await;
        let path = format!("/fn/{}/one/much", machine.namespace);
        let mut stream = machine.connect().await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.readable().await.unwrap();
        // It waits in the queue until the first is cut off. Its own time is the same, so it begins later.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        let (status, _) = machine.call("one", json("{}")).await;
        let took = began.elapsed();
        assert_eq!(status, 200, "{stall_timeout}");
        assert!(took < Duration::from_secs(10), "{stall_timeout}: {took:?}");
        let read = tokio::time::timeout(DEADLINE, read_to_the_end(&mut stream));
        let seen = read.await.expect("it is closed");
        assert!(!seen.ends_with(b"0\r\n\r\n"), "it is seen as cut");
        machine.stop().await;
    }
}

/// Reads on and on: the call's time is over all the same, and the worker stays.
#[tokio::test]
async fn an_endless_answer_ends_with_the_calls_time() {
    let _alone = super::ALONE.lock().await;
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let function = CreateFunction {
        timeout_seconds: Some(1),
        ..python("one")
    };
    machine.deploy(function, &[("handler.py", CODE)]).await;
    let path = format!("/fn/{}/one/much", machine.namespace);
    let mut stream = machine.connect().await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let began = Instant::now();
    let mut nowhere = tokio::io::sink();
    let reading = tokio::io::copy(&mut stream, &mut nowhere);
    let _ = tokio::time::timeout(DEADLINE, reading)
        .await
        .expect("it ends");
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(machine.call("one", json("{}")).await.0, 200);
    machine.stop().await;
}

#[tokio::test]
async fn who_stops_in_the_middle_of_a_body_is_told_so() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start_with(data.path(), &[("SLESS_STALL_TIMEOUT", "500ms")]).await;
    let path = deploy(&machine, "hello", 1).await;
    for target in [
        &path,
        &format!("/v1/namespaces/{}/ensure", machine.namespace),
    ] {
        let mut stream = machine.connect().await;
        let request =
            format!("POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf");
        stream.write_all(request.as_bytes()).await.unwrap();
        let began = Instant::now();
        let read = tokio::time::timeout(DEADLINE, read_to_the_end(&mut stream)).await;
        let text = String::from_utf8(read.expect("it is closed")).unwrap();
        let answer = Answer::of(&text);
        // Whom nobody lets in is not waited for.
        if target.starts_with("/v1") {
            assert_eq!(answer.status, 401, "{answer:?}");
            continue;
        }
        assert!(began.elapsed() >= Duration::from_millis(450));
        assert_eq!(answer.status, 408, "{answer:?}");
        assert_eq!(answer.error().code, "limit_stall_timeout");
    }
    machine.stop().await;
}

/// A head that goes on and on is refused where its limit is reached.
#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let before = memory(machine.process.id());
    for line in [
        "x-endless: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n",
        "yyyyyyyyyyyyyyyy",
    ] {
        let mut stream = machine.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
        let piece = line.repeat(256);
        let mut sent = 0;
        while stream.write_all(piece.as_bytes()).await.is_ok() {
            sent += piece.len();
            // The system takes some as well.
            assert!(sent < 64 << 20, "{sent} bytes of one head were taken");
        }
    }
    let now = memory(machine.process.id());
    assert!(
        now < before + (16 << 20),
        "{before} bytes before, {now} after"
    );
    machine.stop().await;
}
