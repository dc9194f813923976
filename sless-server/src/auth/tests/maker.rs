//! Makes tokens, right and wrong ones, without the code under test.

use aws_lc_rs::{
    encoding::AsDer,
    hmac,
    rand::SystemRandom,
    rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
        RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
    },
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token with this signature.
pub(super) fn assemble(header: &str, claims: &str, signature: &[u8]) -> String {
    let (header, claims, signature) = (encode(header), encode(claims), encode(signature));
    format!("{header}.{claims}.{signature}")
}

/// A token that is signed by this function.
pub(super) fn signed(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(header), encode(claims));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", encode(signature))
}

pub(super) fn hmac_sha256(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::sign(&key, message).as_ref().to_vec()
}

/// A P-256 key with its name.
pub(super) struct EcKey {
    pub(super) kid: String,
    pair: EcdsaKeyPair,
}

impl EcKey {
    pub(super) fn new(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self {
            kid: kid.to_owned(),
            pair,
        }
    }

    pub(super) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.kid,
            "x": encode(&point[1..33]), "y": encode(&point[33..]),
        })
    }

    pub(super) fn token(&self, claims: &str) -> String {
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": self.kid}).to_string();
        signed(&header, claims, |message| {
            let signature = self.pair.sign(&SystemRandom::new(), message).unwrap();
            signature.as_ref().to_vec()
        })
    }
}

/// An RSA key with its name.
pub(super) struct RsaKey {
    pub(super) kid: String,
    pair: rsa::KeyPair,
}

impl RsaKey {
    pub(super) fn new(kid: &str) -> Self {
        let pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
        Self {
            kid: kid.to_owned(),
            pair,
        }
    }

    pub(super) fn modulus(&self) -> Vec<u8> {
        let modulus = self.pair.public_key().modulus();
        modulus.big_endian_without_leading_zero().to_vec()
    }

    /// The public key in the form that attackers sign with.
    pub(super) fn public_der(&self) -> Vec<u8> {
        let public: aws_lc_rs::encoding::PublicKeyX509Der<'_> =
            self.pair.public_key().as_der().unwrap();
        public.as_ref().to_vec()
    }

    pub(super) fn jwk(&self) -> Value {
        self.jwk_for("RS256")
    }

    /// The public key, for this algorithm.
    pub(super) fn jwk_for(&self, algorithm: &str) -> Value {
        let exponent = self.pair.public_key().exponent();
        json!({
            "kty": "RSA", "use": "sig", "alg": algorithm, "kid": self.kid,
            "n": encode(self.modulus()),
            "e": encode(exponent.big_endian_without_leading_zero()),
        })
    }

    pub(super) fn token(&self, claims: &str) -> String {
        self.token_for("RS256", claims)
    }

    /// A token with a signature of this algorithm.
    pub(super) fn token_for(&self, algorithm: &str, claims: &str) -> String {
        let encoding: &'static dyn RsaEncoding = match algorithm {
            "RS384" => &RSA_PKCS1_SHA384,
            "RS512" => &RSA_PKCS1_SHA512,
            "PS256" => &RSA_PSS_SHA256,
            "PS384" => &RSA_PSS_SHA384,
            "PS512" => &RSA_PSS_SHA512,
            _ => &RSA_PKCS1_SHA256,
        };
        let header = json!({"alg": algorithm, "typ": "JWT", "kid": self.kid}).to_string();
        signed(&header, claims, |message| {
            let mut signature = vec![0; self.pair.public_modulus_len()];
            let signed = self
                .pair
                .sign(encoding, &SystemRandom::new(), message, &mut signature);
            signed.unwrap();
            signature
        })
    }
}
