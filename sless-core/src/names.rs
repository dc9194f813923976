//! Names of namespaces and resources, and how names are derived from them.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// The longest name, in characters: one DNS label (RFC 1123, section 2.1).
pub const NAME_MAX: usize = 63;

/// Checks the rule that every path applies to every name: one DNS label.
fn check(what: &'static str, text: &str) -> Result<()> {
    let ends = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let right = (1..=NAME_MAX).contains(&bytes.len())
        && bytes.iter().all(|byte| ends(byte) || *byte == b'-')
        && bytes.first().is_some_and(ends)
        && bytes.last().is_some_and(ends);
    if right {
        return Ok(());
    }
    let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    Err(Error::invalid(format!(
        "{what} \"{shown}\" is not a DNS label: expected 1 to {NAME_MAX} characters of a-z, 0-9 and \
         \"-\", beginning and ending with a letter or digit"
    ))
    .with_reason("name_invalid"))
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the rule and keeps the name.
            ///
            /// # Errors
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), reason `name_invalid`.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                check($what, text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

label! {
    /// The name of a resource within its namespace: one DNS label of at most [`NAME_MAX`] characters.
    Name, "name"
}

label! {
    /// The name of a namespace: one DNS label of at most [`NAME_MAX`] characters.
    Namespace, "namespace"
}

impl Namespace {
    /// The namespace of a user: `sless-` and the first 8 bytes of SHA-256 of the token's subject,
    /// in hex. Deterministic, and nobody finds the subject from it.
    ///
    /// ```
    /// let namespace = sless_core::Namespace::of_subject("alice");
    /// assert_eq!(namespace.as_str(), "sless-2bd806c97f0e00af");
    /// ```
    pub fn of_subject(subject: &str) -> Self {
        let hash = Sha256::digest(subject.as_bytes());
        Self(format!("sless-{}", hex(&hash[..8])).into())
    }

    /// Where the workloads of this namespace live: `sless-fn-` and its name, shortened with a hash
    /// where that is longer than a label.
    pub fn workloads(&self) -> Self {
        Self(derived(&["sless-fn", &self.0], NAME_MAX).into())
    }
}

/// Joins `parts` with `-`. A result longer than `limit` bytes is cut and ends in ten hex digits of
/// the whole's hash, so that different inputs stay different.
///
/// The parts are DNS labels, so the result is one too.
///
/// # Panics
/// If `limit` is below 12, which leaves no room for the hash.
pub fn derived(parts: &[&str], limit: usize) -> String {
    assert!(limit >= 12, "a derived name needs at least 12 bytes");
    let whole = parts.join("-");
    if whole.len() <= limit {
        return whole;
    }
    // A separator that no label holds keeps ("a-b", "c") apart from ("a", "b-c").
    let hash = Sha256::digest(parts.join("/").as_bytes());
    let kept = whole[..limit - 11].trim_end_matches('-');
    format!("{kept}-{}", hex(&hash[..5]))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_dns_labels() {
        let longest = "a".repeat(63);
        for good in ["a", "0", "hello-world", "a--b", longest.as_str()] {
            assert_eq!(Name::new(good).expect(good).as_str(), good);
        }
        let too_long = "a".repeat(64);
        for bad in [
            "",
            "A",
            "a.b",
            "a-",
            "-a",
            "a_b",
            "é",
            "a\n",
            too_long.as_str(),
        ] {
            let error = Name::new(bad).expect_err(bad);
            assert_eq!(error.reason(), "name_invalid");
        }
    }

    #[test]
    fn a_users_namespace_has_22_characters() {
        assert_eq!(Namespace::of_subject("").as_str().len(), 22);
        assert_eq!(
            Namespace::of_subject("alice").workloads().as_str(),
            "sless-fn-sless-2bd806c97f0e00af"
        );
    }

    proptest! {
        #[test]
        fn derived_names_are_labels_within_the_limit(
            a in "[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
            b in "[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
            limit in 12usize..64,
        ) {
            let name = derived(&[&a, &b], limit);
            prop_assert!(name.len() <= limit);
            prop_assert!(Name::new(&name).is_ok(), "{name}");
        }

        #[test]
        fn different_inputs_stay_different(
            a in "[a-z]{20,40}", b in "[a-z]{20,40}", c in "[a-z]{20,40}",
        ) {
            prop_assume!(b != c);
            prop_assert_ne!(derived(&[&a, &b], 24), derived(&[&a, &c], 24));
        }

        #[test]
        fn any_text_is_accepted_or_refused(text in ".{0,80}") {
            let _ = Name::new(text);
        }
    }
}
