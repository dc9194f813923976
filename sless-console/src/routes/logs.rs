//! Logs: what was written, and what is being written.

use axum::response::{IntoResponse, Response, sse::Event};
use futures::StreamExt as _;
use http::HeaderMap;
use serde::Serialize;
use sless_core::{LogLine, LogOptions};

use crate::{
    error::Failure,
    events,
    extract::Reading,
    negotiate::{self, Form},
    pages::panel::{self, log_source},
};

/// How many lines go into one event at most.
const LINES: usize = 200;

#[derive(Debug, Serialize)]
struct Line<'a> {
    at: String,
    source: &'static str,
    text: &'a str,
    truncated: bool,
}

/// The log of a function: as a page, as plain text, or as a stream of events.
pub(super) async fn read(reading: Reading, headers: HeaderMap) -> Result<Response, Failure> {
    let name = reading.name()?;
    let sless = reading.console.sless();
    let options = LogOptions::default().with_tail(reading.console.config().log_lines);
    let namespace = &reading.namespace;
    if negotiate::accepts(&headers, "text/event-stream") {
        let lines = sless.logs(namespace, &name, &options.following()).await?;
        // Whoever connects again begins anew. An event without data is passed over by browsers.
        let begin = futures::stream::iter([Event::default().event("begin").data("{}")]);
        // A log that breaks off ends the stream, and the browser asks again.
        let lines = lines
            .take_while(|line| futures::future::ready(line.is_ok()))
            .filter_map(|line| futures::future::ready(line.ok()))
            .ready_chunks(LINES)
            .map(|lines| event(&lines));
        return events::stream(&reading.console, begin.chain(lines));
    }
    let mut lines = sless.logs(namespace, &name, &options).await?;
    let mut read = Vec::new();
    while let Some(line) = lines.next().await {
        read.push(line?);
    }
    if reading.frame.form == Form::Text {
        return Ok(read.iter().map(plain).collect::<String>().into_response());
    }
    let title = format!("{name}: {}", reading.texts().log);
    Ok(reading.answer_part(Some(&name), &title, panel::log(&reading, &name, &read)))
}

fn event(lines: &[LogLine]) -> Event {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| Line {
            at: line.at.strftime("%H:%M:%S%.3f").to_string(),
            source: log_source(line.source),
            text: &line.text,
            truncated: line.truncated,
        })
        .collect();
    // Writing text and numbers to memory cannot fail.
    let data = serde_json::to_string(&lines).unwrap_or_default();
    Event::default().event("lines").data(data)
}

fn plain(line: &LogLine) -> String {
    let cut = if line.truncated { " …[cut]" } else { "" };
    format!(
        "{:.3} {} {}{cut}\n",
        line.at,
        log_source(line.source),
        line.text
    )
}
