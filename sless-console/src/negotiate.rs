//! What a client wants: a page, a part of one, or plain text; in which language.

use http::{
    HeaderMap, HeaderName,
    header::{ACCEPT, ACCEPT_LANGUAGE},
};

use crate::{
    session::{LANGUAGE_COOKIE, cookie},
    text::Language,
};

/// Set by the console's own scripts, which want a part of a page. A form of another site cannot set it.
pub(crate) const FRAGMENT: HeaderName = HeaderName::from_static("x-sless-fragment");

/// In which form a client wants the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A whole page.
    Page,
    /// A part of a page, for the console's own scripts.
    Fragment,
    /// Plain text.
    Text,
}

impl Form {
    /// Plain text, unless the client accepts `text/html` by name.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        if headers.contains_key(FRAGMENT) {
            Self::Fragment
        } else if accepts(headers, "text/html") {
            Self::Page
        } else {
            Self::Text
        }
    }
}

/// Whether a media type is accepted by its name, with a weight above 0 (RFC 9110, section 12.5.1).
pub(crate) fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let fields = headers.get_all(ACCEPT).iter();
    fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','))
        .any(|range| {
            let (name, weight) = weighted(range);
            name.eq_ignore_ascii_case(wanted) && weight > 0.0
        })
}

/// The language of a request: the one that was chosen, else the one that is wanted most, else
/// English.
pub(crate) fn language(headers: &HeaderMap) -> Language {
    if let Some(chosen) = cookie(headers, LANGUAGE_COOKIE).and_then(Language::of_code) {
        return chosen;
    }
    let fields = headers.get_all(ACCEPT_LANGUAGE).iter();
    let mut best = (Language::English, 0.0);
    for range in fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(','))
    {
        let (tag, weight) = weighted(range);
        let primary = tag.split('-').next().unwrap_or_default();
        if let Some(language) = Language::of_code(&primary.to_ascii_lowercase())
            && weight > best.1
        {
            best = (language, weight);
        }
    }
    best.0
}

/// An element of a list with weights: its name, and its `q`, 1 where there is none.
fn weighted(element: &str) -> (&str, f32) {
    let mut parts = element.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts
        .find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
        .map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
    (name, weight)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a field"))])
    }

    #[test]
    fn a_page_is_for_those_who_name_html() {
        for (accept, form) in [
            ("*/*", Form::Text),
            ("text/plain", Form::Text),
            ("text/*;q=0.5", Form::Text),
            ("text/html;q=0", Form::Text),
            ("application/xhtml+xml, text/html;q=0.1", Form::Page),
            ("TEXT/HTML", Form::Page),
        ] {
            assert_eq!(Form::of(&headers(ACCEPT, accept)), form, "{accept}");
        }
        assert_eq!(Form::of(&HeaderMap::new()), Form::Text);
    }

    #[test]
    fn the_language_is_the_one_that_is_wanted_most() {
        for (wanted, language) in [
            ("ru", Language::Russian),
            ("ru-RU,ru;q=0.9,en;q=0.8", Language::Russian),
            ("en;q=0.9, RU;q=0.95", Language::Russian),
            ("de, fr", Language::English),
            ("en, ru;q=0.5", Language::English),
            ("ru;q=0", Language::English),
            ("ru;q=x", Language::English),
        ] {
            let headers = headers(ACCEPT_LANGUAGE, wanted);
            assert_eq!(super::language(&headers), language, "{wanted}");
        }
    }
}
