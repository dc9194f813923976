//! What is sent, and what is remembered of a server.

use serde_json::json;
use sless_core::{ErrorKind, Validator, Verdict};
use sless_validator::{BUILT_IN_PROMPT, CanaryRule, LlmConfig, LlmValidator, Prompt};

use crate::peer::{Act, Peer, judge, verdict};

#[tokio::test]
async fn a_request_is_what_the_api_asks_for() {
    let peer = judge().await;
    let config = peer.config().with_model("judge-1");
    let validator = LlmValidator::new(config).unwrap();
    assert_eq!(verdict(&validator).await.unwrap(), Verdict::Safe);
    let request = &peer.requests()[0];
    assert_eq!(request.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(request.headers["content-type"], "application/json");
    assert!(!request.headers.contains_key("authorization"));
    let body = &request.body;
    assert_eq!(
        (&body["model"], &body["stream"]),
        (&json!("judge-1"), &json!(false))
    );
    assert_eq!(
        (&body["max_tokens"], &body["temperature"]),
        (&json!(512), &json!(0))
    );
    assert_eq!(body["messages"].as_array().unwrap().len(), 2);
    let schema = &body["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["required"], json!(["safe"]));
    for name in ["reason", "canary"] {
        assert!(
            schema["properties"][name]["maxLength"].as_u64().unwrap() > 0,
            "{name} has a bound"
        );
    }
    // Servers that constrain the answer keep to this order.
    let at = |word: &str| request.text.find(word).unwrap();
    assert!(at("\"safe\":{") < at("\"reason\":{") && at("\"reason\":{") < at("\"canary\":{"));
    assert!(request.system().starts_with(BUILT_IN_PROMPT.trim_end()));
    let expected = format!(
        "FILE {0} BEGIN \"handler.py\"\n1| def handle(event): return 1\nFILE {0} END\n",
        request.boundary()
    );
    assert!(request.user().starts_with(&expected), "{}", request.user());
}

#[tokio::test]
async fn a_prompt_of_an_operator_replaces_ours_and_not_the_frame() {
    let peer = judge().await;
    let prompt = Prompt::new("Refuse whatever is written in tabs.").unwrap();
    let validator = LlmValidator::new(peer.config().with_prompt(prompt)).unwrap();
    verdict(&validator).await.unwrap();
    let request = &peer.requests()[0];
    assert!(
        request
            .system()
            .starts_with("Refuse whatever is written in tabs.\n")
    );
    assert!(!request.system().contains("mining"));
    assert!(request.system().contains(request.boundary()));
    assert!(Prompt::new(" \n").is_err());
    let long = Prompt::new("x".repeat(Prompt::BYTES_MAX + 1)).expect_err("too long");
    assert_eq!(long.reason(), "limit_prompt_bytes");
}

#[test]
fn the_built_in_prompt_asks_about_the_six() {
    let prompt = BUILT_IN_PROMPT.to_lowercase();
    for check in [
        "mining",
        "denial-of-service",
        "botnet",
        "scanning of ports",
        "reverse shells",
        "command and control",
        "escape from its container",
        "obfuscation",
    ] {
        assert!(prompt.contains(check), "{check}");
    }
}

#[tokio::test]
async fn what_a_server_does_not_know_is_left_out_and_that_is_remembered() {
    let peer = Peer::start(|_, request| {
        let refuse = |message: &str| {
            let error = json!({"message": message, "type": "invalid_request_error", "code": null});
            Act::status(400, &json!({ "error": error }))
        };
        let body = &request.body;
        if body.get("max_tokens").is_some() {
            return refuse(
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            );
        }
        if body.get("temperature").is_some() {
            return refuse("Unsupported value: 'temperature' does not support 0 with this model.");
        }
        match request.format() {
            "json_schema" => refuse("Invalid parameter: 'response_format' of type 'json_schema'"),
            "json_object" => Act::Answer(
                422,
                String::new(),
                "[{\"loc\": [\"response_format\"]}]".into(),
            ),
            _ => Act::says("```json\n{\"safe\": true}\n```"),
        }
    })
    .await;
    let validator = peer.validator();
    assert_eq!(verdict(&validator).await.unwrap(), Verdict::Safe);
    assert_eq!(peer.requests().len(), 5);
    assert_eq!(verdict(&validator).await.unwrap(), Verdict::Safe);
    let requests = peer.requests();
    assert_eq!(requests.len(), 6, "the second review asks once");
    assert_eq!(requests[5].body["max_completion_tokens"], 512);
}

#[tokio::test]
async fn a_refusal_of_one_source_is_not_taken_for_one_of_the_format() {
    let peer = Peer::start(|number, request| match number {
        0..3 => Act::status(400, &json!({"error": {"message": "no"}})),
        _ => Act::says(&json!({"safe": true, "canary": request.canary()}).to_string()),
    })
    .await;
    let validator = peer.validator();
    verdict(&validator).await.expect_err("refused");
    verdict(&validator).await.unwrap();
    assert_eq!(
        peer.requests()[3].format(),
        "json_schema",
        "nothing was remembered"
    );
}

#[tokio::test]
async fn an_unsafe_answer_of_the_contract_is_read_as_it_is() {
    let peer = Peer::always(Act::says("{\"safe\": false, \"reason\": \"it mines\"}")).await;
    let found = Verdict::Unsafe {
        reason: "it mines".into(),
    };
    assert_eq!(peer.verdict().await.unwrap(), found);
}

#[test]
fn the_identity_follows_whatever_a_verdict_depends_on() {
    let base = || LlmConfig::new("http://models.example:8000/v1");
    let identity = |config| LlmValidator::new(config).unwrap().identity();
    let identities = [
        identity(base()),
        identity(base().with_model("other")),
        identity(LlmConfig::new("http://other.example:8000/v1")),
        identity(base().with_prompt(Prompt::new("Look.").unwrap())),
        identity(base().with_canary(CanaryRule::Always)),
    ];
    for (at, one) in identities.iter().enumerate() {
        assert!(!identities[at + 1..].contains(one), "{one}");
    }
    assert!(
        identities[0].starts_with("llm/default@models.example:8000#"),
        "{}",
        identities[0]
    );
    let key = base().with_api_key("hunter2");
    assert_eq!(identity(key), identities[0]);
}

#[test]
fn a_wrong_configuration_names_its_field() {
    let good = || LlmConfig::new("http://127.0.0.1:1");
    let mut attempts = good();
    attempts.attempts = 0;
    let mut places = good();
    places.requests_at_once = 0;
    let mut proxy = good();
    proxy.proxy = Some("not a proxy".into());
    for (config, field) in [
        (LlmConfig::new("models.example"), "endpoint"),
        (
            LlmConfig::new("http://user:hunter2@models.example"),
            "endpoint",
        ),
        (good().with_model(" "), "model"),
        (good().with_api_key("a\nb"), "api_key"),
        (good().with_timeout(std::time::Duration::ZERO), "timeout"),
        (attempts, "attempts"),
        (places, "requests_at_once"),
        (proxy, "proxy"),
    ] {
        let error = LlmValidator::new(config).expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains(field), "{error}");
        assert!(!error.chain().contains("hunter2"), "{}", error.chain());
    }
}
