//! Reviews of uploads: the settings, the policy, what the API shows, and a real model.

use std::{collections::HashMap, path::Path};

use sless_api::{
    CreateFunction, UploadResult, VerdictOutcome,
    client::{Client, ClientError, Content},
};

use super::{machine::Machine, process::command};
use crate::support::{refused, zip};

const SAFE: &str = "def handle(event):\n    return 1\n";
const SHELL: &str = "import pty\n\ndef handle(event):\n    pty.spawn('/bin/sh')\n";

async fn upload(machine: &Machine, code: &str) -> Result<UploadResult, ClientError> {
    let content = Content::bytes(zip(&[("handler.py", code)]));
    let Machine {
        client, namespace, ..
    } = machine;
    client.upload(namespace, "hello", content).await
}

async fn create(client: &Client, namespace: &str) {
    let function = CreateFunction {
        name: "hello".into(),
        runtime: "python3.11".into(),
        ..CreateFunction::default()
    };
    client.create_function(namespace, &function).await.unwrap();
}

async fn machine(data: &Path, settings: &[(&str, &str)]) -> Machine {
    let machine = Machine::start_with(data, settings).await;
    create(&machine.client, &machine.namespace).await;
    machine
}

#[tokio::test]
async fn by_default_nobody_looks_and_that_is_said() {
    let data = tempfile::tempdir().unwrap();
    let machine = machine(data.path(), &[]).await;
    let result = upload(&machine, SHELL).await.unwrap();
    assert_eq!(result.verdict.outcome, VerdictOutcome::Skipped);
    assert_eq!(
        result.verdict.reason.as_deref(),
        Some("no validator is configured")
    );
    machine.stop().await;
}

#[tokio::test]
async fn rules_refuse_with_file_and_line_and_the_verdict_is_shown() {
    let data = tempfile::tempdir().unwrap();
    let machine = machine(data.path(), &[("SLESS_STATIC_VALIDATION", "true")]).await;
    let (status, code, message) = refused(upload(&machine, SHELL).await);
    assert_eq!((status, code.as_str()), (400, "code_validation_failed"));
    assert!(
        message.contains("code validation failed: handler.py:4: reverse shell"),
        "{message}"
    );
    let (client, namespace) = (&machine.client, &machine.namespace);
    let function = client.function(namespace, "hello").await.unwrap();
    assert_eq!((function.s3_key, function.verdict), (None, None));

    let result = upload(&machine, SAFE).await.unwrap();
    assert_eq!(
        (result.verdict.outcome, result.warnings),
        (VerdictOutcome::Safe, vec![])
    );
    let function = client.function(namespace, "hello").await.unwrap();
    let verdict = function.verdict.expect("a stored verdict");
    assert_eq!(verdict.outcome, VerdictOutcome::Safe);
    assert_eq!(Some(verdict.code_sha256), function.code_sha256);
    assert!(verdict.by.starts_with("static/"), "{}", verdict.by);
    machine.stop().await;
}

#[tokio::test]
async fn the_policy_is_a_setting() {
    let data = tempfile::tempdir().unwrap();
    let rules = ("SLESS_STATIC_VALIDATION", "true");
    let warns = machine(data.path(), &[rules, ("SLESS_VALIDATION", "warn")]).await;
    let result = upload(&warns, SHELL).await.unwrap();
    assert_eq!(result.verdict.outcome, VerdictOutcome::Unsafe);
    assert!(result.warnings[0].starts_with("the code was found unsafe: handler.py:4"));
    warns.stop().await;

    // The same code is refused once the policy says so, although it is there.
    let blocks = Machine::start_with(data.path(), &[rules]).await;
    assert_eq!(refused(upload(&blocks, SHELL).await).0, 400);
    blocks.stop().await;

    let off = Machine::start_with(data.path(), &[rules, ("SLESS_VALIDATION", "off")]).await;
    let result = upload(&off, SHELL).await.unwrap();
    assert_eq!(result.verdict.outcome, VerdictOutcome::Skipped);
    off.stop().await;
}

fn checked(settings: &[(&str, &str)]) -> (bool, String) {
    let mut check = command(None, ["check-config"]);
    let settings: HashMap<_, _> = settings.iter().copied().collect();
    let output = check.envs(settings).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), text)
}

#[test]
fn wrong_settings_are_named() {
    for (name, value, expected) in [
        ("SLESS_VALIDATION", "maybe", "expected block or warn or off"),
        (
            "SLESS_VALIDATION_ON_FAILURE",
            "yes",
            "expected soft or hard",
        ),
        ("SLESS_STATIC_VALIDATION", "1", "expected true or false"),
    ] {
        let (success, text) = checked(&[(name, value)]);
        assert!(
            !success && text.contains(name) && text.contains(expected),
            "{text}"
        );
    }
}

