//! Calling.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, StatusCode};
use serde_json::json;
use sless_core::{Body, Digest};

use super::{
    Case,
    case::{bytes_request, context, event_request},
};
use crate::{
    Fixture, Outcome, Violation,
    bytes::{chunked, pattern},
    clause::{While as _, ensure, ensure_eq},
};

pub(super) async fn every_byte_arrives_both_ways(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Echo).await?;
    for body in [
        Bytes::from_iter(0..=u8::MAX),
        Bytes::new(),
        Bytes::from_static(b"\0"),
        pattern(70_001, 1),
    ] {
        let answer = case
            .send(&invoker, bytes_request(body.clone()), &context())
            .await?;
        ensure_eq!(answer.status, StatusCode::OK, "the status of an echo");
        ensure!(
            answer.body == body,
            "{} bytes came back of {}",
            answer.body.len(),
            body.len()
        );
        ensure_eq!(
            answer.header("content-type"),
            "application/octet-stream",
            "the media type"
        );
    }
    Ok(())
}

pub(super) async fn the_request_arrives_as_it_is(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Request).await?;
    for (method, uri) in [
        (Method::GET, "/"),
        (Method::PUT, "/a%2Fb//c?q=%E2%9C%93&q=2&empty="),
        (Method::DELETE, "/a/./b;c=d/"),
        (Method::PATCH, "/?"),
    ] {
        let mut request = http::Request::new(Body::empty());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri
            .parse()
            .map_err(|_| Violation::new(format!("{uri} is no URI")))?;
        let sent = http::HeaderValue::from_static("by the suite; a=\"b\"");
        request.headers_mut().insert("x-sent", sent);
        let context = context();
        let answer = case.send(&invoker, request, &context).await?;
        ensure_eq!(
            answer.status,
            StatusCode::CREATED,
            "the status that the function gave"
        );
        ensure_eq!(
            answer.header("x-made"),
            "by the fixture",
            "a header that the function gave"
        );
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let expected = json!({
            "method": method.as_str(),
            "path": path,
            "query": query,
            "header": "by the suite; a=\"b\"",
            "request_id": &*context.request_id,
        });
        ensure_eq!(
            answer.json()?,
            expected,
            "what the function saw of {method} {uri}"
        );
    }
    Ok(())
}

pub(super) async fn a_raised_error_is_a_response(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Raise).await?;
    for _ in 0..2 {
        let answer = case
            .post(&invoker, &json!({}))
            .await
            .while_("calling what raises")?;
        ensure_eq!(
            answer.status,
            StatusCode::INTERNAL_SERVER_ERROR,
            "the status"
        );
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(
            text.contains("FixtureError"),
            "the error's type is not named: {text}"
        );
        ensure!(
            text.contains("the fixture raised this"),
            "its message is not there: {text}"
        );
    }
    Ok(())
}

pub(super) async fn a_request_streams_in(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Echo).await?;
    let body = pattern(2_000_003, 1);
    let request = bytes_request(Body::from_stream(chunked(&body, 10_007)));
    let answer = case.send(&invoker, request, &context()).await?;
    ensure_eq!(
        answer.body.len(),
        body.len(),
        "bytes that came back of a stream"
    );
    ensure_eq!(
        Digest::of(&answer.body),
        Digest::of(&body),
        "the digest of what came back"
    );
    Ok(())
}

pub(super) async fn a_response_streams_out(case: &Case<'_>) -> Outcome {
    // The pause is long, and is never waited for: the first part is there before it ends.
    let (_, invoker) = case.running(Fixture::Stream).await?;
    let event = json!({ "chunks": 2, "ms": 3_000 });
    let clock = case.harness.clock();
    let context = context();
    let response = case
        .passing(invoker.invoke(event_request(&event), &context))
        .await?;
    ensure_eq!(response.status(), StatusCode::OK, "the status of a stream");
    let mut body = response.into_body().into_stream();
    let first = case.passing(body.next()).await;
    let first = first.ok_or_else(|| Violation::new("the stream is empty"))??;
    let first_at = clock.elapsed();
    ensure_eq!(&first[..], b"chunk 0\n", "the first part");
    let mut rest = Vec::new();
    while let Some(chunk) = case.passing(body.next()).await {
        rest.extend_from_slice(&chunk?);
    }
    ensure_eq!(&rest[..], b"chunk 1\n", "the second part");
    let between = clock.elapsed() - first_at;
    ensure!(
        between > Duration::from_secs(1),
        "the first part came {between:?} before the last"
    );
    Ok(())
}

pub(super) async fn large_bodies_arrive_both_ways(case: &Case<'_>) -> Outcome {
    const BYTES: usize = 4 << 20;
    let (_, invoker) = case.running(Fixture::Echo).await?;
    let body = pattern(BYTES, 1);
    let answer = case
        .send(&invoker, bytes_request(body.clone()), &context())
        .await?;
    ensure_eq!(
        Digest::of(&answer.body),
        Digest::of(&body),
        "the digest of a large echo"
    );
    let (_, invoker) = case.running(Fixture::Large).await?;
    let answer = case.post(&invoker, &json!({ "bytes": BYTES })).await?;
    let expected = Bytes::from_iter((0..BYTES).map(|at| (at % 251) as u8));
    ensure_eq!(answer.body.len(), BYTES, "bytes of a large response");
    ensure!(
        answer.body == expected,
        "a large response is not what the function gave"
    );
    Ok(())
}

pub(super) async fn a_dropped_call_leaves_the_function_usable(case: &Case<'_>) -> Outcome {
    let (_, invoker) = case.running(Fixture::Stream).await?;
    let event = json!({ "chunks": 3, "ms": 500 });
    for _ in 0..3 {
        // One is dropped before its response, the other in the midst of it.
        {
            let context = context();
            let call = invoker.invoke(event_request(&event), &context);
            futures::pin_mut!(call);
            let _ = futures::poll!(&mut call);
        }
        let context = context();
        let response = case
            .passing(invoker.invoke(event_request(&event), &context))
            .await;
        let mut body = response
            .while_("calling after a dropped call")?
            .into_body()
            .into_stream();
        let first = case.passing(body.next()).await;
        ensure!(
            matches!(first, Some(Ok(_))),
            "a stream began with {first:?}"
        );
    }
    let answer = case.post(&invoker, &json!({ "chunks": 1 })).await;
    let answer = answer.while_("calling after dropped calls")?;
    ensure_eq!(
        &answer.body[..],
        b"chunk 0\n",
        "the answer after dropped calls"
    );
    Ok(())
}
