//! Jobs.

use std::time::Duration;

use sless_runtime::{CallContext, JobOutcome, Language, run_once};

use super::support::*;

async fn run(language: Language, code: &str, event: &'static str) -> JobOutcome {
    run_with(Function::new(language, code), event).await
}

async fn run_with(function: Function, event: &'static str) -> JobOutcome {
    run_once(
        function.config.clone(),
        event.into(),
        CallContext::new("job"),
        function.logs.clone(),
    )
    .await
}

#[tokio::test]
async fn a_job_gives_its_result() {
    for (language, code) in [
        (Python, "def handle(event):\n    return event['a'] + 1"),
        (Node, "exports.handle = async (event) => event.a + 1;"),
    ] {
        let outcome = run(language, code, r#"{"a":1}"#).await;
        assert_eq!(outcome.exit_code(), 0);
        let JobOutcome::Succeeded {
            result,
            content_type,
        } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            (&result[..], content_type.as_deref()),
            (&b"2"[..], Some("application/json"))
        );
    }
}

#[tokio::test]
async fn a_failing_job_says_why() {
    let outcome = run(
        Python,
        "def handle(event):\n    print('before')\n    raise KeyError('k')",
        "{}",
    )
    .await;
    assert_eq!(outcome.exit_code(), 1);
    let JobOutcome::Failed { error, log_tail } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (error.kind.as_str(), error.message.as_str()),
        ("KeyError", "'k'")
    );
    assert!(
        log_tail.contains("before") && log_tail.contains("Traceback"),
        "{log_tail}"
    );

    let outcome = run(
        Node,
        "exports.handle = (event) => ({ statusCode: 404, body: 'nope' });",
        "{}",
    )
    .await;
    let JobOutcome::Failed { error, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        error.message.contains("404") && error.message.contains("nope"),
        "{error}"
    );

    let outcome = run(Python, "def handle(event):\n    return 1", "{").await;
    let JobOutcome::Failed { error, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(error.message.contains("BadEvent"), "{error}");
}

#[tokio::test]
async fn a_result_that_is_too_long_names_the_limit() {
    for code in [
        "def handle(event):\n    return 'x' * 2000",
        "def handle(event):\n    yield 'x' * 500\n    yield 'x' * 1000",
    ] {
        let function =
            Function::new(Python, code).with(|config| config.limits.max_result_bytes = 1000);
        let outcome = run_with(function, "{}").await;
        let JobOutcome::Failed { error, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(error.message.contains("max_result_bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_job_ends_in_time() {
    let function = Function::new(
        Python,
        "import time\ndef handle(event):\n    print('on')\n    time.sleep(600)",
    )
    .with(|config| config.timeout = Duration::from_millis(300));
    let outcome = run_with(function, "{}").await;
    assert_eq!(outcome.exit_code(), 124);
    let JobOutcome::TimedOut { log_tail, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(log_tail.contains("on"));
}

#[tokio::test]
async fn a_job_whose_process_ends_or_never_starts_says_so() {
    let outcome = run(Node, "exports.handle = (event) => process.exit(9);", "{}").await;
    assert_eq!(outcome.exit_code(), 137);
    let JobOutcome::Died { message, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(message.contains("status 9"), "{message}");
    let outcome = run(Python, "import nope", "{}").await;
    assert_eq!(outcome.exit_code(), 3);
    let JobOutcome::NotStarted(error) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.reason.word(), "handler_import");
}
