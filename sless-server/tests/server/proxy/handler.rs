//! The function of these tests: what it does depends on the path that it sees.

use std::{
    sync::{LazyLock, Mutex},
    time::Duration,
};

use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use sless_core::{
    Body, Error, ErrorKind,
    memory::{HandlerContext, HandlerError, HandlerResult},
};

/// The marks of calls that were dropped before they ended.
static LEFT: LazyLock<Mutex<Vec<String>>> = LazyLock::new(Mutex::default);

/// The marks of calls that may go on.
static RELEASED: LazyLock<Mutex<Vec<String>>> = LazyLock::new(Mutex::default);

/// Lets a call with this mark go on.
pub(crate) fn release(mark: &str) {
    RELEASED.lock().unwrap().push(mark.to_owned());
}

/// Whether a call with this mark was dropped.
pub(crate) fn has_left(mark: &str) -> bool {
    LEFT.lock().unwrap().iter().any(|left| left == mark)
}

/// Notes its mark when it is dropped.
struct Mark(String);

impl Drop for Mark {
    fn drop(&mut self) {
        LEFT.lock().unwrap().push(self.0.clone());
    }
}

fn answer(status: u16, body: impl Into<Body>) -> http::Response<Body> {
    http::Response::builder()
        .status(status)
        .body(body.into())
        .unwrap()
}

pub(crate) async fn handle(request: http::Request<Body>, context: HandlerContext) -> HandlerResult {
    let path = request.uri().path().to_owned();
    let mark = request.uri().query().unwrap_or_default().to_owned();
    context.log(format!("called with {path}"));
    Ok(match path.as_str() {
        "/204" => {
            let mut response = answer(204, Body::empty());
            response
                .headers_mut()
                .insert("x-kept", "1".parse().unwrap());
            response
        }
        "/304" => {
            let mut response = answer(304, Body::empty());
            response
                .headers_mut()
                .insert("etag", "\"1\"".parse().unwrap());
            response
        }
        "/length" => {
            let mut response = answer(200, "12345");
            response
                .headers_mut()
                .insert("content-length", "5".parse().unwrap());
            response
        }
        "/cookies" => {
            let mut response = answer(200, "");
            for cookie in ["a=1", "b=2", "a=3"] {
                response
                    .headers_mut()
                    .append("set-cookie", cookie.parse().unwrap());
            }
            response
        }
        "/fields" => {
            let mut response = answer(200, "");
            for (name, value) in [
                ("connection", "x-private"),
                ("x-private", "1"),
                ("keep-alive", "timeout=5"),
                ("x-sless-replica", "1"),
                ("x-public", "1"),
            ] {
                response.headers_mut().append(name, value.parse().unwrap());
            }
            response
        }
        "/trailers" => {
            let frames = [
                Ok(http_body::Frame::data("body".into())),
                Ok(http_body::Frame::trailers(http::HeaderMap::from_iter([(
                    "x-sum".parse().unwrap(),
                    "42".parse().unwrap(),
                )]))),
            ];
            let body: StreamBody<_> = StreamBody::new(futures::stream::iter(frames));
            let body = body.map_err(|never: std::convert::Infallible| never);
            let mut response = answer(200, Body::wrap(body));
            response
                .headers_mut()
                .insert("trailer", "x-sum".parse().unwrap());
            response
        }
        "/request-trailers" => {
            let body = request.into_body().collect().await;
            let trailers = body.map(|body| body.trailers().cloned());
            answer(200, format!("{trailers:?}"))
        }
        "/cut" => {
            let first = futures::stream::iter([Ok("first".into())]);
            // Not before the client has seen the beginning.
            let cut = futures::stream::once(async move {
                while !RELEASED.lock().unwrap().contains(&mark) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(Error::new(ErrorKind::Interrupted, "the function died"))
            });
            answer(200, Body::from_stream(first.chain(cut)))
        }
        "/never" => {
            let _mark = Mark(mark);
            std::future::pending().await
        }
        "/endless" => {
            let mark = Mark(mark);
            let pieces = futures::stream::unfold(mark, |mark| async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Some((Ok("tick\n".into()), mark))
            });
            answer(200, Body::from_stream(pieces))
        }
        "/echo-stream" => {
            let pieces = request.into_body().into_stream();
            answer(200, Body::from_stream(pieces.boxed()))
        }
        "/fail" => return Err(HandlerError::new("ValueError", "no")),
        "/418" => answer(418, "short and stout"),
        _ => {
            let (head, body) = request.into_parts();
            let fields: Vec<_> = head
                .headers
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")))
                .collect();
            // A job and a message get no path of their own; these say what is wanted.
            if head
                .headers
                .get("x-sless-queue")
                .is_some_and(|queue| queue == "failing")
            {
                return Err(HandlerError::new("ValueError", "no"));
            }
            match body.bytes(1 << 20).await {
                Ok(body) => {
                    let seen = json!({
                        "method": head.method.as_str(),
                        "uri": head.uri.to_string(),
                        "fields": fields,
                        "request_id": &*context.request_id,
                        "body": String::from_utf8_lossy(&body),
                    });
                    answer(200, seen.to_string())
                }
                Err(error) => return Err(HandlerError::new("Body", error.message())),
            }
        }
    })
}
