//! The functions of a namespace, as an accordion.

use maud::{Markup, html};
use sless_core::FunctionPhase;

use super::{actions, panel, triggers};
use crate::{
    data::{Item, Items},
    extract::Reading,
    format,
    text::Texts,
};

/// The content of the page.
pub(crate) fn content(reading: &Reading, items: &Items, find: &str) -> Markup {
    let texts = reading.texts();
    html! {
        h1 { (texts.functions) " " span.count { (items.items.len()) } }
        @if !reading.may_write { p.note { (texts.read_only) } }
        search {
            form.find method="get" action=(reading.path("")) {
                label for="find" { (texts.find) }
                input id="find" type="search" name="find" value=(find) autocomplete="off" maxlength="63";
                button type="submit" { (texts.show) }
            }
        }
        div.functions id="functions" {
            @for item in &items.items { (entry(reading, item)) }
        }
        @if items.items.is_empty() {
            p.empty { (if find.is_empty() { texts.none_yet } else { texts.none_found }) }
            @if find.is_empty() && reading.may_write { p.hint { (texts.none_yet_hint) } }
        }
        @if let Some(next) = &items.next {
            form method="get" action=(reading.path("")) {
                input type="hidden" name="find" value=(find);
                button type="submit" name="cursor" value=(next) { (texts.next_page) }
            }
        }
        @if reading.may_write { (actions::deploy(reading, None)) }
    }
}

/// One function, closed. Opened, it shows what a look needs; with scripts, all there is.
pub(crate) fn entry(reading: &Reading, item: &Item) -> Markup {
    let name = item.name();
    let page = reading.path(format_args!("/functions/{name}"));
    html! {
        details.function id=(format_args!("f-{name}")) data-function=(name) data-panel=(page) {
            summary {
                span.name { (name) }
                " "
                span.state data-state=(name) { (state(reading.texts(), item)) }
            }
            div.body data-body {
                (panel::facts(reading, item))
                (triggers::list(reading, item, &Default::default()))
                p { a href=(page) { (reading.texts().open_page) ": " (name) } }
            }
        }
    }
}

/// What is told of a function in a line: phase, runtime, replicas, last build.
pub(crate) fn state(texts: &Texts, item: &Item) -> Markup {
    let function = &item.function;
    let (class, word) = phase(texts, item);
    html! {
        span class=(format_args!("badge {class}")) data-phase=(class) { (word) }
        " " span.runtime { (function.spec.runtime.as_str()) }
        " " span.replicas title=(texts.replicas) {
            span.unseen { (texts.replicas) " " }
            (function.status.ready_replicas) "/" (function.spec.replicas())
        }
        " " span.built {
            span.unseen { (texts.last_build) " " }
            @match function.status.last_built_at {
                Some(at) => (format::time(at)),
                None => (texts.not_built),
            }
        }
    }
}

/// The class and the word of a phase.
pub(crate) fn phase(texts: &Texts, item: &Item) -> (&'static str, &'static str) {
    if item.function.metadata.is_deleting() {
        return ("deleting", texts.deleting);
    }
    match item.phase() {
        FunctionPhase::Pending => ("pending", texts.pending),
        FunctionPhase::Building => ("building", texts.building),
        FunctionPhase::Ready => ("ready", texts.ready),
        FunctionPhase::Failed => ("failed", texts.failed),
        FunctionPhase::Stopped => ("stopped", texts.stopped),
    }
}

/// The functions as plain text, for `curl` and pipes: a line of each, columns apart by two blanks.
pub(crate) fn plain(reading: &Reading, items: &Items) -> String {
    let mut rows =
        vec![["NAME", "PHASE", "RUNTIME", "REPLICAS", "BUILT", "URL"].map(str::to_owned)];
    for item in &items.items {
        let function = &item.function;
        let built = function.status.last_built_at;
        let name = item.name();
        rows.push([
            name.to_string(),
            item.phase().as_str().to_owned(),
            function.spec.runtime.to_string(),
            format!(
                "{}/{}",
                function.status.ready_replicas,
                function.spec.replicas()
            ),
            built.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}")),
            reading
                .console
                .sless()
                .function_url(&reading.namespace, name),
        ]);
    }
    let mut text = String::new();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if let Some(next) = &items.next {
        text.push_str(&format!("next: {next}\n"));
    }
    text
}
