//! What is around the content of every page.

use maud::{DOCTYPE, Markup, html};
use sless_core::Namespace;

use crate::{Console, frame::Frame, text::Language};

/// A whole page.
pub(crate) fn page(
    console: &Console,
    frame: &Frame,
    namespace: Option<&Namespace>,
    title: &str,
    content: Markup,
) -> Markup {
    let texts = frame.texts();
    let assets = console.assets();
    let script =
        |name: &str| html! { script type="module" src=(assets.path(name)) nonce=(frame.nonce) {} };
    html! {
        (DOCTYPE)
        html lang=(frame.language.code()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · sless" }
                link rel="icon" type="image/svg+xml" href=(assets.path("icon.svg"));
                link rel="stylesheet" href=(assets.path("style.css")) nonce=(frame.nonce);
                (script("app.js"))
            }
            body data-reconnecting=(texts.reconnecting) data-reconnected=(texts.reconnected)
                data-loading=(texts.loading) data-packing=(texts.packing)
                data-uploading=(texts.uploading) data-is-now=(texts.is_now)
                data-went-wrong=(texts.went_wrong)
                data-live=[namespace.map(|namespace| format!("/funcs/{namespace}/events"))] {
                a.skip href="#content" { (texts.skip) }
                header.top {
                    a.brand href="/funcs" { "sless" }
                    @if let Some(namespace) = namespace {
                        nav aria-label=(texts.namespace) {
                            a href=(format_args!("/funcs/{namespace}")) { (namespace) }
                        }
                    }
                    div.tools {
                        (languages(frame))
                        (session(frame))
                    }
                }
                p.offline role="status" hidden {}
                main id="content" tabindex="-1" { (content) }
                div.unseen id="say" role="status" aria-live="polite" {}
            }
        }
    }
}

fn languages(frame: &Frame) -> Markup {
    let texts = frame.texts();
    html! {
        form.languages method="post" action="/funcs/_language" aria-label=(texts.language) {
            input type="hidden" name="next" value=(frame.path);
            @for language in Language::ALL {
                button.plain type="submit" name="to" value=(language.code()) lang=(language.code())
                    aria-pressed=(if language == frame.language { "true" } else { "false" }) {
                    (language.name())
                }
            }
        }
    }
}

fn session(frame: &Frame) -> Markup {
    let texts = frame.texts();
    html! {
        @if let Some(subject) = frame.viewer.subject() {
            form.session method="post" action="/funcs/_sign-out" {
                span.subject title=(subject) { (subject) }
                button.plain type="submit" { (texts.sign_out) }
            }
        } @else {
            a.session href="/funcs/_sign-in" { (texts.sign_in) }
        }
    }
}
