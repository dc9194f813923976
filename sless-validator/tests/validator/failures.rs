//! What servers of models really answer, and what becomes of it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::json;
use sless_core::{ErrorKind, Retry, Verdict};
use sless_validator::LlmValidator;

use crate::peer::{Act, DEADLINE, Peer, verdict};

/// What comes of this act: the kind, the reason, and the number of requests.
async fn outcome(act: Act) -> (ErrorKind, String, usize) {
    let peer = Peer::always(act).await;
    let error = peer.verdict().await.expect_err("no verdict");
    assert_eq!(error.backend(), "llm");
    (
        error.kind(),
        error.reason().to_owned(),
        peer.requests().len(),
    )
}

fn error(status: u16, message: &str, kind: &str) -> Act {
    let error = json!({"code": status, "message": message, "type": kind});
    Act::status(status, &json!({ "error": error }))
}

#[tokio::test]
async fn a_refusal_for_good_is_told_at_once() {
    use ErrorKind::{Corrupt, Unavailable};
    let context = "the request exceeds the available context size, try increasing it";
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"{\"}}]}\n\ndata: {\"error\":{\"code\":500}}\n\n";
    let redirect = Act::Answer(
        307,
        "location: http://127.0.0.1:9/\r\n".into(),
        String::new(),
    );
    for (act, kind, reason, requests) in [
        (
            error(401, "Invalid API Key", "authentication_error"),
            Unavailable,
            "llm_unauthorized",
            1,
        ),
        (error(403, "no", "x"), Unavailable, "llm_unauthorized", 1),
        (
            error(404, "File Not Found", "not_found_error"),
            Unavailable,
            "llm_not_found",
            1,
        ),
        (
            error(400, context, "exceed_context_size_error"),
            Unavailable,
            "llm_context_exceeded",
            1,
        ),
        (
            error(413, "too large", "x"),
            Unavailable,
            "llm_context_exceeded",
            1,
        ),
        (redirect, Unavailable, "llm_redirected", 1),
        // With a schema, with JSON, with neither.
        (
            error(400, "bad request", "x"),
            Unavailable,
            "llm_request_refused",
            3,
        ),
        (
            Act::Answer(200, String::new(), stream.into()),
            Corrupt,
            "llm_answer_invalid",
            1,
        ),
        (
            Act::Answer(200, String::new(), "<html>".into()),
            Corrupt,
            "llm_answer_invalid",
            1,
        ),
        (
            Act::ends("{\"safe\": true}", "length"),
            Corrupt,
            "llm_answer_cut",
            1,
        ),
        (
            Act::ends("", "content_filter"),
            Corrupt,
            "llm_answer_withheld",
            1,
        ),
        (Act::says(""), Corrupt, "llm_answer_empty", 1),
        (
            Act::says("This code looks fine to me!"),
            Corrupt,
            "llm_answer_prose",
            1,
        ),
        (Act::says("{\"safe\": tr"), Corrupt, "llm_answer_prose", 1),
    ] {
        let shown = format!("{act:?}");
        assert_eq!(
            outcome(act).await,
            (kind, reason.to_owned(), requests),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn what_passes_is_tried_again_and_then_told() {
    use ErrorKind::{Overloaded, Unavailable};
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\":".to_vec();
    for (act, kind, reason) in [
        (
            error(500, "output does not fit the format", "server_error"),
            Unavailable,
            "llm_failed",
        ),
        (
            error(503, "Loading model", "unavailable_error"),
            Unavailable,
            "llm_failed",
        ),
        (
            error(429, "slow down", "rate_limit"),
            Overloaded,
            "llm_rate_limited",
        ),
        (Act::Bytes(Vec::new()), Unavailable, "llm_interrupted"),
        (Act::Bytes(cut), Unavailable, "llm_interrupted"),
        (
            Act::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec()),
            Unavailable,
            "llm_interrupted",
        ),
    ] {
        let shown = format!("{act:?}");
        assert_eq!(outcome(act).await, (kind, reason.to_owned(), 3), "{shown}");
    }
}

#[tokio::test]
async fn a_server_that_comes_up_is_waited_for() {
    let loading = |number, request: &crate::peer::Request| match number {
        0 => error(503, "Loading model", "unavailable_error"),
        1 => Act::Bytes(Vec::new()),
        _ => Act::says(&json!({"safe": true, "canary": request.canary()}).to_string()),
    };
    let peer = Peer::start(loading).await;
    assert_eq!(peer.verdict().await.unwrap(), Verdict::Safe);
    assert_eq!(peer.requests().len(), 3);
}

#[tokio::test]
async fn a_refused_connection_is_told() {
    // A port that was ours a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut config = sless_validator::LlmConfig::new(format!("http://{address}"));
    config.retry_delay = Duration::from_millis(1);
    let error = verdict(&LlmValidator::new(config).unwrap())
        .await
        .expect_err("nobody there");
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Unavailable, "llm_unreachable")
    );
    assert_eq!(error.retry(), Retry::Transient);
}

