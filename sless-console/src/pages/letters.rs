//! Dead letters of an event trigger.

use maud::{Markup, html};
use sless_core::{DeadLetter, DeadLetterPage, Name};

use crate::{extract::Reading, format};

/// The most characters of a letter's body that are shown.
const BODY_SHOWN: usize = 2000;

/// One page of dead letters, oldest first.
pub(crate) fn content(
    reading: &Reading,
    trigger: &Name,
    page: &DeadLetterPage,
    redriven: Option<u64>,
) -> Markup {
    let texts = reading.texts();
    let path = reading.path(format_args!("/triggers/{trigger}/dead-letters"));
    html! {
        div.letters data-part {
            @if let Some(count) = redriven {
                p.done role="status" { (texts.redriven) ": " (count) }
            }
            @if page.items.is_empty() {
                p.empty { (texts.no_letters) }
            } @else {
                @if reading.may_write {
                    form method="post" action=(path) data-swap {
                        button type="submit" name="all" value="true" data-key="redrive-all" { (texts.redrive_all) }
                    }
                }
                div.scroll tabindex="0" role="region" aria-label=(texts.dead_letters) {
                    table {
                        thead { tr {
                            th scope="col" { (texts.died) }
                            th scope="col" { (texts.attempts) }
                            th scope="col" { (texts.reason) }
                            th scope="col" { (texts.message) }
                            th scope="col" { (texts.body) }
                            @if reading.may_write { th scope="col" { (texts.redrive) } }
                        } }
                        tbody { @for letter in &page.items { (row(reading, &path, letter)) } }
                    }
                }
                @if let Some(next) = &page.next {
                    form method="get" action=(path) data-swap {
                        button type="submit" name="cursor" value=(next) { (texts.next_page) }
                    }
                }
            }
        }
    }
}

fn row(reading: &Reading, path: &str, letter: &DeadLetter) -> Markup {
    let texts = reading.texts();
    let body = std::str::from_utf8(&letter.message.body);
    html! {
        tr {
            td { (format::time(letter.died_at)) }
            td { (letter.attempts) }
            td { (letter.reason) }
            td { code { (letter.message.id) } }
            td {
                @match body {
                    Ok(text) => pre.body tabindex="0" { (text.chars().take(BODY_SHOWN).collect::<String>()) },
                    Err(_) => { (letter.message.body.len()) " " (texts.answer_binary) },
                }
            }
            @if reading.may_write {
                td {
                    form method="post" action=(path) data-swap {
                        button type="submit" name="id" value=(letter.id)
                            aria-label=(format_args!("{}: {}", texts.redrive, letter.message.id)) {
                            (texts.redrive)
                        }
                    }
                }
            }
        }
    }
}
