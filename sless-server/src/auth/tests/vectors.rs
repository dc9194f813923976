//! The JSON Web Signature cases of Wycheproof.

use std::path::PathBuf;

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

/// A case that is answered otherwise than it is labelled.
struct Otherwise {
    case: u32,
    why: &'static str,
    /// Whether the case is what `why` says.
    is_so: fn(&Group, &Case) -> bool,
}

/// All of them; the other 393 cases are answered as they are labelled.
const OTHERWISE: [Otherwise; 8] = [
    otherwise(346, OF_ANOTHER_ALGORITHM, names_another_algorithm),
    otherwise(347, NO_SUCH_ALGORITHM, names_no_algorithm),
    otherwise(350, OF_ANOTHER_ALGORITHM, names_another_algorithm),
    otherwise(351, NO_SUCH_ALGORITHM, names_no_algorithm),
    otherwise(367, SAME_AS_VALID, is_the_same_as_a_valid_one),
    otherwise(370, SAME_AS_VALID, is_the_same_as_a_valid_one),
    otherwise(372, NO_BASE64URL, has_a_stray_character),
    otherwise(373, NO_BASE64URL, has_a_stray_character),
];

const OF_ANOTHER_ALGORITHM: &str = "labelled valid and refused: the token is of PS384, and its key names PS256. A \
     key is for the one algorithm that it names (RFC 7517, section 4.4; RFC 8725, section 3.1)";

const NO_SUCH_ALGORITHM: &str = "labelled valid and refused: its key names ES521, which is no algorithm (RFC \
     7518, section 3.1; P-521 with SHA-512 is ES512, section 3.4). A key is for the algorithm that it names (RFC \
     7517, section 4.4), and one that is not understood is passed over (section 5)";

const SAME_AS_VALID: &str = "labelled invalid and accepted: it is, byte for byte and under the same key, the \
     token of a case that is labelled valid, and as RFC 7515, section 5.2, asks; of the wrong padding that its \
     comment speaks of there is nothing in it";

const NO_BASE64URL: &str = "labelled valid and refused: a `?` stands in the middle of a part. Base64url has no \
     such character, and none that would be passed over (RFC 7515, section 2; RFC 4648, section 3.3): one token \
     would have many spellings";

const fn otherwise(case: u32, why: &'static str, is_so: fn(&Group, &Case) -> bool) -> Otherwise {
    Otherwise { case, why, is_so }
}

fn names_another_algorithm(group: &Group, case: &Case) -> bool {
    let token = Token::parse(&case.jws, 1 << 20).unwrap();
    group.jwk()["alg"] == "PS256" && token.algorithm() == "PS384"
}

fn names_no_algorithm(group: &Group, _: &Case) -> bool {
    group.jwk()["alg"] == "ES521" && group.jwk()["crv"] == "P-521"
}

fn is_the_same_as_a_valid_one(group: &Group, case: &Case) -> bool {
    group.has_valid(&case.jws)
}

fn has_a_stray_character(group: &Group, case: &Case) -> bool {
    case.jws.contains('?') && group.has_valid(&case.jws.replace('?', ""))
}

impl Group {
    fn jwk(&self) -> &serde_json::Value {
        self.public.as_ref().or(self.private.as_ref()).unwrap()
    }

    fn has_valid(&self, jws: &str) -> bool {
        let same = |case: &Case| case.result == "valid" && case.jws == jws;
        self.tests.iter().any(same)
    }
}

/// What the vectors' key set says, with the algorithms that this server accepts.
fn key(group: &Group) -> Option<VerifyKey> {
    let jwk = group.jwk();
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
    let (mut seen, mut otherwise) = (0, 0);
    for group in &file.test_groups {
        let key = key(group);
        for case in &group.tests {
            seen += 1;
            let ours = accepted(case, key.as_ref());
            let valid = case.result == "valid";
            match OTHERWISE.iter().find(|entry| entry.case == case.tc_id) {
                None => assert_eq!(ours, valid, "case {}: {}", case.tc_id, case.comment),
                Some(Otherwise {
                    case: id,
                    why,
                    is_so,
                }) => {
                    otherwise += 1;
                    assert_ne!(ours, valid, "case {id} is answered as labelled");
                    assert!(
                        is_so(group, case),
                        "case {id} is not what is said of it: {why}"
                    );
                }
            }
        }
    }
    assert_eq!((seen, otherwise), (file.number_of_tests, OTHERWISE.len()));
    assert_eq!(seen, 401);
}
