//! Keys that check signatures.

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;

use super::{AuthError, token::Token};

/// A key and the one algorithm that it is for.
pub struct VerifyKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifyKey")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl VerifyKey {
    /// The key of HS256, or `None` where the secret is empty.
    pub fn hs256(secret: &[u8]) -> Option<Self> {
        Some(Self {
            algorithm: Algorithm::HS256,
            key: DecodingKey::from_secret(secret).ok()?,
        })
    }

    /// A public key out of a key set: RSA for RS256, P-256 for ES256. `None` for every other type,
    /// algorithm and use, and for every symmetric key, which has no place in a public set.
    pub fn from_jwk(jwk: &Jwk) -> Option<Self> {
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        if let Some(operations) = &common.key_operations
            && !operations.contains(&KeyOperations::Verify)
        {
            return None;
        }
        let (algorithm, name) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            _ => return None,
        };
        if common.key_algorithm.is_some_and(|given| given != name) {
            return None;
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        Some(Self { algorithm, key })
    }

    const fn algorithm_name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::HS256 => "HS256",
            Algorithm::ES256 => "ES256",
            _ => "RS256",
        }
    }

    /// Checks the signature, which compares in constant time. The token's `alg` must be the key's.
    pub(super) fn verify(&self, token: &Token<'_>) -> Result<(), AuthError> {
        if token.algorithm() != self.algorithm_name() {
            return Err(AuthError::Algorithm(self.algorithm_name()));
        }
        let fits = jsonwebtoken::crypto::verify(
            token.signature(),
            token.signed(),
            &self.key,
            self.algorithm,
        );
        match fits {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(AuthError::Signature),
        }
    }
}

/// A JWK set whose keys are read one by one, since RFC 7517, section 5, lets a reader pass over
/// those that it does not understand.
#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

/// The keys of an identity provider, by `kid`.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<(String, VerifyKey)>,
}

impl KeySet {
    /// Reads a JWK set (RFC 7517, section 5) and keeps the keys that can check tokens.
    ///
    /// # Errors
    /// A sentence, where the text is no JWK set, has too many keys, or none that can be used.
    pub fn parse(text: &[u8], max_keys: usize) -> Result<Self, String> {
        let set: Set =
            serde_json::from_slice(text).map_err(|error| format!("not a JWK set: {error}"))?;
        if set.keys.len() > max_keys {
            let count = set.keys.len();
            return Err(format!(
                "{count} keys, above the limit jwks_keys of {max_keys}"
            ));
        }
        let keys: Vec<_> = set
            .keys
            .into_iter()
            .filter_map(|jwk| {
                let jwk: Jwk = serde_json::from_value(jwk).ok()?;
                let key = VerifyKey::from_jwk(&jwk)?;
                Some((jwk.common.key_id?, key))
            })
            .collect();
        if keys.is_empty() {
            return Err("no key with a `kid` for RS256 or ES256 in it".to_owned());
        }
        Ok(Self { keys })
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no key can be used.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The key for this token. Where two keys of different types share a `kid`, which RFC 7517,
    /// section 4.5, allows, the token's algorithm picks between them.
    pub(super) fn find(&self, key_id: &str, algorithm: &str) -> Option<&VerifyKey> {
        let mut named = self.keys.iter().filter(|(id, _)| id == key_id);
        let first = named.next()?;
        let fits = std::iter::once(first)
            .chain(named)
            .find(|(_, key)| key.algorithm_name() == algorithm);
        Some(&fits.unwrap_or(first).1)
    }
}
