//! The calls of a function.

use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use sless_core::{CatalogExt, Function, InvocationLog, InvocationPage, InvocationQuery};

use crate::{
    error::Failure,
    extract::{Query, Reading},
    format,
    negotiate::Form,
    pages::calls::{self, Filter, ORIGINS, WINDOWS},
    plot::{self, Sample},
};

/// One page of calls, below plots of the whole window.
pub(super) async fn list(
    reading: Reading,
    Query(filter): Query<Filter>,
) -> Result<Response, Failure> {
    let name = reading.name()?;
    let sless = reading.console.sless();
    let function: Function = sless
        .backends()
        .catalog
        .read(&reading.namespace, &name)
        .await?;
    let title = format!("{name}: {}", reading.texts().calls);
    let Some(log) = &sless.backends().invocations else {
        return Ok(match reading.frame.form {
            Form::Text => Failure::new(
                http::StatusCode::NOT_IMPLEMENTED,
                "not_configured",
                "an invocation log is not configured on this server",
            )
            .into_response(),
            _ => reading.answer_part(
                Some(&name),
                &title,
                html! { p.empty { (reading.texts().no_call_log) } },
            ),
        });
    };
    let now = reading.console.now();
    let limit = reading
        .console
        .config()
        .page_items
        .clamp(1, InvocationQuery::LIMIT_MAX);
    let mut query = InvocationQuery::of_function(reading.namespace.clone(), name.clone(), limit);
    let since = apply(&filter, &mut query, now)?;
    query.cursor.clone_from(&filter.cursor);
    let page = log.query(&query).await?;
    if reading.frame.form == Form::Text {
        return Ok(plain(&page).into_response());
    }
    query.cursor = None;
    let from = since.unwrap_or(function.metadata.created_at);
    let plots = plots(&reading, &**log, query, from, now).await?;
    let content = calls::content(&reading, &name, &filter, &plots, &page);
    Ok(reading.answer_part(Some(&name), &title, content))
}

/// Puts a filter into a query, and answers where the window begins.
fn apply(
    filter: &Filter,
    query: &mut InvocationQuery,
    now: Timestamp,
) -> Result<Option<Timestamp>, Failure> {
    let refused = |field: &str, expected: &str| {
        Failure::bad_request("query_invalid", format!("{field}: expected {expected}"))
    };
    let since = if filter.since.is_empty() {
        "24h"
    } else {
        &filter.since
    };
    let window = WINDOWS.iter().find(|(word, _)| *word == since);
    let (_, hours) = window.ok_or_else(|| refused("since", "1h, 24h, 7d or all"))?;
    query.since = (*hours > 0).then(|| now - SignedDuration::from_hours(*hours));
    if !filter.origin.is_empty() {
        let origin = ORIGINS
            .into_iter()
            .find(|origin| origin.as_str() == filter.origin);
        let expected = "http, cron, event, job or direct";
        query.origin = Some(origin.ok_or_else(|| refused("origin", expected))?);
    }
    query.failed_only = match filter.failed.as_str() {
        "" | "0" => false,
        "1" => true,
        _ => return Err(refused("failed", "1 or nothing")),
    };
    Ok(query.since)
}

async fn plots(
    reading: &Reading,
    log: &dyn InvocationLog,
    mut query: InvocationQuery,
    from: Timestamp,
    to: Timestamp,
) -> Result<Markup, Failure> {
    let most = reading.console.config().plot_records;
    let mut samples = Vec::new();
    let mut cut = false;
    loop {
        query.limit = InvocationQuery::LIMIT_MAX.min(most - samples.len()).max(1);
        let page = log.query(&query).await?;
        samples.extend(page.items.iter().map(|call| Sample {
            at: call.started_at,
            milliseconds: call.duration.as_secs_f64() * 1000.0,
            failed: call.status >= 400,
        }));
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
        if samples.len() >= most {
            cut = true;
            break;
        }
    }
    let from = match samples.last() {
        Some(oldest) if cut => oldest.at,
        _ => from,
    };
    let texts = reading.texts();
    Ok(html! {
        (plot::plots(texts, &samples, from, to))
        @if cut { p.hint { (texts.plot_newest) " " (most) } }
    })
}

fn plain(page: &InvocationPage) -> String {
    let line = |call: &sless_core::Invocation| {
        format!(
            "{:.3}  {}  {}  {}  {}{}\n",
            call.started_at,
            call.status,
            format::duration(call.duration),
            call.origin.as_str(),
            call.request_id,
            call.error
                .as_deref()
                .map(|word| format!("  {word}"))
                .unwrap_or_default(),
        )
    };
    let mut text: String = page.items.iter().map(line).collect();
    if let Some(next) = &page.next {
        text.push_str(&format!("next: {next}\n"));
    }
    text
}
