//! Who is asking: bearer tokens and what they open.
//!
//! Everything under `/v1` needs `Authorization: Bearer <JWT>`. A token opens the namespace of its
//! own subject and no other; configured admin subjects open all. How a token is checked is one of
//! three modes ([`AuthMode`]):
//!
//! | mode | accepts | key |
//! |---|---|---|
//! | `jwks` | ES256; RS256, RS384, RS512, PS256, PS384 or PS512, whichever the key names | by `kid`, from a key set that is fetched, cached and rotated |
//! | `hs256` | HS256 | a shared secret in a file, made at the first start |
//! | `structural` | any signature of a known algorithm, **unchecked** | none: a trusted proxy checks |
//!
//! The algorithm follows from the mode and the key, each of which is for one algorithm, and never from
//! the token alone (RFC 8725, section 3.1). The token is taken apart by this module, which is stricter than the library
//! that checks the signature; the library sees only tokens of the right shape.

mod claims;
mod error;
mod guard;
mod hs256;
mod jwks;
mod keys;
mod token;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use sless_core::Namespace;

pub use claims::TokenLimits;
pub use error::AuthError;
pub use guard::guard;
pub use hs256::{Hs256Key, KeyFileError};
pub use jwks::{Jwks, JwksConfig, JwksError};
pub use keys::{KeySet, VerifyKey};

use token::Token;

/// Who is asking, as far as the token tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The subject of the token.
    pub sub: String,
    /// The namespace of the subject.
    pub namespace: Namespace,
    /// Whether every namespace is open.
    pub admin: bool,
    /// When the token ends.
    pub expires_at: Timestamp,
}

impl Principal {
    /// Checks that this namespace is open.
    ///
    /// # Errors
    /// [`AuthError::OtherNamespace`].
    pub fn may_open(&self, namespace: &str) -> Result<(), AuthError> {
        if self.admin || self.namespace.as_str() == namespace {
            Ok(())
        } else {
            Err(AuthError::OtherNamespace)
        }
    }
}

/// How tokens are checked.
#[derive(Debug)]
pub enum AuthMode {
    /// By the keys of an identity provider.
    Jwks(Jwks),
    /// By a shared secret.
    Hs256(Hs256Key),
    /// By shape and expiry only. Only behind a proxy that checks signatures.
    Structural,
}

/// Checks tokens.
#[derive(Debug)]
pub struct Authenticator {
    mode: AuthMode,
    admins: BTreeSet<String>,
    limits: TokenLimits,
}

impl Authenticator {
    /// An authenticator in this mode, in which these subjects open every namespace.
    pub fn new(mode: AuthMode, admins: impl IntoIterator<Item = String>) -> Self {
        Self {
            mode,
            admins: admins.into_iter().collect(),
            limits: TokenLimits::default(),
        }
    }

    /// Other limits than the defaults.
    #[must_use]
    pub fn with_limits(mut self, limits: TokenLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether this subject opens every namespace.
    pub fn is_admin(&self, subject: &str) -> bool {
        self.admins.contains(subject)
    }

    /// Fetches what the mode needs ahead of the first token, and logs what its operator must know.
    pub async fn prepare(&self) {
        match &self.mode {
            AuthMode::Hs256(_) => {}
            AuthMode::Jwks(jwks) => jwks.prepare().await,
            AuthMode::Structural => tracing::warn!(
                "SLESS_AUTH=structural: SIGNATURES OF TOKENS ARE NOT CHECKED. Whoever reaches this \
                 server can be anybody. Only run it so behind a proxy that checks them."
            ),
        }
    }

    /// Checks a token at this time and tells whose it is.
    ///
    /// # Errors
    /// Why the token opens nothing.
    pub async fn authenticate(&self, token: &str, now: Timestamp) -> Result<Principal, AuthError> {
        let token = Token::parse(token, self.limits.token_bytes)?;
        match &self.mode {
            AuthMode::Hs256(key) => key.verify_key().verify(&token)?,
            AuthMode::Jwks(jwks) => jwks.verify(&token).await?,
            AuthMode::Structural => token.require_known_algorithm()?,
        }
        let (sub, expires_at) = claims::check(token.claims(), now, &self.limits)?;
        Ok(Principal {
            namespace: Namespace::of_subject(&sub),
            admin: self.is_admin(&sub),
            expires_at,
            sub,
        })
    }
}

/// What handlers and middleware share.
pub type SharedAuthenticator = Arc<Authenticator>;
