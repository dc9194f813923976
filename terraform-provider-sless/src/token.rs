//! What a token says about itself. Nobody checks it here: the server does.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::Deserialize;
use sless_core::Namespace;

/// The longest token that is looked into.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// What a token says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    /// The namespace of its subject.
    pub(crate) namespace: Namespace,
    /// When it expires, where it says so.
    pub(crate) expires: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Payload {
    sub: String,
    exp: Option<f64>,
}

/// Reads a token.
///
/// # Errors
/// A sentence, which holds nothing of the token.
pub(crate) fn read(token: &str) -> Result<Claims, String> {
    let refused = |what: &str| Err(format!("{what}; expected a JWT with a `sub`"));
    if token.len() > TOKEN_BYTES_MAX {
        return refused(&format!("it is longer than {TOKEN_BYTES_MAX} bytes"));
    }
    let parts: Vec<_> = token.split('.').collect();
    let [_, payload, _] = parts.as_slice() else {
        return refused("it does not have three parts");
    };
    let Ok(payload) = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')) else {
        return refused("its second part is not base64url");
    };
    let Ok(payload) = serde_json::from_slice::<Payload>(&payload) else {
        return refused("its second part is not a JSON object with a `sub` that is text");
    };
    if payload.sub.is_empty() {
        return refused("its `sub` is empty");
    }
    // Out of range, it says nothing that could be shown.
    let expires = payload.exp.filter(|exp| exp.is_finite());
    let expires = expires.and_then(|exp| Timestamp::from_second(exp as i64).ok());
    Ok(Claims {
        namespace: Namespace::of_subject(&payload.sub),
        expires,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(payload: &str) -> String {
        format!("e30.{}.x", URL_SAFE_NO_PAD.encode(payload))
    }

    #[test]
    fn the_namespace_follows_from_the_subject() {
        let claims = read(&token(r#"{"sub": "alice", "exp": 1700000000}"#)).expect("claims");
        // The first eight bytes of the SHA-256 of "alice".
        assert_eq!(claims.namespace.as_str(), "sless-2bd806c97f0e00af");
        assert_eq!(
            claims.expires.map(|time| time.as_second()),
            Some(1_700_000_000)
        );
        assert_eq!(
            read(&token(r#"{"sub": "a"}"#)).expect("claims").expires,
            None
        );
    }

    #[test]
    fn what_is_no_token_is_refused_without_repeating_it() {
        let long = token(&format!(r#"{{"sub": "{}"}}"#, "x".repeat(TOKEN_BYTES_MAX)));
        for wrong in [
            "hunter2",
            "a.b",
            "a.!.c",
            &token("{}"),
            &token(r#"{"sub": ""}"#),
            &token("[]"),
            &long,
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("expected a JWT"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*", payload in ".*") {
            let _ = read(&text);
            let _ = read(&token(&payload));
        }
    }
}
