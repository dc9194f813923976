//! Keys that check signatures.

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse},
};
use serde::Deserialize;

use super::{AuthError, token::Token};

/// An algorithm as tokens name it, as keys name it, and as the library does.
type Named = (&'static str, KeyAlgorithm, Algorithm);

/// What an RSA key may be for (RFC 7518, sections 3.3 and 3.5): the first one where it does not say.
const OF_RSA: [Named; 6] = [
    ("RS256", KeyAlgorithm::RS256, Algorithm::RS256),
    ("RS384", KeyAlgorithm::RS384, Algorithm::RS384),
    ("RS512", KeyAlgorithm::RS512, Algorithm::RS512),
    ("PS256", KeyAlgorithm::PS256, Algorithm::PS256),
    ("PS384", KeyAlgorithm::PS384, Algorithm::PS384),
    ("PS512", KeyAlgorithm::PS512, Algorithm::PS512),
];

/// What a key on the curve P-256 may be for (RFC 7518, section 3.4).
const OF_P256: [Named; 1] = [("ES256", KeyAlgorithm::ES256, Algorithm::ES256)];

/// The names of these, for messages.
pub(super) const PUBLIC_ALGORITHMS: &str = "RS256, RS384, RS512, PS256, PS384, PS512 or ES256";

/// Whether a public key can be for this algorithm. None of them is symmetric, so that a public key is
/// never taken for a secret.
pub(super) fn is_public(algorithm: &str) -> bool {
    let mut all = OF_RSA.iter().chain(&OF_P256);
    all.any(|(name, ..)| *name == algorithm)
}

/// A key and the one algorithm that it is for.
pub struct VerifyKey {
    name: &'static str,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl std::fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifyKey")
            .field("algorithm", &self.name)
            .finish_non_exhaustive()
    }
}

impl VerifyKey {
    /// The key of HS256, or `None` where the secret is empty.
    pub fn hs256(secret: &[u8]) -> Option<Self> {
        Some(Self {
            name: "HS256",
            algorithm: Algorithm::HS256,
            key: DecodingKey::from_secret(secret).ok()?,
        })
    }

    /// A public key out of a key set: P-256 for ES256, and RSA for the one algorithm that the key names
    /// (RFC 7517, section 4.4), RS256 where it names none. `None` for every other type, algorithm and
    /// use, and for every symmetric key, which has no place in a public set.
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
        let of_type: &[Named] = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => &OF_RSA,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &OF_P256,
            _ => return None,
        };
        let found = match common.key_algorithm {
            None => of_type.first(),
            Some(named) => of_type.iter().find(|(_, known, _)| *known == named),
        };
        let (name, _, algorithm) = *found?;
        let key = DecodingKey::from_jwk(jwk).ok()?;
        Some(Self {
            name,
            algorithm,
            key,
        })
    }

    /// Checks the signature, which compares in constant time. The token's `alg` must be the key's.
    pub(super) fn verify(&self, token: &Token<'_>) -> Result<(), AuthError> {
        if token.algorithm() != self.name {
            return Err(AuthError::Algorithm(self.name));
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
            return Err(format!("no key with a `kid` for {PUBLIC_ALGORITHMS} in it"));
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
            .find(|(_, key)| key.name == algorithm);
        Some(&fits.unwrap_or(first).1)
    }
}