#[tokio::test]
async fn retry_after_is_honoured_within_the_time() {
    let limited = |seconds: u32| {
        let line = format!("retry-after: {seconds}\r\n");
        Act::Answer(429, line, "{}".to_owned())
    };
    let peer = Peer::start(move |number, _| match number {
        0 => limited(1),
        _ => Act::says("{\"safe\": true}"),
    })
    .await;
    let began = Instant::now();
    assert_eq!(peer.verdict().await.unwrap(), Verdict::Safe);
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );

    let peer = Peer::always(limited(3600)).await;
    let began = Instant::now();
    let error = peer.verdict().await.expect_err("an hour is too long");
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Overloaded, "llm_rate_limited")
    );
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(3600)));
    assert_eq!(peer.requests().len(), 1);
    assert!(
        began.elapsed() < DEADLINE,
        "nobody waits for what cannot come"
    );
}

#[tokio::test]
async fn a_slow_one_is_left_when_the_time_is_over() {
    let body = b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{".to_vec();
    for act in [Act::Silence, Act::Drip(body)] {
        let peer = Peer::always(act).await;
        let config = peer.config().with_timeout(Duration::from_millis(300));
        let began = Instant::now();
        let error = verdict(&LlmValidator::new(config).unwrap())
            .await
            .expect_err("too slow");
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::Timeout, "llm_timeout")
        );
        assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_at_its_limit() {
    let peer = Peer::always(Act::says(&"x".repeat(100_000))).await;
    let mut config = peer.config();
    config.answer_bytes = 10_000;
    let error = verdict(&LlmValidator::new(config).unwrap())
        .await
        .expect_err("too long");
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Corrupt, "limit_answer_bytes")
    );
}

#[tokio::test]
async fn no_more_than_so_many_requests_are_under_way_at_once() {
    let slow = Duration::from_millis(100);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let times = begun.clone();
    let peer = Peer::start(move |_, _| {
        times.lock().unwrap().push(Instant::now());
        Act::After(slow, Box::new(Act::says("{\"safe\": true}")))
    })
    .await;
    let mut config = peer.config();
    config.requests_at_once = 1;
    let validator = LlmValidator::new(config).unwrap();
    let reviews = tokio::join!(
        verdict(&validator),
        verdict(&validator),
        verdict(&validator)
    );
    assert!(reviews.0.is_ok() && reviews.1.is_ok() && reviews.2.is_ok());
    let begun = begun.lock().unwrap();
    assert!(
        begun.windows(2).all(|pair| pair[1] - pair[0] >= slow),
        "{begun:?}"
    );
}

#[tokio::test]
async fn whoever_waits_for_others_waits_no_longer_than_the_limit() {
    let peer = Peer::always(Act::Silence).await;
    let mut config = peer.config().with_timeout(Duration::from_millis(300));
    config.requests_at_once = 1;
    let validator = LlmValidator::new(config).unwrap();
    let began = Instant::now();
    let (one, two) = tokio::join!(verdict(&validator), verdict(&validator));
    for error in [one, two].map(|said| said.expect_err("silence")) {
        let reason = error.reason();
        assert!(
            reason == "llm_timeout" || reason == "limit_requests_at_once",
            "{error:?}"
        );
    }
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn dropping_the_review_ends_the_request() {
    let peer = Peer::always(Act::Silence).await;
    let mut config = peer.config();
    config.requests_at_once = 1;
    let validator = LlmValidator::new(config).unwrap();
    for round in 1..=2 {
        let review = verdict(&validator);
        let arrived = async {
            while peer.requests().len() < round {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = review => panic!("nobody answered"),
            () = arrived => {}
            () = tokio::time::sleep(DEADLINE) => panic!("round {round}: its place was not given back"),
        }
    }
}

#[tokio::test]
async fn nothing_of_what_a_server_says_reaches_the_uploader() {
    let peer = Peer::always(error(401, "key sk-hunter2 is wrong", "x")).await;
    let config = peer.config().with_api_key("sk-hunter2");
    assert!(!format!("{config:?}").contains("hunter2"));
    let validator = LlmValidator::new(config).unwrap();
    assert!(!format!("{validator:?}").contains("hunter2"));
    let error = verdict(&validator).await.expect_err("refused");
    assert_eq!(
        error.message(),
        "the model's server answered with status 401"
    );
    assert!(
        error.chain().contains("is wrong"),
        "the log has it: {}",
        error.chain()
    );
    assert_eq!(
        peer.requests()[0].headers["authorization"],
        "Bearer sk-hunter2"
    );
}
