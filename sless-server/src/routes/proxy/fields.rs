//! Which header fields pass a proxy.

use axum::http::{
    HeaderMap, HeaderName,
    header::{CONNECTION, EXPECT},
};

/// The beginning of the names of internal fields.
pub(super) const INTERNAL_PREFIX: &str = "x-sless-";

/// The word of an error that a client sees where the platform answers in place of a function.
pub(super) const ERROR: HeaderName = HeaderName::from_static("x-sless-error");

/// Fields that are about one connection (RFC 9110, section 7.6.1). Those about the authentication
/// to a proxy (11.7) are for the first proxy that a client meets, which is us.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Fields that `Connection` may name and that pass all the same: without them the message would be
/// another one, and a client could strip what others put there (RFC 9110, section 7.6.1, forbids to
/// name fields that are meant for all recipients).
const NEVER_NAMED: &[&str] = &[
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "set-cookie",
];

/// Prepares the fields of a request for the function: nothing about the connection, no copy of an
/// internal field, and no `Expect`, since the server itself answers 100 once the body is wanted.
pub(super) fn clean_request(fields: &mut HeaderMap) {
    remove(fields, |name| *name == EXPECT || is_internal(name));
}

/// Prepares the fields of a function's answer for the client.
pub(super) fn clean_response(fields: &mut HeaderMap) {
    remove(fields, |name| is_internal(name) && *name != ERROR);
}

fn is_internal(name: &HeaderName) -> bool {
    name.as_str().starts_with(INTERNAL_PREFIX)
}

/// Removes the fields that are about one connection, the known ones and those that `Connection` names,
/// and `others`. Most messages have none of them, and are looked through once.
fn remove(fields: &mut HeaderMap, others: impl Fn(&HeaderName) -> bool) {
    let goes = |name: &&HeaderName| HOP_BY_HOP.contains(&name.as_str()) || others(name);
    let mut gone: Vec<HeaderName> = fields.keys().filter(goes).cloned().collect();
    if gone.contains(&CONNECTION) {
        for value in fields.get_all(CONNECTION) {
            for name in value.as_bytes().split(|byte| *byte == b',') {
                let name = name.trim_ascii();
                if let Ok(name) = HeaderName::from_bytes(name)
                    && !NEVER_NAMED.contains(&name.as_str())
                {
                    gone.push(name);
                }
            }
        }
    }
    for name in gone {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use axum::http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn fields(lines: &[(&str, &str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            fields.append(name, HeaderValue::from_str(value).unwrap());
        }
        fields
    }

    fn names(fields: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn fields_about_the_connection_go_and_those_that_it_names() {
        let mut fields = fields(&[
            ("Connection", "close, X-One"),
            ("Connection", " x-two ,,bad name, Content-Length"),
            ("Keep-Alive", "1"),
            ("Proxy-Connection", "x"),
            ("TE", "trailers"),
            ("Trailer", "x-sum"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "websocket"),
            ("X-One", "1"),
            ("X-Two", "2"),
            ("X-Three", "3"),
            ("Content-Length", "3"),
        ]);
        clean_request(&mut fields);
        assert_eq!(names(&fields), ["content-length", "trailer", "x-three"]);
    }

    #[test]
    fn a_client_cannot_send_internal_fields() {
        let mut fields = fields(&[
            ("X-Sless-Request-Id", "forged"),
            ("x-sless-error", "forged"),
            ("x-sless", "kept"),
            ("Expect", "100-continue"),
        ]);
        clean_request(&mut fields);
        assert_eq!(names(&fields), ["x-sless"]);
    }

    #[test]
    fn an_answer_keeps_its_cookies_in_order_and_the_error_word() {
        let mut fields = fields(&[
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("X-Sless-Error", "timeout"),
            ("X-Sless-Replica", "internal"),
            ("Connection", "set-cookie"),
        ]);
        clean_response(&mut fields);
        assert_eq!(names(&fields), ["set-cookie", "x-sless-error"]);
        let cookies: Vec<_> = fields.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
    }

    proptest! {
        #[test]
        fn what_is_left_is_what_came_minus_what_must_go(
            connection in proptest::collection::vec("[ -~]{0,30}", 0..3),
            others in proptest::collection::vec(("x-[a-z]{1,3}", "[ -~]{0,10}"), 0..8),
        ) {
            let mut before = HeaderMap::new();
            for value in &connection {
                before.append(CONNECTION, HeaderValue::from_str(value).unwrap());
            }
            for (name, value) in &others {
                let name: HeaderName = name.parse().unwrap();
                before.append(name, HeaderValue::from_str(value).unwrap());
            }
            let mut after = before.clone();
            clean_request(&mut after);
            prop_assert!(!after.contains_key(CONNECTION));
            let named: Vec<_> = connection
                .iter()
                .flat_map(|value| value.split(','))
                .map(|name| name.trim().to_ascii_lowercase())
                .collect();
            for name in before.keys().filter(|name| *name != CONNECTION) {
                if named.iter().any(|gone| gone == name.as_str()) {
                    prop_assert!(!after.contains_key(name));
                } else {
                    let (was, is): (Vec<_>, Vec<_>) =
                        (before.get_all(name).iter().collect(), after.get_all(name).iter().collect());
                    prop_assert_eq!(was, is);
                }
            }
        }
    }
}
