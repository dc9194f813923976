//! Everything about one function.

use std::collections::HashMap;

use maud::{Markup, html};
use sless_core::{LogLine, LogSource, Name};

use super::{actions, functions, triggers};
use crate::{
    data::{Item, Queue},
    extract::Reading,
    format,
};

/// The content of a function's page.
pub(crate) fn page(reading: &Reading, item: &Item, queues: &HashMap<Name, Queue>) -> Markup {
    let name = item.name();
    html! {
        p.back { a href=(reading.path("")) { "← " (reading.texts().back) } }
        article.function data-function=(name) data-page {
            header.head {
                h1 { (name) }
                p.state data-state=(name) { (functions::state(reading.texts(), item)) }
            }
            div.body { (panel(reading, item, queues)) }
        }
    }
}

/// The same without what is around it, for an entry of the accordion.
pub(crate) fn panel(reading: &Reading, item: &Item, queues: &HashMap<Name, Queue>) -> Markup {
    let texts = reading.texts();
    let name = item.name();
    let below = |what: &str| reading.path(format_args!("/functions/{name}/{what}"));
    let source = reading.path(format_args!("/source/{name}"));
    html! {
        (facts(reading, item))
        (triggers::list(reading, item, queues))
        @if reading.may_write { (actions::call(reading, name)) }
        details.section data-fetch=(source) {
            summary { (texts.source) }
            div data-into { p { a href=(source) { (texts.source) ": " (name) } } }
        }
        details.section data-log=(below("logs")) {
            summary { (texts.log) }
            div data-into { p { a href=(below("logs")) { (texts.log_of) ": " (name) } } }
        }
        details.section data-fetch=(below("calls")) {
            summary { (texts.calls) }
            div data-into { p { a href=(below("calls")) { (texts.calls) ": " (name) } } }
        }
        @if reading.may_write {
            (actions::deploy(reading, Some(item)))
            (actions::delete(reading, name))
        }
    }
}

/// What is known of a function.
pub(crate) fn facts(reading: &Reading, item: &Item) -> Markup {
    let texts = reading.texts();
    let (spec, status) = (&item.function.spec, &item.function.status);
    let url = reading
        .console
        .sless()
        .function_url(&reading.namespace, item.name());
    html! {
        div.facts data-facts=(item.name()) {
            @if !status.message.is_empty() || !status.reason.is_empty() {
                div.trouble {
                    @if !status.reason.is_empty() { code { (status.reason) } }
                    @if !status.message.is_empty() { pre tabindex="0" { (status.message) } }
                }
            }
            dl {
                div { dt { (texts.url) } dd { a.url href=(url) rel="noopener noreferrer" { (url) } } }
                div { dt { (texts.runtime) } dd { (spec.runtime.as_str()) } }
                div { dt { (texts.entrypoint) } dd { code { (spec.entrypoint.as_str()) } } }
                div { dt { (texts.replicas) } dd {
                    (status.ready_replicas) "/" (spec.replicas())
                    @if spec.max_replicas() > spec.replicas() {
                        ", " (texts.replicas_most) " " (spec.max_replicas())
                    }
                } }
                div { dt { (texts.timeout) } dd { (spec.timeout_seconds) " s" } }
                div { dt { (texts.concurrency) } dd { (spec.concurrency) } }
                @if let Some(idle) = spec.idle_seconds {
                    div { dt { (texts.sleeps) } dd {
                        @if idle == 0 { (texts.sleeps_never) } @else { (idle) " s" }
                    } }
                }
                @if spec.memory.is_some() || spec.cpu.is_some() {
                    div { dt { (texts.limits) } dd {
                        (spec.memory.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string))
                        ", "
                        (spec.cpu.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string))
                    } }
                }
                @if !spec.env.is_empty() {
                    div { dt { (texts.environment) } dd {
                        @for name in spec.env.keys() { code { (name) } " " }
                    } }
                }
                div { dt { (texts.code) } dd {
                    @match &spec.code_sha256 {
                        Some(digest) => code.digest title=(digest.hex()) { (&digest.hex()[..12]) },
                        None => (texts.no_code),
                    }
                } }
                @if let Some(artifact) = &status.artifact {
                    div { dt { (texts.image) } dd { code.digest { (artifact.reference) } } }
                }
                div { dt { (texts.last_build) } dd {
                    @match status.last_built_at {
                        Some(at) => (format::time(at)),
                        None => (texts.not_built),
                    }
                } }
                div { dt { (texts.created) } dd { (format::time(item.function.metadata.created_at)) } }
                (verdict(reading, item))
            }
        }
    }
}

/// What was said of the code by whoever reviewed it.
fn verdict(reading: &Reading, item: &Item) -> Markup {
    let texts = reading.texts();
    let Some(said) = &item.function.status.verification else {
        return html! {};
    };
    let (class, word) = match said.verdict.as_str() {
        "safe" => ("ready", texts.verdict_safe),
        "unsafe" => ("failed", texts.verdict_unsafe),
        _ => ("pending", texts.verdict_skipped),
    };
    html! {
        div.verdict { dt { (texts.verdict) } dd {
            span class=(format_args!("badge {class}")) { (word) }
            @if item.function.spec.code_sha256 != Some(said.digest) { " (" (texts.verdict_earlier) ")" }
            @if !said.reason.is_empty() { " " (said.reason) }
            " " span.hint { (texts.verdict_by) " " (said.by) ", " (format::time(said.at)) }
        } }
    }
}

/// The log of a function, up to now; scripts go on with what comes.
pub(crate) fn log(reading: &Reading, name: &Name, lines: &[LogLine]) -> Markup {
    let texts = reading.texts();
    let source = reading.path(format_args!("/functions/{name}/logs"));
    html! {
        div.log data-stream=(source) {
            p.bar hidden {
                label { input type="checkbox" data-keep checked; " " (texts.log_follow) }
                " " span.live { (texts.log_live) }
            }
            @if lines.is_empty() { p.empty { (texts.log_empty) } }
            pre.lines tabindex="0" role="log" aria-live="off" aria-label=(texts.log_of) {
                @for line in lines { (log_line(line)) }
            }
        }
    }
}

/// One line, in the form that scripts make too.
fn log_line(line: &LogLine) -> Markup {
    html! {
        span class=(format_args!("line {}", log_source(line.source))) {
            span.at { (line.at.strftime("%H:%M:%S%.3f").to_string()) }
            " " span.from { (log_source(line.source)) } " "
            (line.text) @if line.truncated { " …" } "\n"
        }
    }
}

pub(crate) const fn log_source(source: LogSource) -> &'static str {
    match source {
        LogSource::Build => "build",
        LogSource::Stdout => "stdout",
        LogSource::Stderr => "stderr",
        LogSource::System => "system",
    }
}
