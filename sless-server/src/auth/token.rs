//! Taking a token apart, strictly.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny},
};

use super::AuthError;

/// A JWS in compact form (RFC 7515, section 3.1), taken apart and not yet believed.
#[derive(Debug)]
pub(super) struct Token<'a> {
    header: Header,
    claims: Vec<u8>,
    signed: &'a str,
    signature: &'a str,
}

/// The members of the header that mean something here. Keys and addresses of keys that a token
/// brings along (`jwk`, `jku`, `x5c`, `x5u`) are never looked at.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    #[serde(default, deserialize_with = "present")]
    kid: Option<String>,
    #[serde(default, deserialize_with = "present")]
    crit: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    typ: Option<String>,
}

/// `null` is a value of the wrong type, not an absent member.
pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// What `typ` may say, in lower case.
const KINDS: &[&str] = &["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Algorithms with a signature, for the mode that checks none.
const KNOWN_ALGORITHMS: &[&str] = &[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
    "ES384", "ES512", "EdDSA",
];

impl<'a> Token<'a> {
    /// Takes a token apart.
    ///
    /// RFC 7515, section 5.2, allows no line breaks, blanks or other characters in the parts, and
    /// the decoder refuses padding and stray bits; so a token has exactly one spelling.
    pub(super) fn parse(text: &'a str, limit: usize) -> Result<Self, AuthError> {
        if text.len() > limit {
            return Err(AuthError::TooLarge(limit));
        }
        let mut parts = text.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AuthError::Malformed("expected three parts with two dots"));
        };
        if header.is_empty() || signature.is_empty() {
            return Err(AuthError::Malformed("its header or signature is empty"));
        }
        let signed = &text[..header.len() + 1 + claims.len()];
        let header = decoded(header)?;
        let header: Header = object(&header).ok_or(AuthError::Malformed(
            "its header is not a JSON object with `alg`",
        ))?;
        if header.crit.is_some() {
            return Err(AuthError::Malformed("`crit` asks for an unknown extension"));
        }
        // RFC 8725, section 3.11: another kind of token must not pass for an access token.
        let kind = header.typ.as_deref().unwrap_or("JWT");
        if !KINDS.contains(&kind.to_ascii_lowercase().as_str()) {
            return Err(AuthError::Malformed("its `typ` is not JWT"));
        }
        decoded(signature)?;
        Ok(Self {
            claims: decoded(claims)?,
            header,
            signed,
            signature,
        })
    }

    pub(super) fn algorithm(&self) -> &str {
        &self.header.alg
    }

    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    pub(super) fn claims(&self) -> &[u8] {
        &self.claims
    }

    /// What the signature is over.
    pub(super) fn signed(&self) -> &[u8] {
        self.signed.as_bytes()
    }

    pub(super) fn signature(&self) -> &str {
        self.signature
    }

    /// Refuses `none` and whatever else has no signature.
    pub(super) fn require_known_algorithm(&self) -> Result<(), AuthError> {
        if KNOWN_ALGORITHMS.contains(&self.algorithm()) {
            Ok(())
        } else {
            Err(AuthError::Algorithm("one with a signature"))
        }
    }
}

/// Reads a JSON object. The derived readers would take an array for one, its items for the members.
pub(super) fn object<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    if text.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    serde_json::from_slice(text).ok()
}

fn decoded(part: &str) -> Result<Vec<u8>, AuthError> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| AuthError::Malformed("a part is not base64url without padding"))
}
