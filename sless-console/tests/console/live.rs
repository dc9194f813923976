//! Streams of events.

use axum::body::Body;
use futures::StreamExt as _;
use sless_core::{Name, TriggerSpec};
use tower::ServiceExt as _;

use crate::support::{Ask, DEADLINE, World};

/// A stream of events as text.
struct Stream {
    body: axum::body::BodyDataStream,
    seen: String,
}

impl Stream {
    async fn open(world: &World, below: &str) -> Self {
        let ask = Ask::get(&world.path(below)).with("accept", "text/event-stream");
        let response = world
            .console
            .router()
            .oneshot(ask.token("good:alice").0)
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let body: Body = response.into_body();
        Self {
            body: body.into_data_stream(),
            seen: String::new(),
        }
    }

    /// Reads until this was seen, and forgets what was before its end.
    async fn until(&mut self, text: &str) {
        let read = async {
            loop {
                if let Some(at) = self.seen.find(text) {
                    self.seen.drain(..at + text.len());
                    return;
                }
                let piece = self.body.next().await.expect("no end").unwrap();
                self.seen.push_str(&String::from_utf8_lossy(&piece));
            }
        };
        if tokio::time::timeout(DEADLINE, read).await.is_err() {
            panic!("no {text:?} after {:?}", self.seen);
        }
    }

    async fn ended(mut self) {
        let read = async { while self.body.next().await.is_some() {} };
        tokio::time::timeout(DEADLINE, read).await.expect("an end");
    }
}

#[tokio::test]
async fn what_becomes_of_functions_is_told() {
    let world = World::new().await;
    world.hello().await;
    let mut all = Stream::open(&world, "/events").await;
    all.until("event: all").await;
    all.until(r#""name":"hello","phase":"ready""#).await;
    let mut only = Stream::open(&world, "/events?only=hello").await;
    only.until("event: all").await;
    world
        .deploy("other", &[("handler.py", "def handle(event): pass\n")])
        .await;
    all.until(r#""name":"other""#).await;
    world
        .trigger("web", TriggerSpec::http(Name::new("hello").unwrap()))
        .await;
    only.until("event: some").await;
    assert!(!only.seen.contains("other"));
    world.send("/triggers/web", "enabled=false").await;
    only.until(r#""phase":"stopped""#).await;
    all.until(r#""phase":"stopped""#).await;
    world.send("/functions/other/delete", "confirm=other").await;
    all.until(r#"{"name":"other","gone":true}"#).await;
}

#[tokio::test]
async fn logs_go_on_as_they_are_written() {
    let world = World::new().await;
    world.hello().await;
    world
        .send("/functions/hello/call", "method=GET&path=/")
        .await;
    let mut log = Stream::open(&world, "/functions/hello/logs").await;
    log.until("event: begin").await;
    log.until("called").await;
    world
        .send("/functions/hello/call", "method=GET&path=/")
        .await;
    log.until("called").await;
}

#[tokio::test]
async fn streams_are_counted_and_end_with_the_console() {
    let world = World::with(|_| {}, |config| config.streams = 2).await;
    world.hello().await;
    let mut first = Stream::open(&world, "/events").await;
    first.until("event: all").await;
    let second = Stream::open(&world, "/events").await;
    let ask = || Ask::get(&world.path("/events")).token("good:alice");
    let refused = world.ask(ask()).await;
    assert_eq!(refused.status, 503);
    assert!(refused.has("limit streams of 2"), "{}", refused.body);
    drop(second);
    let third = Stream::open(&world, "/events").await;
    world.console.close();
    first.ended().await;
    third.ended().await;
}

#[tokio::test]
async fn a_stream_ends_in_time_so_that_the_session_is_looked_at_again() {
    let short = std::time::Duration::from_millis(50);
    let world = World::with(|_| {}, |config| config.stream_time = short).await;
    Stream::open(&world, "/events").await.ended().await;
}
