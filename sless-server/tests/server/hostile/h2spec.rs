//! What others have gathered of RFC 9113: h2spec.

use std::{collections::BTreeSet, process::Command};

use super::report;
use crate::e2e::machine::{Machine, python};

/// What does not begin as HTTP/2 does is answered as HTTP/1.1, with 400, and the connection ends: the
/// server speaks both on one port. h2spec wants no answer.
const NO_PREFACE: &str = "2: Sends invalid connection preface";

#[tokio::test]
#[ignore = "needs h2spec: testing/h2spec/up"]
async fn h2spec_finds_nothing_but_that_http1_is_spoken_too() {
    let h2spec = std::env::var("SLESS_TEST_H2SPEC")
        .expect("SLESS_TEST_H2SPEC is not set: testing/h2spec/up prints it");
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let code = "def handle(event):\n    return 'x' * 1000\n";
    machine
        .deploy(python("hello"), &[("handler.py", code)])
        .await;
    let mut run = Command::new(h2spec);
    run.args(["--host", "127.0.0.1", "--port"])
        .arg(machine.address.port().to_string())
        .arg("--path")
        .arg(format!("/fn/{}/hello", machine.namespace))
        .args(["--timeout", "5"]);
    let output = tokio::task::spawn_blocking(move || run.output().unwrap());
    let output = output.await.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let end = told.lines().rev().find(|line| line.contains("tests, "));
    let end = end.unwrap_or_else(|| panic!("h2spec did not end: {told}"));
    report(end);
    assert!(end.contains("145 tests, 144 passed, 0 skipped"), "{told}");
    let failed: BTreeSet<_> = told
        .lines()
        .filter_map(|line| line.trim().strip_prefix("× "))
        .collect();
    assert_eq!(failed, BTreeSet::from([NO_PREFACE]), "{told}");
    machine.stop().await;
}
