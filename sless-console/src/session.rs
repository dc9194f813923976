//! The session: a cookie that only this server can make and read.
//!
//! It holds the subject and the end of the session, sealed with AES-256-GCM; never the token. So no
//! state is kept, a session goes on after a restart and on another copy that has the same key, and
//! what a browser stores opens the console only, not the API.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header::COOKIE};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ConsoleConfig;

/// The name of the session's cookie.
pub const SESSION_COOKIE: &str = "sless_session";

/// The name of the cookie that keeps the language.
pub(crate) const LANGUAGE_COOKIE: &str = "sless_language";

/// Where the cookies go: to the console, and not to functions.
const PATH: &str = "/funcs";

/// What a sealed text is for, and the version of its form.
const PURPOSE: &[u8] = b"sless console session 1";

/// The key that seals sessions. All copies of a server need the same one.
#[derive(Clone)]
pub struct SessionKey([u8; 32]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

impl SessionKey {
    /// The key of these random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A new key: sessions end with this process.
    ///
    /// # Panics
    /// Where the system has no random bytes to give.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        #[expect(
            clippy::expect_used,
            reason = "a system without random bytes runs no server"
        )]
        getrandom::fill(&mut bytes).expect("random bytes");
        Self(bytes)
    }

    fn aead(&self) -> Option<RandomizedNonceKey> {
        RandomizedNonceKey::new(&AES_256_GCM, &self.0).ok()
    }

    /// The text of a session.
    pub(crate) fn seal(&self, session: &Session) -> Option<String> {
        let mut text = serde_json::to_vec(session).ok()?;
        let nonce = self
            .aead()?
            .seal_in_place_append_tag(Aad::from(PURPOSE), &mut text)
            .ok()?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.extend_from_slice(&text);
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The session of a text, if it was sealed with this key and has not ended.
    pub(crate) fn open(&self, text: &str, now: Timestamp) -> Option<Session> {
        let mut sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, text) = sealed.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let aad = Aad::from(PURPOSE);
        let text = self.aead()?.open_in_place(nonce, aad, text).ok()?;
        let session: Session = serde_json::from_slice(text).ok()?;
        (session.ends_at > now).then_some(session)
    }
}

/// Who is signed in, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The subject of the token.
    #[serde(rename = "s")]
    pub(crate) subject: String,
    /// When the session ends.
    #[serde(rename = "e")]
    pub(crate) ends_at: Timestamp,
}

/// The value of a cookie. Where a name is there twice, as another path of this host can bring about,
/// none is taken.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let fields = headers.get_all(COOKIE).iter();
    let mut found = fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value);
    let value = found.next()?;
    found.next().is_none().then_some(value)
}

/// The field that sets the session's cookie, or with an empty text takes it away.
pub(crate) fn set_session(
    config: &ConsoleConfig,
    value: &str,
    seconds: i64,
) -> Option<HeaderValue> {
    set(config, SESSION_COOKIE, value, seconds)
}

/// The field that sets the cookie of the language.
pub(crate) fn set_language(config: &ConsoleConfig, value: &str) -> Option<HeaderValue> {
    const YEAR: i64 = 366 * 24 * 3600;
    set(config, LANGUAGE_COOKIE, value, YEAR)
}

fn set(config: &ConsoleConfig, name: &str, value: &str, seconds: i64) -> Option<HeaderValue> {
    let secure = if config.is_secure() { "; Secure" } else { "" };
    let seconds = seconds.max(0);
    HeaderValue::try_from(format!(
        "{name}={value}; Path={PATH}; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    ))
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(ends_at: i64) -> Session {
        Session {
            subject: "alice".to_owned(),
            ends_at: Timestamp::from_second(ends_at).expect("in range"),
        }
    }

    #[test]
    fn a_session_comes_back_until_its_end() {
        let key = SessionKey::new([7; 32]);
        let text = key.seal(&session(100)).expect("sealed");
        let at = |second| Timestamp::from_second(second).expect("in range");
        assert_eq!(key.open(&text, at(99)), Some(session(100)));
        assert_eq!(key.open(&text, at(100)), None, "it has ended");
        assert!(!text.contains("alice"));
        assert_ne!(key.seal(&session(100)), Some(text), "no two are the same");
    }

    #[test]
    fn no_other_text_and_no_other_key_opens() {
        let key = SessionKey::new([7; 32]);
        let text = key.seal(&session(100)).expect("sealed");
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(SessionKey::new([8; 32]).open(&text, now), None);
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] = if other[at] == b'A' { b'B' } else { b'A' };
            let other = String::from_utf8(other).expect("ASCII");
            assert_eq!(key.open(&other, now), None, "changed at {at}");
        }
        for wrong in ["", "A", "AAAA", "é", &text[..text.len() - 4]] {
            assert_eq!(key.open(wrong, now), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_cookie_that_is_there_twice_counts_for_nothing() {
        let headers = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(COOKIE, HeaderValue::from_str(text).expect("a field"));
            headers
        };
        let one = headers("a=1; sless_session=x; sless_session_2=y");
        assert_eq!(cookie(&one, SESSION_COOKIE), Some("x"));
        let two = headers("sless_session=x; sless_session=y");
        assert_eq!(cookie(&two, SESSION_COOKIE), None);
    }

    #[test]
    fn cookies_are_out_of_reach_of_scripts_other_sites_and_functions() {
        let plain = set_session(&ConsoleConfig::new("http://localhost:8080"), "v", 60);
        let plain = plain.expect("a field");
        assert_eq!(
            plain,
            "sless_session=v; Path=/funcs; Max-Age=60; HttpOnly; SameSite=Strict"
        );
        let tls = set_session(&ConsoleConfig::new("https://a.example"), "v", 60);
        assert!(
            tls.expect("a field")
                .to_str()
                .expect("text")
                .ends_with("; Secure")
        );
    }
}
