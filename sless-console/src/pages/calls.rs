//! The calls of a function: filters, plots, a table.

use maud::{Markup, html};
use sless_core::{Invocation, InvocationPage, Name, Origin};

use crate::{extract::Reading, format, text::Texts};

/// What is asked for, as it stands in the address.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filter {
    /// `http`, `cron`, `event`, `job`, `direct`, or empty for any.
    pub(crate) origin: String,
    /// `1` for failed calls only.
    pub(crate) failed: String,
    /// `1h`, `24h`, `7d` or `all`; empty for a day.
    pub(crate) since: String,
    /// From the page before.
    pub(crate) cursor: Option<String>,
}

/// All origins by their words.
pub(crate) const ORIGINS: [Origin; 5] = [
    Origin::Http,
    Origin::Cron,
    Origin::Event,
    Origin::Job,
    Origin::Direct,
];

/// The windows, in hours; 0 for all time.
pub(crate) const WINDOWS: [(&str, i64); 4] = [("1h", 1), ("24h", 24), ("7d", 168), ("all", 0)];

/// One page of calls below their plots.
pub(crate) fn content(
    reading: &Reading,
    name: &Name,
    filter: &Filter,
    plots: &Markup,
    page: &InvocationPage,
) -> Markup {
    let texts = reading.texts();
    html! {
        div.calls data-part {
            (form(reading, name, filter))
            (plots)
            @if page.items.is_empty() {
                p.empty { (texts.no_calls) }
            } @else {
                (table(texts, page))
            }
            @if let Some(next) = &page.next {
                form method="get" action=(path(reading, name)) data-swap {
                    input type="hidden" name="origin" value=(filter.origin);
                    input type="hidden" name="failed" value=(filter.failed);
                    input type="hidden" name="since" value=(filter.since);
                    button type="submit" name="cursor" value=(next) { (texts.next_page) }
                }
            }
        }
    }
}

fn path(reading: &Reading, name: &Name) -> String {
    reading.path(format_args!("/functions/{name}/calls"))
}

fn form(reading: &Reading, name: &Name, filter: &Filter) -> Markup {
    let texts = reading.texts();
    let windows = [
        texts.last_hour,
        texts.last_day,
        texts.last_week,
        texts.all_time,
    ];
    let since = if filter.since.is_empty() {
        "24h"
    } else {
        &filter.since
    };
    let id = |what: &str| format!("{what}-{name}");
    html! {
        form.filter method="get" action=(path(reading, name)) data-swap {
            span {
                label for=(id("since")) { (texts.since) } " "
                select id=(id("since")) name="since" {
                    @for ((value, _), word) in WINDOWS.iter().zip(windows) {
                        option value=(value) selected[*value == since] { (word) }
                    }
                }
            }
            span {
                label for=(id("origin")) { (texts.origin) } " "
                select id=(id("origin")) name="origin" {
                    option value="" { (texts.any) }
                    @for origin in ORIGINS {
                        option value=(origin.as_str()) selected[origin.as_str() == filter.origin] {
                            (origin.as_str())
                        }
                    }
                }
            }
            label {
                input type="checkbox" name="failed" value="1" checked[filter.failed == "1"];
                " " (texts.failed_only)
            }
            button type="submit" data-key="filter" { (texts.filter) }
        }
    }
}

fn table(texts: &Texts, page: &InvocationPage) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(texts.calls) {
            table {
                thead { tr {
                    th scope="col" { (texts.time) }
                    th scope="col" { (texts.status) }
                    th scope="col" { (texts.duration) }
                    th scope="col" { (texts.origin) }
                    th scope="col" { (texts.size) }
                    th scope="col" { (texts.caller) }
                    th scope="col" { (texts.request_id) }
                } }
                tbody { @for call in &page.items { (row(texts, call)) } }
            }
        }
    }
}

fn row(texts: &Texts, call: &Invocation) -> Markup {
    let class = if call.status >= 400 {
        "failed"
    } else {
        "ready"
    };
    html! {
        tr {
            td { (format::time(call.started_at)) }
            td {
                span class=(format_args!("badge {class}")) { (call.status) }
                @if let Some(word) = &call.error { " " code { (word) } }
            }
            td { (format::duration(call.duration)) }
            td {
                (call.origin.as_str())
                @if let Some(cause) = &call.cause { " " (cause) }
                @if call.attempt > 1 { " ×" (call.attempt) }
            }
            td { (format::bytes(call.request_bytes)) ", " (format::bytes(call.response_bytes)) }
            td { (call.caller.as_deref().unwrap_or("–")) }
            td {
                code { (call.request_id) }
                @if let Some(tail) = &call.log_tail {
                    details { summary { (texts.log_tail) } pre tabindex="0" { (tail) } }
                }
            }
        }
    }
}
