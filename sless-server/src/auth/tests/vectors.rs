//! The JSON Web Signature cases of Wycheproof.

use std::{collections::BTreeMap, path::PathBuf};

use jsonwebtoken::jwk::Jwk;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    number_of_tests: usize,
    test_groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    private: Option<serde_json::Value>,
    public: Option<serde_json::Value>,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    tc_id: u32,
    comment: String,
    jws: String,
    result: String,
}

/// Labelled valid, and refused here: a `?` stands in the middle of their base64url, and the
/// signature is that of the token without it. RFC 7515, section 2, allows no such characters, and
/// to pass over them would give one token many spellings.
const STRAY_CHARACTERS: &[u32] = &[372, 373];

/// Labelled invalid, and accepted here: they are, byte for byte and under the same key, the token of
/// a case that is labelled valid. Their comments speak of a wrong padding that is not in them.
const SAME_AS_A_VALID_ONE: &[u32] = &[367, 370];

/// What the vectors' key set says, with the algorithms that this server accepts.
fn key(group: &Group) -> Option<VerifyKey> {
    let jwk = group.public.as_ref().or(group.private.as_ref())?;
    if jwk["kty"] == "oct" {
        let secret = jwk["k"].as_str()?;
        let secret =
            base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, secret);
        return (jwk["alg"] == "HS256").then(|| VerifyKey::hs256(&secret.unwrap()))?;
    }
    VerifyKey::from_jwk(&serde_json::from_value::<Jwk>(jwk.clone()).ok()?)
}

fn accepted(case: &Case, key: Option<&VerifyKey>) -> bool {
    let Ok(token) = Token::parse(&case.jws, 1 << 20) else {
        return false;
    };
    key.is_some_and(|key| key.verify(&token).is_ok())
}

#[test]
fn every_case_gets_its_verdict() {
    let folder = std::env::var_os("SLESS_VECTORS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/vectors"),
        PathBuf::from,
    );
    let path = folder.join("jws/json_web_signature_test.json");
    let Ok(text) = std::fs::read(&path) else {
        #[allow(clippy::print_stderr)]
        {
            eprintln!(
                "SKIPPED: {} is not there; set SLESS_VECTORS",
                path.display()
            );
        }
        return;
    };
    let file: File = serde_json::from_slice(&text).unwrap();
    let mut seen = 0;
    let mut other_algorithm = BTreeMap::new();
    for group in &file.test_groups {
        let key = key(group);
        for case in &group.tests {
            seen += 1;
            let ours = accepted(case, key.as_ref());
            let valid = case.result == "valid";
            if STRAY_CHARACTERS.contains(&case.tc_id) {
                assert!(valid && !ours, "{}", case.tc_id);
            } else if SAME_AS_A_VALID_ONE.contains(&case.tc_id) {
                let same = |other: &Case| other.result == "valid" && other.jws == case.jws;
                assert!(
                    !valid && ours && group.tests.iter().any(same),
                    "{}",
                    case.tc_id
                );
            } else if valid && key.is_none() {
                // Right signatures of algorithms that no mode of this server accepts.
                let jwk = group.public.as_ref().or(group.private.as_ref()).unwrap();
                let algorithm = jwk["alg"].as_str().unwrap().to_owned();
                *other_algorithm.entry(algorithm).or_insert(0) += 1;
            } else {
                assert_eq!(ours, valid, "case {}: {}", case.tc_id, case.comment);
            }
        }
    }
    assert_eq!(seen, file.number_of_tests);
    let expected = [
        ("ES521", 2),
        ("PS256", 8),
        ("PS384", 4),
        ("PS512", 4),
        ("RS384", 4),
        ("RS512", 4),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    assert_eq!(other_algorithm, expected);
}
