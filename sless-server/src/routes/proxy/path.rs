//! From the raw path of a request to the function that is meant, and what it sees.

use axum::http::uri::{PathAndQuery, Uri};
use sless_core::{Name, Namespace};

/// The function that a path means, and what follows its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The function's namespace.
    pub(super) namespace: Namespace,
    /// The function's name.
    pub(super) name: Name,
    /// The path and query that the function sees.
    pub(super) tail: Uri,
}

/// Takes `/fn/{ns}/{name}{tail}` apart without decoding anything: the two names are whole segments,
/// and the tail is kept byte for byte. A function that is called without a tail sees `/`.
///
/// `None` for a path that means no function. A name in percent-encoding means none, since no name
/// needs it and two spellings of one path would be two keys for every cache in between.
pub(super) fn target(uri: &Uri) -> Option<Target> {
    let rest = uri.path().strip_prefix("/fn/")?;
    let (namespace, rest) = rest.split_once('/')?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (name, path) = rest.split_at(end);
    let tail = match (path, uri.query()) {
        ("" | "/", None) => PathAndQuery::from_static("/"),
        (path, None) => PathAndQuery::try_from(path).ok()?,
        ("", Some(query)) => PathAndQuery::try_from(format!("/?{query}")).ok()?,
        (path, Some(query)) => PathAndQuery::try_from(format!("{path}?{query}")).ok()?,
    };
    Some(Target {
        namespace: Namespace::new(namespace).ok()?,
        name: Name::new(name).ok()?,
        tail: Uri::from(tail),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn parsed(path: &str) -> Option<(String, String)> {
        let target = target(&path.parse().unwrap())?;
        Some((target.name.to_string(), target.tail.to_string()))
    }

    #[test]
    fn whole_segments_match_and_the_tail_stays_as_it_is() {
        for (path, name, tail) in [
            ("/fn/ns/hello", "hello", "/"),
            ("/fn/ns/hello/", "hello", "/"),
            ("/fn/ns/hello?", "hello", "/?"),
            ("/fn/ns/hello?q=1", "hello", "/?q=1"),
            ("/fn/ns/hello-consumer/x", "hello-consumer", "/x"),
            (
                "/fn/ns/hello/a%2Fb//c?q=%E2%9C%93&q=2",
                "hello",
                "/a%2Fb//c?q=%E2%9C%93&q=2",
            ),
            ("/fn/ns/hello//", "hello", "//"),
            ("/fn/ns/hello/../../other/x", "hello", "/../../other/x"),
            ("/fn/ns/hello/%2e%2e/x;y=1", "hello", "/%2e%2e/x;y=1"),
            ("http://host:1/fn/ns/hello/x?y", "hello", "/x?y"),
        ] {
            assert_eq!(
                parsed(path),
                Some((name.to_owned(), tail.to_owned())),
                "{path}"
            );
        }
    }

    #[test]
    fn what_names_no_function_is_none() {
        for path in [
            "/",
            "/fn",
            "/fn/",
            "/fn/ns",
            "/fn/ns/",
            "/fn//hello",
            "/fn/ns//x",
            "/fn/NS/hello",
            "/fn/ns/hel%6Co",
            "/fn/ns/hello.",
            "/fn/ns/-x",
            "/xfn/ns/hello",
            "/fnx/ns/hello",
        ] {
            assert_eq!(parsed(path), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics_and_a_tail_is_kept(
            path in "(/[!-;=?-~]{0,10}){0,6}",
            query in proptest::option::of("[!-\"$-;=?-~]{0,20}"),
        ) {
            let query = query.map(|query| format!("?{query}")).unwrap_or_default();
            let path = path.replace('?', "");
            if let Ok(uri) = format!("/fn/ns/hello{path}{query}").parse::<Uri>()
                && !path.contains('#')
            {
                let given = if path.is_empty() { "/" } else { &path };
                let target = target(&uri).unwrap();
                prop_assert_eq!(target.tail.to_string(), format!("{given}{query}"));
            }
        }

        #[test]
        fn no_text_panics(text in "/[ -~]{0,60}") {
            if let Ok(uri) = text.parse::<Uri>() {
                let _ = target(&uri);
            }
        }
    }
}
