//! The source of a function.

use maud::{Markup, html};
use sless_core::{Name, source::SourceTree};

use crate::{extract::Reading, format, highlight};

/// A file as it is shown.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// Text; whether it is marked.
    Text(String, Marked),
    /// Bytes that are not text.
    Binary,
    /// Too large.
    TooLarge,
}

/// Whether a text has its keywords and the like marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Yes,
    No,
}

/// The files, and one of them.
pub(crate) fn content(
    reading: &Reading,
    name: &Name,
    tree: &SourceTree,
    chosen: &str,
    shown: &Shown,
) -> Markup {
    let texts = reading.texts();
    let path = reading.path(format_args!("/source/{name}"));
    html! {
        div.source data-part {
            form.files method="get" action=(path) data-swap aria-label=(texts.files) {
                @for file in tree.files() {
                    button.plain type="submit" name="file" value=(file.path)
                        data-key=(format_args!("file-{}", file.path))
                        aria-current=[(file.path == chosen).then_some("true")] {
                        (file.path) " " span.hint { (format::bytes(file.size)) }
                    }
                }
            }
            div.file {
                h2 { (chosen) }
                @match shown {
                    Shown::Binary => p.empty { (texts.binary) },
                    Shown::TooLarge => p.empty { (texts.too_large) },
                    Shown::Text(text, _) if text.is_empty() => p.empty { (texts.empty_file) },
                    Shown::Text(text, marked) => (code(chosen, text, *marked)),
                }
                p { a href=(format_args!("{path}?zip=true")) { (texts.download) } }
            }
        }
    }
}

fn code(path: &str, text: &str, marked: Marked) -> Markup {
    let count = text.lines().count().max(1);
    let numbers: String = (1..=count).map(|number| format!("{number}\n")).collect();
    html! {
        div.code tabindex="0" role="region" aria-label=(path) {
            pre.numbers aria-hidden="true" { (numbers) }
            pre.text { code {
                @match marked {
                    Marked::Yes => (highlight::source(path, text)),
                    Marked::No => (text),
                }
            } }
        }
    }
}

/// The files as plain text, one after another.
pub(crate) fn plain(files: &[(String, String)]) -> String {
    let mut all = String::new();
    for (path, text) in files {
        all.push_str(&format!("==> {path} <==\n{text}"));
        if !text.ends_with('\n') {
            all.push('\n');
        }
        all.push('\n');
    }
    all
}