#[cfg(feature = "llm")]
mod llm {
    use super::*;

    #[test]
    fn a_model_needs_its_endpoint() {
        let (success, text) = checked(&[("LLM_ENABLED", "true")]);
        assert!(
            !success && text.contains("LLM_ENDPOINT is missing"),
            "{text}"
        );
        let (success, text) = checked(&[("LLM_CANARY", "never")]);
        assert!(
            !success && text.contains("expected where-addressed or always"),
            "{text}"
        );
    }

    /// A port at which nobody listens any more.
    fn nobody() -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    #[tokio::test]
    async fn a_model_that_is_away_lets_pass_or_refuses_for_now() {
        let data = tempfile::tempdir().unwrap();
        let endpoint = nobody();
        let away = [("LLM_ENABLED", "true"), ("LLM_ENDPOINT", endpoint.as_str())];
        let soft = machine(data.path(), &away).await;
        let result = upload(&soft, SAFE).await.unwrap();
        let said = "the code was not validated: the model cannot be reached";
        assert_eq!(result.verdict.outcome, VerdictOutcome::Skipped);
        assert_eq!(result.verdict.reason.as_deref(), Some(said));
        assert_eq!(result.warnings, [said]);
        soft.stop().await;

        let hard = [away[0], away[1], ("SLESS_VALIDATION_ON_FAILURE", "hard")];
        let hard = Machine::start_with(data.path(), &hard).await;
        let other = SAFE.replace('1', "2");
        let (status, code, message) = refused(upload(&hard, &other).await);
        assert_eq!(
            (status, code.as_str()),
            (503, "validation_unavailable"),
            "{message}"
        );
        hard.stop().await;
    }

    #[tokio::test]
    async fn a_prompt_that_cannot_be_read_stops_the_start() {
        let data = tempfile::tempdir().unwrap();
        let mut serve = command(Some(data.path()), ["serve"]);
        serve
            .env("SLESS_LISTEN", "127.0.0.1:0")
            .env("LLM_ENABLED", "true")
            .env("LLM_ENDPOINT", "http://127.0.0.1:1")
            .env("LLM_PROMPT_FILE", data.path().join("absent.md"));
        let output = serve.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(
            text.contains("LLM_PROMPT_FILE") && text.contains("absent.md"),
            "{text}"
        );
    }

    #[tokio::test]
    #[ignore = "needs an LLM: testing/llm/up"]
    async fn a_real_model_decides_over_uploads() {
        let needed = |name: &str| {
            std::env::var(name)
                .unwrap_or_else(|_| panic!("{name} is not set: start testing/llm/up"))
        };
        let data = tempfile::tempdir().unwrap();
        let endpoint = needed("SLESS_TEST_LLM_ENDPOINT");
        let key = needed("SLESS_TEST_LLM_API_KEY");
        // Reviews wait for each other in silence, and the suite's largest takes a while.
        let settings = [
            ("LLM_ENABLED", "true"),
            ("LLM_ENDPOINT", endpoint.as_str()),
            ("LLM_API_KEY", key.as_str()),
            ("LLM_MODEL", "verdicts"),
            ("LLM_TIMEOUT", "100s"),
        ];
        let machine = machine(data.path(), &settings).await;
        let marked = format!("WORD = 'sless-test-marker'\n{SAFE}");
        let (status, code, message) = refused(upload(&machine, &marked).await);
        assert_eq!((status, code.as_str()), (400, "code_validation_failed"));
        assert!(
            message.ends_with("code validation failed: the marker of the tests"),
            "{message}"
        );
        let result = upload(&machine, SAFE).await.unwrap();
        assert_eq!(
            (result.verdict.outcome, result.warnings),
            (VerdictOutcome::Safe, vec![])
        );
        let (client, namespace) = (&machine.client, &machine.namespace);
        let first = client
            .function(namespace, "hello")
            .await
            .unwrap()
            .verdict
            .unwrap();
        assert!(
            first.by.starts_with("llm/verdicts@127.0.0.1:"),
            "{}",
            first.by
        );
        assert!(!first.by.contains(&key));
        upload(&machine, SAFE).await.unwrap();
        let again = client
            .function(namespace, "hello")
            .await
            .unwrap()
            .verdict
            .unwrap();
        assert_eq!(again, first, "the same code is not asked about again");
        machine.stop().await;
    }
}
