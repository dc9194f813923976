//! Signing in, and what is shown of a refusal.

use http::StatusCode;
use maud::{Markup, html};

use super::layout;
use crate::{Console, error::Failure, frame::Frame};

/// The page of a refusal; with a form to sign in where that may help.
pub(crate) fn page(console: &Console, frame: &Frame, failure: &Failure) -> Markup {
    let texts = frame.texts();
    if failure.sign_in {
        let message = (failure.code != "session_missing").then_some(failure);
        return sign_in(console, frame, message, &frame.path);
    }
    let content = html! {
        h1 { (failure.status.as_u16()) }
        (fragment(frame, failure))
        p { a href="/funcs" { (texts.own_namespace) } }
    };
    layout::page(console, frame, None, texts.went_wrong, content)
}

/// A refusal among other things.
pub(crate) fn fragment(frame: &Frame, failure: &Failure) -> Markup {
    let texts = frame.texts();
    html! {
        div.failure role="alert" {
            p {
                strong {
                    @if failure.status == StatusCode::NOT_FOUND && failure.code == "no_such_route" {
                        (texts.page_missing)
                    } @else { (texts.went_wrong) }
                }
            }
            @if !failure.message.is_empty() { p.message { (failure.message) } }
            p.code { code { (failure.code) } }
        }
    }
}

/// The page on which to sign in, and then go on at `next`.
pub(crate) fn sign_in(
    console: &Console,
    frame: &Frame,
    failure: Option<&Failure>,
    next: &str,
) -> Markup {
    let texts = frame.texts();
    let content = html! {
        section.narrow {
            h1 { (texts.sign_in) }
            @if let Some(failure) = failure {
                (fragment(frame, failure))
            } @else {
                p { (texts.sign_in_first) }
            }
            form.stack method="post" action="/funcs/_sign-in" {
                input type="hidden" name="next" value=(next);
                label for="token" { (texts.token) }
                input id="token" name="token" type="password" required autocomplete="off"
                    spellcheck="false" autofocus aria-describedby="token-hint";
                p.hint id="token-hint" { (texts.token_hint) }
                button type="submit" { (texts.sign_in) }
            }
            @if next != "/funcs" {
                p { a href=(next) { (texts.signed_in_already) } }
            }
            @if let Some(subject) = frame.viewer.subject() {
                @let home = console.gate().home(subject);
                p { a href=(format_args!("/funcs/{home}")) { (texts.own_namespace) } }
            }
        }
    };
    layout::page(console, frame, None, texts.sign_in, content)
}
