//! Forms that do something, and what they answer.

use std::time::Duration;

use maud::{Markup, html};
use sless_core::{Name, Receipt, Runtime, Upload};

use crate::{data::Item, extract::Reading, format};

const RUNTIMES: [Runtime; 2] = [Runtime::Python311, Runtime::NodeJs20];
const METHODS: [&str; 6] = ["POST", "GET", "PUT", "PATCH", "DELETE", "HEAD"];

/// The form that calls a function.
pub(crate) fn call(reading: &Reading, name: &Name) -> Markup {
    let texts = reading.texts();
    let id = |what: &str| format!("call-{what}-{name}");
    html! {
        details.section data-call {
            summary { (texts.call_function) }
            form.stack method="post" action=(reading.path(format_args!("/functions/{name}/call")))
                data-answer=(id("answer")) {
                div.row {
                    span {
                        label for=(id("method")) { (texts.method) }
                        select id=(id("method")) name="method" {
                            @for method in METHODS { option value=(method) { (method) } }
                        }
                    }
                    span.wide {
                        label for=(id("path")) { (texts.path) }
                        input id=(id("path")) name="path" value="/" autocomplete="off" spellcheck="false";
                    }
                    span {
                        label for=(id("type")) { (texts.content_type) }
                        input id=(id("type")) name="content_type" value="application/json"
                            autocomplete="off" spellcheck="false";
                    }
                }
                label for=(id("body")) { (texts.request_body) }
                textarea id=(id("body")) name="body" rows="5" spellcheck="false" { "{}" }
                button type="submit" data-key=(id("send")) { (texts.call) }
                div id=(id("answer")) role="status" {}
            }
        }
    }
}

/// What a function answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: http::StatusCode,
    pub(crate) took: Duration,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Whether there is more of the body than this.
    pub(crate) cut: bool,
}

