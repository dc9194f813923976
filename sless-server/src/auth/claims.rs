//! What a token says, once its signature is right.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Number;

use super::{
    AuthError,
    token::{object, present},
};

/// The limits of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenLimits {
    /// The longest token, in bytes.
    pub token_bytes: usize,
    /// The longest subject, in bytes.
    pub subject_bytes: usize,
    /// How far ahead a token may expire, in seconds. One that lasts for ages is a mistake, often
    /// milliseconds in place of seconds.
    pub lifetime_seconds: i64,
    /// How far `nbf` may lie ahead, in seconds, since clocks differ. `exp` has no such leeway.
    pub clock_skew_seconds: i64,
}

impl Default for TokenLimits {
    /// 16 KiB, 1 KiB, ten years, half a minute.
    fn default() -> Self {
        Self {
            token_bytes: 16 * 1024,
            subject_bytes: 1024,
            lifetime_seconds: 10 * 366 * 24 * 3600,
            clock_skew_seconds: 30,
        }
    }
}

/// Read as JSON values, so that a claim of a wrong type is told from a missing one.
#[derive(Deserialize)]
struct Claims {
    #[serde(default, deserialize_with = "present")]
    sub: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "present")]
    exp: Option<serde_json::Value>,
    #[serde(default, deserialize_with = "present")]
    nbf: Option<serde_json::Value>,
}

/// Checks the claims at this time and answers with the subject and the end.
pub(super) fn check(
    claims: &[u8],
    now: Timestamp,
    limits: &TokenLimits,
) -> Result<(String, Timestamp), AuthError> {
    let claims: Claims = object(claims).ok_or(AuthError::Malformed(
        "its claims are not a JSON object, each named once",
    ))?;
    let now = now.as_second();
    let expires = number("exp", claims.exp)?.ok_or(AuthError::Claim {
        claim: "exp",
        problem: "is missing",
    })?;
    if expires <= now {
        return Err(AuthError::Expired);
    }
    if expires - now > limits.lifetime_seconds {
        return Err(AuthError::Claim {
            claim: "exp",
            problem: "lies too far ahead; expected seconds since 1970",
        });
    }
    if let Some(begins) = number("nbf", claims.nbf)?
        && begins > now.saturating_add(limits.clock_skew_seconds)
    {
        return Err(AuthError::NotYetValid);
    }
    let problem = match claims.sub {
        None => "is missing",
        Some(serde_json::Value::String(sub)) if sub.is_empty() => "is empty",
        Some(serde_json::Value::String(sub)) if sub.len() > limits.subject_bytes => "is too long",
        Some(serde_json::Value::String(sub)) => {
            // In range, as the limits see to it.
            let expires_at = Timestamp::from_second(expires).unwrap_or(Timestamp::MAX);
            return Ok((sub, expires_at));
        }
        Some(_) => "is not text",
    };
    Err(AuthError::Claim {
        claim: "sub",
        problem,
    })
}

/// A NumericDate (RFC 7519, section 2) in whole seconds, rounded down; never negative.
fn number(claim: &'static str, value: Option<serde_json::Value>) -> Result<Option<i64>, AuthError> {
    match value {
        None => Ok(None),
        Some(serde_json::Value::Number(number)) => seconds(&number).map(Some).ok_or({
            AuthError::Claim {
                claim,
                problem: "is out of range; expected seconds since 1970",
            }
        }),
        Some(_) => Err(AuthError::Claim {
            claim,
            problem: "is not a number",
        }),
    }
}

/// The last second of the year 9999, the end of what RFC 3339 can write.
const LAST_SECOND: i64 = 253_402_300_799;

fn seconds(number: &Number) -> Option<i64> {
    let seconds = match number.as_i64() {
        Some(seconds) => seconds,
        None => {
            let seconds = number.as_f64()?.floor();
            // Exact up to the bound, which lies far below 2^53.
            if !(0.0..=LAST_SECOND as f64).contains(&seconds) {
                return None;
            }
            seconds as i64
        }
    };
    (0..=LAST_SECOND).contains(&seconds).then_some(seconds)
}
