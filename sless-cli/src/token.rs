//! What a token says of itself. It is never checked here: that is the server's part.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde::Deserialize;
use sless_core::Namespace;

/// Longest token that is taken, in bytes: that of servers.
pub(crate) const TOKEN_BYTES: usize = 16 << 10;

/// The claims that matter to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) subject: String,
    pub(crate) expires: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Payload {
    sub: String,
    exp: Option<serde_json::Number>,
}

impl Claims {
    /// Reads a JSON Web Token; the error says what is wrong with it.
    pub(crate) fn read(token: &str) -> Result<Self, String> {
        if token.len() > TOKEN_BYTES {
            return Err(format!("it is longer than {TOKEN_BYTES} bytes"));
        }
        let parts: Vec<_> = token.split('.').collect();
        let [_, payload, _] = parts.as_slice() else {
            return Err("expected a JSON Web Token: three parts with dots between".to_owned());
        };
        let payload = URL_SAFE_NO_PAD
            .decode(payload)
            .map_err(|_| "its second part is not base64url".to_owned())?;
        let payload: Payload = serde_json::from_slice(&payload)
            .map_err(|error| format!("its claims cannot be read: {error}"))?;
        let seconds = payload.exp.and_then(|exp| exp.as_f64());
        Ok(Self {
            subject: payload.sub,
            // Exact up to the end of what a timestamp can say.
            expires: seconds.and_then(|exp| Timestamp::from_second(exp.floor() as i64).ok()),
        })
    }

    /// The namespace that a token of this subject opens.
    pub(crate) fn namespace(&self) -> String {
        Namespace::of_subject(&self.subject).to_string()
    }

    pub(crate) fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn subject_and_expiry_are_read_without_the_key() {
        let claims = Claims::read(&token(r#"{"sub":"alice","exp":1700000000.5,"x":[]}"#)).unwrap();
        assert_eq!(claims.subject, "alice");
        assert_eq!(claims.expires.unwrap().as_second(), 1_700_000_000);
        assert!(claims.is_expired(Timestamp::now()));
        assert_eq!(claims.namespace(), "sless-2bd806c97f0e00af");
        assert_eq!(
            Claims::read(&token(r#"{"sub":"a"}"#)).unwrap().expires,
            None
        );
    }

    #[test]
    fn what_is_no_token_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "three parts"),
            ("a.b", "three parts"),
            ("a.!.c", "base64url"),
            (&token("[]"), "claims"),
            (&token(r#"{"exp":1}"#), "sub"),
            (&"a.".repeat(TOKEN_BYTES), "longer"),
        ] {
            let error = Claims::read(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", claims in "\\PC*") {
            let _ = Claims::read(&text);
            let _ = Claims::read(&token(&claims));
        }
    }
}
