//! How a registry wants to know who asks (OCI distribution specification, "Authentication"; RFC 9110
//! section 11.6.1; the token protocol of the Docker registry).

use std::time::{Duration, Instant};

use serde::Deserialize;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// Name and password with each request.
    Basic,
    /// A token from somewhere else.
    Bearer {
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads a `WWW-Authenticate` field. Of several challenges the first that is understood counts.
    pub(super) fn parse(field: &str) -> Option<Self> {
        let (scheme, rest) = field.trim().split_once(' ').unwrap_or((field.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        for (name, value) in parameters(rest) {
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "service" => service = Some(value),
                "scope" => scope = Some(value),
                _ => {}
            }
        }
        Some(Self::Bearer {
            realm: realm?,
            service,
            scope,
        })
    }
}

/// `name="value"` pairs; a value without quotation marks is read, too.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_owned();
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(',').unwrap_or((rest, "")),
        };
        found.push((name, value.trim().to_owned()));
        text = rest;
    }
    found
}

/// A token as a token service answers it.
#[derive(Deserialize)]
pub(super) struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// What goes into `Authorization`, and until when.
#[derive(Clone)]
pub(super) struct Authorization {
    pub(super) value: String,
    pub(super) until: Option<Instant>,
}

impl TokenAnswer {
    /// The token. One that does not say how long it is good for is good for a minute.
    pub(super) fn authorization(self) -> Option<Authorization> {
        const SHORTEST: u64 = 60;
        let token = self.token.or(self.access_token)?;
        // It is not used in its last seconds, so that no request meets its end.
        let seconds = self.expires_in.unwrap_or(SHORTEST).max(SHORTEST) - 10;
        Some(Authorization {
            value: format!("Bearer {token}"),
            until: Some(Instant::now() + Duration::from_secs(seconds)),
        })
    }
}

impl Authorization {
    pub(super) fn is_good(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn challenges_are_read() {
        let field = r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        let expected = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("r.example".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(Challenge::parse(field), Some(expected));
        assert_eq!(Challenge::parse("basic realm=x"), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Digest realm=\"x\""), None);
        assert_eq!(Challenge::parse("Bearer service=\"x\""), None);
    }

    proptest! {
        #[test]
        fn any_field_is_read_or_refused(field in "\\PC{0,80}") {
            let _ = Challenge::parse(&field);
        }
    }
}
