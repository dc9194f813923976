//! HTTP/2: that it works, and that it cannot be made to hold or to do too much.

use std::time::{Duration, Instant};

use futures::future;
use tokio::io::AsyncWriteExt;

use super::{Good, frames::*, memory, quantile, report};
use crate::{
    e2e::{
        machine::{Machine, python},
        process::DEADLINE,
    },
    support::{Server, until},
};

/// How much a server may hold more for what these tests do to it; without any limit each of them
/// would make it hold far more.
const MORE: u64 = 64 << 20;

const MEGABYTE: usize = 1 << 20;

#[tokio::test]
async fn requests_share_a_connection_and_functions_see_what_they_see_of_http1() {
    let server = Server::with_hello().await;
    let mut connection = Connection::begin(server.address, &[]).await;
    let path = server.hello("/a%2Fb?q=1");
    let head = [
        &request("POST", &path)[..],
        &[
            ("cookie", "a=1"),
            ("x-one", "1"),
            ("cookie", "b=2"),
            ("te", "trailers"),
        ],
    ]
    .concat();
    connection
        .send(&frame(HEADERS, END_HEADERS, 1, &fields(&head)))
        .await;
    // Another one passes it while its body is on the way.
    connection.get(3, "/healthz").await;
    let healthy = connection.answer(3).await;
    assert_eq!(
        (healthy.status(), healthy.reset),
        (200, false),
        "{healthy:?}"
    );
    connection.send(&frame(DATA, END_STREAM, 1, b"body")).await;
    let answer = connection.answer(1).await;
    let seen: serde_json::Value = serde_json::from_slice(&answer.data).unwrap();
    assert_eq!(seen["method"], "POST");
    assert_eq!(seen["uri"], "/a%2Fb?q=1");
    assert_eq!(seen["body"], "body");
    let fields = seen["fields"].to_string();
    for field in ["host: h2.example", "cookie: a=1; b=2", "x-one: 1"] {
        assert!(fields.contains(field), "{field} not in {fields}");
    }
    assert!(!fields.contains("\"te:"), "{fields}");
}

