//! What a provider keeps beside the state of an object, unseen by the user.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the form in which it is stored.
const VERSION: u32 = 1;

/// What a provider keeps beside the state of an object: small texts by key. Terraform stores them in
/// the state file and shows them nowhere. They are not encrypted: no place for secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Private(BTreeMap<String, String>);

#[derive(Serialize, Deserialize)]
struct Stored {
    version: u32,
    values: BTreeMap<String, String>,
}

impl Private {
    /// The text with this key.
    pub fn read(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Keeps a text; what had the key before goes.
    pub fn write(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Forgets a text.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Whatever was stored by something else counts as nothing.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        match serde_json::from_slice::<Stored>(bytes) {
            Ok(stored) if stored.version == VERSION => Self(stored.values),
            _ => Self::default(),
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let stored = Stored {
            version: VERSION,
            values: self.0.clone(),
        };
        serde_json::to_vec(&stored).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_a_promise() {
        let mut private = Private::default();
        assert_eq!(private.to_bytes(), b"");
        private.write("etag", "7");
        let golden = br#"{"version":1,"values":{"etag":"7"}}"#;
        assert_eq!(private.to_bytes(), golden);
        assert_eq!(Private::from_bytes(golden), private);
        for other in [&b"{\"version\":2,\"values\":{}}"[..], b"nonsense", b""] {
            assert_eq!(Private::from_bytes(other), Private::default());
        }
    }
}
