//! New versions, one after the other, under steady load: every call is answered, by a version that is
//! there, and none goes back to an older one once a newer has answered it.
//!
//! `SLESS_TEST_ROUNDS` says how many versions of each language (ten where it says nothing).
#![allow(clippy::print_stdout, reason = "the calls are counted")]

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use sless_api::client::Content;

use super::{
    machine::{Machine, function, json, zip},
    process::{DEADLINE, LOOK, marked_processes},
};

/// Who calls, each once in this time, and at once where an answer took longer.
const CALLERS: usize = 4;
const EVERY: Duration = Duration::from_millis(2);

fn rounds() -> u32 {
    let given = std::env::var("SLESS_TEST_ROUNDS").ok();
    given.map_or(10, |text| text.parse().expect("a number"))
}

fn version(runtime: &str, number: u32) -> Vec<u8> {
    match runtime {
        "python3.11" => zip(&[(
            "handler.py",
            &format!("def handle(event):\n    return {number}\n"),
        )]),
        _ => zip(&[("handler.js", &format!("exports.handle = () => {number};\n"))]),
    }
}

async fn no_call_fails(runtime: &str) {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let name = "steady";
    machine
        .upload(&function(name, runtime), version(runtime, 0))
        .await;
    machine.settled(name).await;

    let (done, newest, calls) = (Cell::new(false), Cell::new(0), Cell::new(0_u64));
    let slowest = Cell::new(Duration::ZERO);
    let calling = async || {
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seen = 0;
        while !done.get() {
            every.tick().await;
            let began = Instant::now();
            let (status, body) = machine.call(name, json("{}")).await;
            let text = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(status, 200, "after {} calls: {text}", calls.get());
            let answered: u32 = text.parse().unwrap();
            assert!(answered >= seen, "{answered} after {seen}");
            seen = answered;
            newest.set(newest.get().max(answered));
            calls.set(calls.get() + 1);
            slowest.set(slowest.get().max(began.elapsed()));
        }
    };
    let deploying = async {
        for number in 1..=rounds() {
            let zip = Content::bytes(version(runtime, number));
            let client = &machine.client;
            client.upload(&machine.namespace, name, zip).await.unwrap();
            let began = Instant::now();
            while newest.get() < number {
                let late = began.elapsed() > DEADLINE;
                assert!(
                    !late,
                    "{number} is not there: {}",
                    machine.process.err.text()
                );
                tokio::time::sleep(LOOK).await;
            }
        }
        done.set(true);
    };
    let began = Instant::now();
    let all = futures::future::join_all((0..CALLERS).map(|_| calling()));
    futures::join!(all, deploying);
    assert_eq!(newest.get(), rounds());
    println!(
        "{runtime}: {} versions in {:?} under {} calls, the slowest {:?}",
        rounds(),
        began.elapsed(),
        calls.get(),
        slowest.get()
    );

    // What served before has ended: one worker is left.
    let workers = || {
        let all = marked_processes().into_iter();
        all.filter(|(_, parent, _)| *parent == machine.process.id())
            .count()
    };
    let began = Instant::now();
    while workers() != 1 {
        assert!(began.elapsed() < DEADLINE, "{} workers", workers());
        tokio::time::sleep(LOOK).await;
    }
    machine.stop().await;
}

#[tokio::test]
async fn no_call_fails_while_python_is_redeployed() {
    no_call_fails("python3.11").await;
}

#[tokio::test]
async fn no_call_fails_while_node_is_redeployed() {
    no_call_fails("nodejs20").await;
}
