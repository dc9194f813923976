//! SHA-256 digests as they stand in statuses, keys and answers.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

const PREFIX: &str = "sha256:";

/// A SHA-256 digest, written as `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// A digest that was computed elsewhere.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 lower-case hexadecimal digits, without `sha256:`.
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let nibbles = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        nibbles
            .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
            .collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Error;

    /// Reads `sha256:` and 64 hexadecimal digits; upper case is read too, and never written.
    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            let shown: String = text.chars().take(80).collect();
            Error::invalid(format!(
                "digest {shown:?}: expected `sha256:` and 64 hexadecimal digits"
            ))
            .with_reason("digest_format")
        };
        let hex = text.strip_prefix(PREFIX).ok_or_else(refused)?.as_bytes();
        if hex.len() != 64 {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            let nibble = |at: usize| char::from(pair[at]).to_digit(16).ok_or_else(refused);
            // Two values below 16 always fit in one byte.
            *byte = (nibble(0)? * 16 + nibble(1)?) as u8;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_writes() {
        let digest = Digest::of("abc");
        let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<Digest>().expect("a digest"), digest);
        let json = serde_json::to_string(&digest).expect("a string");
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(
            serde_json::from_str::<Digest>(&json).expect("a digest"),
            digest
        );
    }

    #[test]
    fn refuses_other_texts() {
        let short = format!("sha256:{}", "a".repeat(63));
        let wide = format!("sha256:{}é", "a".repeat(62));
        let bad = format!("sha256:{}g", "a".repeat(63));
        for text in ["", "sha256:", "md5:00", &short, &wide, &bad] {
            let error = text.parse::<Digest>().expect_err(text);
            assert_eq!(error.reason(), "digest_format", "{text}");
        }
    }
}