#[tokio::test]
async fn a_head_above_a_limit_is_refused() {
    let given = [
        ("SLESS_MAX_HEADER_BYTES", "8KiB"),
        ("SLESS_MAX_HEADERS", "20"),
    ];
    let server = Server::start_with(&given, |_| {}).await;
    let mut connection = Connection::begin(server.address, &[]).await;
    let names: Vec<_> = (0..40).map(|number| format!("x-{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let head = fields(&[&request("GET", "/healthz")[..], &many].concat());
    let flags = END_HEADERS | END_STREAM;
    connection.send(&frame(HEADERS, flags, 1, &head)).await;
    let answer = connection.answer(1).await;
    assert!(answer.text().contains("limit_headers"), "{answer:?}");
    let mut connection = Connection::begin(server.address, &[]).await;
    let long = "y".repeat(12 << 10);
    let head = fields(&[&request("GET", "/healthz")[..], &[("x", &long)]].concat());
    connection.send(&frame(HEADERS, flags, 1, &head)).await;
    let answer = connection.answer(1).await;
    assert_eq!(answer.status(), 431, "{answer:?}");
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_in_time() {
    let server = Server::start_with(&[("SLESS_HEADER_TIMEOUT", "200ms")], |_| {}).await;
    // Nothing at all, half of what HTTP/2 begins with, and a beginning without a request.
    for begin in [&b""[..], b"PRI * HTTP/2.0\r\n\r\nSM", b"G"] {
        let mut stream = server.connect().await;
        stream.write_all(begin).await.unwrap();
        let read = super::read_to_the_end(&mut stream);
        tokio::time::timeout(DEADLINE, read).await.expect("closed");
    }
    let silent = Connection::begin(server.address, &[]).await;
    silent.closed(DEADLINE).await;
    // One whose requests are over is told to go.
    let mut idle = Connection::begin(server.address, &[]).await;
    idle.get(1, "/healthz").await;
    assert_eq!(idle.answer(1).await.status(), 200);
    let began = Instant::now();
    assert!(idle.closed(DEADLINE).await, "it is said");
    assert!(began.elapsed() >= Duration::from_millis(150));
}

#[tokio::test]
async fn a_body_that_stops_coming_is_408_and_the_connection_goes_on() {
    let server = Server::start_with(&[("SLESS_STALL_TIMEOUT", "200ms")], |_| {}).await;
    server.ensure().await;
    server.deploy("hello").await;
    let mut connection = Connection::begin(server.address, &[]).await;
    let path = server.hello("/x");
    let head = fields(&request("POST", &path));
    connection
        .send(&frame(HEADERS, END_HEADERS, 1, &head))
        .await;
    connection.send(&frame(DATA, 0, 1, b"half")).await;
    let answer = connection.answer(1).await;
    assert!(answer.text().contains("limit_stall_timeout"), "{answer:?}");
    connection.get(3, "/healthz").await;
    assert_eq!(connection.answer(3).await.status(), 200);
}

/// An answer whose stream's window stays shut is dropped, though the connection itself is fine.
#[tokio::test]
async fn an_answer_that_is_not_taken_is_dropped_in_time() {
    let server = Server::start_with(&[("SLESS_STALL_TIMEOUT", "300ms")], |_| {}).await;
    server.ensure().await;
    server.deploy("hello").await;
    let shut = setting(INITIAL_WINDOW_SIZE, 0);
    let mut connection = Connection::begin(server.address, &shut).await;
    let path = server.hello("/endless?window-shut");
    connection.get(1, &path).await;
    let answer = tokio::time::timeout(DEADLINE, connection.answer(1)).await;
    assert!(answer.expect("in time").reset);
    until("the function is told", async || {
        crate::proxy::handler::has_left("window-shut")
    })
    .await;
    connection.get(3, "/healthz").await;
    let healthy = connection.next().await;
    assert!(healthy.is_some(), "the connection goes on");
}

#[tokio::test]
async fn a_drain_lets_requests_of_http2_end() {
    let mut server = Server::with_hello().await;
    let mut connection = Connection::begin(server.address, &[]).await;
    let path = server.hello("/x");
    let head = fields(&request("POST", &path));
    connection
        .send(&frame(HEADERS, END_HEADERS, 1, &head))
        .await;
    until("under way", async || server.sless.stats().calls > 0).await;
    server.tell_to_stop();
    until("draining", async || server.state.is_draining()).await;
    connection.send(&frame(DATA, END_STREAM, 1, b"body")).await;
    let answer = connection.answer(1).await;
    assert!(answer.text().contains(r#""body":"body""#), "{answer:?}");
    let ended = tokio::spawn(server.ended());
    // A client that is there answers the ping behind which the server closes.
    while let Some(seen) = connection.next().await {
        if seen.kind == PING && seen.flags & ACK == 0 {
            connection.pong(&seen.payload).await;
        }
    }
    ended.await.unwrap();
}

/// A server, a function that answers, and a client that means well.
async fn attacked() -> (tempfile::TempDir, Machine, String) {
    let data = tempfile::tempdir().unwrap();
    let settings = [
        ("SLESS_HEADER_TIMEOUT", "3s"),
        ("SLESS_STALL_TIMEOUT", "3s"),
        ("SLESS_LOG", "info,sless_server::serve=debug"),
    ];
    let machine = Machine::start_with(data.path(), &settings).await;
    let code = "def handle(event):\n    return 'ok'\n";
    machine
        .deploy(python("hello"), &[("handler.py", code)])
        .await;
    let path = format!("/fn/{}/hello", machine.namespace);
    (data, machine, path)
}

/// Sends as much as the server takes, up to `most` bytes, and answers how much that was. Nothing that
/// the server says is read.
async fn flood(machine: &Machine, first: &[u8], again: &[u8], most: usize) -> usize {
    let mut connection = Connection::begin(machine.address, &[]).await;
    let sending = async {
        let mut sent = 0;
        if connection.write.write_all(first).await.is_err() {
            return sent;
        }
        while sent < most && connection.write.write_all(again).await.is_ok() {
            sent += again.len();
        }
        sent
    };
    // What it does not take it does not hold either.
    let within = Duration::from_secs(5);
    let mut sent = 0;
    tokio::pin!(sending);
    tokio::select! {
        all = &mut sending => sent = all,
        () = tokio::time::sleep(within) => {}
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames_neither_fill_the_memory_nor_stop_others() {
    let _alone = super::ALONE.lock().await;
    let (_data, machine, path) = attacked().await;
    let server = machine.process.id();
    let mut good = Good::connect(&machine, &path).await;
    for _ in 0..200 {
        assert_eq!(good.ask().await.status, 200);
    }
    let before = memory(server);
    let head = fields(&request("GET", &path));
    let endless = fields(&[("x-endless", &"y".repeat(16_000))]);
    let settings: Vec<u8> = (0..100)
        .flat_map(|_| frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 65_535)))
        .collect();
    let pings: Vec<u8> = (0..100).flat_map(|_| frame(PING, 0, 0, &[7; 8])).collect();
    let updates: Vec<u8> = (0..100)
        .flat_map(|_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()))
        .collect();
    let empty: Vec<u8> = (0..100).flat_map(|_| frame(DATA, 0, 1, &[])).collect();
    let begins = frame(HEADERS, 0, 1, &head);
    let whole = frame(HEADERS, END_HEADERS, 1, &head);
    let floods: [(&str, &[u8], Vec<u8>); 5] = [
        ("CONTINUATION", &begins, frame(CONTINUATION, 0, 1, &endless)),
        ("SETTINGS", &[], settings),
        ("PING", &[], pings),
        ("WINDOW_UPDATE", &[], updates),
        ("empty DATA", &whole, empty),
    ];
    for (name, first, again) in &floods {
        let flooding =
            future::join_all((0..10).map(|_| flood(&machine, first, again, 4 * MEGABYTE)));
        let asking = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..20 {
                let began = Instant::now();
                assert_eq!(good.ask().await.status, 200);
                slowest = slowest.max(began.elapsed());
            }
            slowest
        };
        let (sent, slowest) = future::join(flooding, asking).await;
        let now = memory(server);
        report(&format!(
            "{name}: took {} KiB of 10 connections, {} MiB before and {} MiB after; \
             slowest good request {slowest:?}",
            sent.iter().sum::<usize>() >> 10,
            before >> 20,
            now >> 20,
        ));
        assert!(
            now < before + MORE,
            "{name}: {before} bytes before, {now} after"
        );
        assert!(slowest < Duration::from_secs(2), "{name}: {slowest:?}");
        // They are sent away, and not read on.
        let most = sent.iter().max().unwrap();
        assert!(*most < MEGABYTE, "{name}: {most} bytes were taken of one");
    }
    machine.stop().await;
}

/// Makes requests and takes each back after a pause, until the server ends the connection.
async fn taken_back(machine: &Machine, path: &str, count: u32, pause: Duration) {
    let head = fields(&request("GET", path));
    let mut connection = Connection::begin(machine.address, &[]).await;
    for number in 0..count {
        let stream = 2 * number + 1;
        let begin = frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        let end = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        let sent = if pause.is_zero() {
            connection.write.write_all(&[begin, end].concat()).await
        } else {
            let begun = connection.write.write_all(&begin).await;
            tokio::time::sleep(pause).await;
            begun.and(connection.write.write_all(&end).await)
        };
        if sent.is_err() {
            break;
        }
    }
    connection.closed(DEADLINE).await;
}

/// Requests that are taken back as they are made (CVE-2023-44487).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_only_takes_requests_back_is_sent_away() {
    let _alone = super::ALONE.lock().await;
    let (_data, machine, path) = attacked().await;
    let server = machine.process.id();
    let code = "import asyncio\n\nasync def handle(event):\n    await asyncio.sleep(30)\n";
    machine
        .deploy(python("waits"), &[("handler.py", code)])
        .await;
    let waits = format!("/fn/{}/waits", machine.namespace);
    let mut good = Good::connect(&machine, &path).await;
    let mut quiet = Vec::new();
    for _ in 0..200 {
        let began = Instant::now();
        good.ask().await;
        quiet.push(began.elapsed());
    }
    let before = memory(server);
    let attack = async {
        // As fast as it goes, and slowly enough for each to be seen and begun.
        for (count, pause) in [(20_000, Duration::ZERO), (150, Duration::from_millis(3))] {
            for _ in 0..5 {
                taken_back(&machine, &waits, count, pause).await;
            }
        }
    };
    let asking = async {
        let mut times = Vec::new();
        for _ in 0..200 {
            let began = Instant::now();
            assert_eq!(good.ask().await.status, 200);
            times.push(began.elapsed());
        }
        times
    };
    let ((), mut busy) = future::join(attack, asking).await;
    let now = memory(server);
    // By h2 for doing it too fast to be seen, or by this server.
    let told = &machine.process.err;
    let (by_h2, by_us) = (told.count("http2 error"), told.count("TakesBack"));
    report(&format!(
        "rapid reset: {by_h2} and {by_us} of 5 connections each were ended; p99 {:?} before and {:?} meanwhile; \
         {} MiB before and {} MiB after",
        quantile(&mut quiet, 0.99),
        quantile(&mut busy, 0.99),
        before >> 20,
        now >> 20,
    ));
    assert_eq!((by_h2, by_us), (5, 5), "{}", told.text());
    assert!(now < before + MORE, "{before} bytes before, {now} after");
    machine.stop().await;
}
