//! A real server: llama.cpp's, with a model whose verdicts follow words in the code.

use std::time::Duration;

use sless_core::{Runtime, Validator, Verdict, source::SourceTree};
use sless_validator::{LlmConfig, LlmValidator};

use crate::corpus::attempts;

fn needed(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: start testing/llm/up"))
}

fn config() -> LlmConfig {
    // As much code as is looked at takes seconds, beside a compiler many of them, and requests wait for
    // each other in silence.
    LlmConfig::new(needed("SLESS_TEST_LLM_ENDPOINT"))
        .with_api_key(needed("SLESS_TEST_LLM_API_KEY"))
        .with_timeout(Duration::from_secs(240))
}

pub(crate) fn validator() -> LlmValidator {
    LlmValidator::new(config()).expect("a validator")
}

async fn verdict(validator: &LlmValidator, text: &str) -> sless_core::Result<Verdict> {
    let source = SourceTree::from_files([("handler.py", text.to_owned())])?;
    validator.validate(&source, Runtime::Python311).await
}

#[tokio::test]
#[ignore = "needs an LLM: testing/llm/up"]
async fn the_verdict_follows_the_code() {
    let validator = validator();
    let safe = verdict(&validator, "def handle(event):\n    return 1\n").await;
    assert_eq!(safe.unwrap(), Verdict::Safe);
    let found = verdict(&validator, "WORD = 'sless-test-marker'\n")
        .await
        .unwrap();
    assert_eq!(found.reason(), "the marker of the tests");
}

#[tokio::test]
#[ignore = "needs an LLM: testing/llm/up"]
async fn no_attempt_turns_it() {
    let validator = validator();
    for attempt in attempts() {
        let source = SourceTree::from_files(attempt.files).unwrap();
        let verdict = validator
            .validate(&source, Runtime::Python311)
            .await
            .unwrap();
        assert!(
            matches!(verdict, Verdict::Unsafe { .. }),
            "{}: {verdict:?}",
            attempt.name
        );
    }
}

#[tokio::test]
#[ignore = "needs an LLM: testing/llm/up"]
async fn a_wrong_key_is_told() {
    let validator = LlmValidator::new(config().with_api_key("wrong")).unwrap();
    let error = verdict(&validator, "x = 1\n").await.expect_err("401");
    assert_eq!(error.reason(), "llm_unauthorized");
}

#[tokio::test]
#[ignore = "needs an LLM: testing/llm/up"]
async fn more_than_the_model_reads_is_told() {
    // Each of these is four bytes and four tokens; the limit of 100 KB leaves room for too many only
    // where characters are written out.
    let text = format!("x = '{}'\n", "\u{200b}".repeat(30_000));
    let error = verdict(&validator(), &text).await.expect_err("too much");
    assert_eq!(error.reason(), "llm_context_exceeded");
}

#[tokio::test]
#[ignore = "needs an LLM: testing/llm/up"]
async fn an_answer_that_is_cut_off_is_told() {
    let mut config = config();
    config.max_tokens = 1;
    let validator = LlmValidator::new(config).unwrap();
    let error = verdict(&validator, "x = 1\n").await.expect_err("cut");
    assert_eq!(error.reason(), "llm_answer_cut");
}
