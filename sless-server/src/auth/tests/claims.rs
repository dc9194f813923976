//! What a token says.

use serde_json::{Value, json};

use super::*;

fn check(claims: Value) -> Result<String, AuthError> {
    super::super::claims::check(
        claims.to_string().as_bytes(),
        now(),
        &TokenLimits::default(),
    )
    .map(|(sub, _)| sub)
}

fn at(seconds: i64) -> i64 {
    now().as_second() + seconds
}

#[test]
fn a_subject_and_an_expiry_are_enough() {
    assert_eq!(check(json!({"sub": "a", "exp": at(1)})).unwrap(), "a");
    assert_eq!(
        check(json!({"sub": "a", "exp": at(1) as f64 + 0.5})).unwrap(),
        "a"
    );
}

#[test]
fn an_expiry_is_a_time_ahead_of_us() {
    for exp in [at(0), at(-1), 0] {
        let error = check(json!({"sub": "a", "exp": exp})).unwrap_err();
        assert_eq!(error, AuthError::Expired, "{exp}");
    }
    let wrong = [
        json!(null),
        json!("1893456000"),
        json!(true),
        json!([1]),
        json!(-1),
        json!(-0.5),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MAX),
        // Milliseconds in place of seconds.
        json!(at(60) * 1000),
    ];
    for exp in wrong {
        let error = check(json!({"sub": "a", "exp": exp})).unwrap_err();
        assert_eq!(error.code(), "token_claim", "{exp}");
    }
    assert_eq!(
        check(json!({"sub": "a"})).unwrap_err().code(),
        "token_claim"
    );
}

#[test]
fn a_subject_is_text() {
    let long = "a".repeat(TokenLimits::default().subject_bytes + 1);
    for sub in [json!(null), json!(""), json!(7), json!(["a"]), json!(long)] {
        let error = check(json!({"sub": sub, "exp": at(60)})).unwrap_err();
        assert_eq!(error.code(), "token_claim", "{sub}");
    }
    assert_eq!(
        check(json!({"exp": at(60)})).unwrap_err().code(),
        "token_claim"
    );
}

#[test]
fn a_token_begins_when_it_says() {
    let begins = |nbf: Value| check(json!({"sub": "a", "exp": at(600), "nbf": nbf}));
    assert!(begins(json!(at(-60))).is_ok());
    assert!(begins(json!(at(30))).is_ok(), "within the skew of clocks");
    assert_eq!(begins(json!(at(31))).unwrap_err(), AuthError::NotYetValid);
    for nbf in [json!("1"), json!(null), json!(-1), json!(1e300)] {
        assert_eq!(begins(nbf).unwrap_err().code(), "token_claim");
    }
}

#[test]
fn a_claim_that_is_there_twice_is_refused() {
    let claims = format!(r#"{{"sub":"a","sub":"b","exp":{}}}"#, at(60));
    let checked = super::super::claims::check(claims.as_bytes(), now(), &TokenLimits::default());
    assert_eq!(checked.unwrap_err().code(), "token_malformed");
}
