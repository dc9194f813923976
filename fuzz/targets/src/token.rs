//! A bearer token, and a set of keys.

use std::{fmt::Write as _, sync::LazyLock};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sless_core::Namespace;
use sless_server::auth::{AuthMode, Authenticator, Hs256Key, KeySet, Principal};

/// The time at which tokens are checked: 2026-01-01.
const NOW: i64 = 1_767_225_600;

/// Keys of a set at most.
const MAX_KEYS: usize = 100;

/// The shared secret, which stored inputs know.
const SECRET: [u8; 32] = *b"the secret of the stored inputs.";

static UNSIGNED: LazyLock<Authenticator> = LazyLock::new(|| of(AuthMode::Structural));
static SIGNED: LazyLock<Authenticator> = LazyLock::new(|| of(AuthMode::Hs256(key())));

fn of(mode: AuthMode) -> Authenticator {
    Authenticator::new(mode, ["root".to_owned()])
}

fn key() -> Hs256Key {
    // Its owner's alone, as such files are.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut hex = String::new();
    for byte in SECRET {
        write!(hex, "{byte:02x}").expect("text");
    }
    std::fs::write(file.path(), hex).expect("a secret");
    Hs256Key::load(file.path()).expect("a secret")
}

pub(crate) fn run(data: &[u8]) -> bool {
    // An answer that is no key set is refused, whatever it is.
    let keys = KeySet::parse(data, MAX_KEYS);
    if let Ok(keys) = &keys {
        assert!(!keys.is_empty() && keys.len() <= MAX_KEYS);
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return keys.is_ok();
    };
    // Parts of JSON, since few random texts are base64url of anything: as they are, and signed.
    let parts = text.split('\n').take(3);
    let parts: Vec<_> = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).collect();
    let mut tokens = vec![text.to_owned(), parts.join(".")];
    if let [header, claims, ..] = &parts[..] {
        let message = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(signature(message.as_bytes()));
        tokens.push(format!("{message}.{signature}"));
    }
    let accepted = tokens.iter().filter(|token| check(token)).count();
    keys.is_ok() || accepted > 0
}

/// HMAC with SHA-256 (RFC 2104), written again.
fn signature(message: &[u8]) -> [u8; 32] {
    let padded = |byte: u8| {
        let mut block = [byte; 64];
        for (padded, secret) in block.iter_mut().zip(SECRET) {
            *padded ^= secret;
        }
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36));
    let inner = inner.chain_update(message).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c));
    outer.chain_update(inner).finalize().into()
}

/// Whether a token is accepted without a look at its signature.
fn check(token: &str) -> bool {
    let unsigned = authenticate(&UNSIGNED, token);
    let signed = authenticate(&SIGNED, token);
    if let Some(principal) = &unsigned {
        assert_says(token, principal);
    }
    if signed.is_some() {
        assert_eq!(signed, unsigned, "accepted by the stricter mode only");
        assert_eq!(json(token, 0)["alg"], "HS256");
        let (message, given) = token.rsplit_once('.').expect("three parts");
        let given = URL_SAFE_NO_PAD.decode(given).expect("base64url");
        assert_eq!(given, signature(message.as_bytes()), "a wrong signature");
    }
    unsigned.is_some()
}

fn authenticate(authenticator: &Authenticator, token: &str) -> Option<Principal> {
    let now = Timestamp::from_second(NOW).expect("a time");
    let answer = authenticator.authenticate(token, now).now_or_never();
    match answer.expect("nothing to wait for") {
        Ok(principal) => Some(principal),
        Err(error) => {
            assert!(error.status().is_client_error(), "{error}");
            None
        }
    }
}

/// An accepted token has one spelling, and says what was read in it.
fn assert_says(token: &str, principal: &Principal) {
    let spelled = token.split('.').map(|part| {
        let decoded = URL_SAFE_NO_PAD.decode(part).expect("base64url");
        URL_SAFE_NO_PAD.encode(decoded)
    });
    assert_eq!(spelled.collect::<Vec<_>>().join("."), token);
    assert_eq!(token.matches('.').count(), 2);
    let (header, claims) = (json(token, 0), json(token, 1));
    let algorithm = header["alg"].as_str().expect("an algorithm");
    assert!(!algorithm.eq_ignore_ascii_case("none"));
    assert!(header.get("crit").is_none());
    assert_eq!(claims["sub"], principal.sub.as_str());
    let expires = claims["exp"].as_f64().expect("a number");
    assert!(expires > NOW as f64);
    let second = principal.expires_at.as_second();
    assert!(second > NOW && (expires - second as f64).abs() < 1.0);
    assert_eq!(principal.namespace, Namespace::of_subject(&principal.sub));
    assert_eq!(principal.admin, principal.sub == "root");
}

/// A part of a token as JSON.
fn json(token: &str, part: usize) -> Value {
    let part = token.split('.').nth(part).expect("a part");
    let decoded = URL_SAFE_NO_PAD.decode(part).expect("base64url");
    serde_json::from_slice(&decoded).expect("JSON")
}