/// What a function answered, as it is shown.
pub(crate) fn answer(reading: &Reading, answer: &Answer) -> Markup {
    let texts = reading.texts();
    let class = if answer.status.as_u16() >= 400 {
        "failed"
    } else {
        "ready"
    };
    let text = match std::str::from_utf8(&answer.body) {
        Ok(text) => Some(text),
        // A cut may go through a character.
        Err(error) if answer.cut && error.error_len().is_none() => {
            std::str::from_utf8(&answer.body[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    html! {
        div.answer data-part {
            p {
                strong { (texts.answer) } " "
                span class=(format_args!("badge {class}")) data-status=(answer.status.as_u16()) {
                    (answer.status)
                }
                " " span.took { (format::duration(answer.took)) }
                " " span.hint { (format::bytes(answer.body.len() as u64)) }
            }
            @match text {
                Some(text) => pre.body tabindex="0" { (text) },
                None => p.empty { (answer.body.len()) " " (texts.answer_binary) },
            }
            @if answer.cut { p.hint { (texts.answer_cut) " " (format::bytes(answer.body.len() as u64)) } }
            details {
                summary { (texts.headers) }
                pre tabindex="0" {
                    @for (name, value) in &answer.headers {
                        (name) ": " (String::from_utf8_lossy(value.as_bytes())) "\n"
                    }
                }
            }
        }
    }
}

/// The form that takes code: of a new function, or of this one.
pub(crate) fn deploy(reading: &Reading, item: Option<&Item>) -> Markup {
    let texts = reading.texts();
    let of = item.map_or("new", |item| item.name().as_str());
    let id = |what: &str| format!("deploy-{what}-{of}");
    html! {
        details.section.deploy open[item.is_none()] {
            summary { (if item.is_some() { texts.deploy_code } else { texts.deploy_new }) }
            form.stack.drop method="post" enctype="multipart/form-data" action=(reading.path("/deploy"))
                data-deploy data-answer=(id("answer")) {
                @match item {
                    Some(item) => { input type="hidden" name="name" value=(item.name()); }
                    None => { (new_function(reading, &id)) }
                }
                p.hint { (texts.drop_here) }
                div.row {
                    span {
                        label for=(id("file")) { (texts.zip_file) }
                        input id=(id("file")) type="file" name="file" accept=".zip,application/zip";
                    }
                    span.scripted hidden {
                        label for=(id("folder")) { (texts.folder) }
                        input id=(id("folder")) type="file" data-folder multiple webkitdirectory;
                    }
                }
                button type="submit" { (texts.deploy) }
                progress hidden value="0" max="100" aria-label=(texts.progress) {}
                div id=(id("answer")) role="status" {}
            }
        }
    }
}

fn new_function(reading: &Reading, id: &impl Fn(&str) -> String) -> Markup {
    let texts = reading.texts();
    html! {
        div.row {
            span.wide {
                label for=(id("name")) { (texts.name) }
                input id=(id("name")) name="name" required maxlength="63" autocomplete="off"
                    pattern="[a-z0-9]([a-z0-9\\-]*[a-z0-9])?" spellcheck="false"
                    aria-describedby=(id("hint"));
            }
            span {
                label for=(id("runtime")) { (texts.runtime) }
                select id=(id("runtime")) name="runtime" {
                    @for runtime in RUNTIMES { option value=(runtime.as_str()) { (runtime.as_str()) } }
                }
            }
            span {
                label for=(id("entrypoint")) { (texts.entrypoint) }
                input id=(id("entrypoint")) name="entrypoint" value="handler.handle" autocomplete="off"
                    spellcheck="false";
            }
        }
        p.hint id=(id("hint")) { (texts.name_hint) }
    }
}

/// What became of an upload.
pub(crate) fn deployed(reading: &Reading, name: &Name, upload: &Upload) -> Markup {
    let texts = reading.texts();
    let page = reading.path(format_args!("/functions/{name}"));
    html! {
        div.done data-part data-deployed=(name) {
            p {
                (if upload.unchanged { texts.unchanged } else { texts.deployed })
                " " code.digest { (&upload.digest.hex()[..12]) }
            }
            @if let Some(said) = &upload.verification {
                p { (texts.verdict) ": " (said.verdict) @if !said.reason.is_empty() { ", " (said.reason) } }
            }
            @if !upload.warnings.is_empty() {
                p { (texts.warnings) ":" }
                ul { @for warning in &upload.warnings { li { (warning) } } }
            }
            p { a href=(page) { (texts.function) ": " (name) } }
        }
    }
}

/// The form that deletes a function.
pub(crate) fn delete(reading: &Reading, name: &Name) -> Markup {
    let texts = reading.texts();
    let id = |what: &str| format!("delete-{what}-{name}");
    html! {
        details.section.danger {
            summary { (texts.delete_function) }
            form.stack method="post" action=(reading.path(format_args!("/functions/{name}/delete")))
                data-answer=(id("answer")) data-gone=(name) {
                label for=(id("name")) { (texts.delete_hint) }
                input id=(id("name")) name="confirm" required autocomplete="off" spellcheck="false"
                    pattern=(name);
                button.danger type="submit" aria-label=(format_args!("{}: {name}", texts.delete)) {
                    (texts.delete)
                }
                div id=(id("answer")) role="status" {}
            }
        }
    }
}

/// What a deletion removed.
pub(crate) fn receipt(reading: &Reading, name: &Name, receipt: &Receipt) -> Markup {
    let texts = reading.texts();
    html! {
        div.receipt data-part {
            h2 { (texts.receipt) ": " (name) }
            @if receipt.removed.is_empty() && receipt.left.is_empty() {
                p.empty { (texts.nothing_removed) }
            }
            @if !receipt.removed.is_empty() {
                p { (texts.removed) ":" }
                ul { @for line in &receipt.removed {
                    li { (line.kind) " " code { (line.name) } " " span.hint { (line.backend) } }
                } }
            }
            @if !receipt.left.is_empty() {
                p { (texts.left) ":" }
                ul { @for line in &receipt.left {
                    li {
                        (line.kind) " " code { (line.name) } " " span.hint { (line.backend) ": " (line.why) }
                    }
                } }
            }
        }
    }
}
