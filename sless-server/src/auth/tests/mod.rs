//! Tests of the token check.

#![allow(clippy::unwrap_used)]

mod claims;
mod guard;
mod hs256;
mod jwks;
mod maker;
mod vectors;

use jiff::Timestamp;
use proptest::prelude::*;

use super::{token::Token, *};

/// The time at which the tests check tokens.
fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn structural() -> Authenticator {
    Authenticator::new(AuthMode::Structural, ["root".to_owned()])
}

fn code(result: Result<Principal, AuthError>) -> &'static str {
    let error = result.expect_err("refused");
    assert_eq!(error.status(), 401, "{error}");
    error.code()
}

#[tokio::test]
async fn the_structural_mode_checks_shape_and_expiry() {
    let exp = now().as_second() + 60;
    let claims = format!(r#"{{"sub":"alice","exp":{exp}}}"#);
    let token = maker::assemble(r#"{"alg":"RS256"}"#, &claims, b"anything");
    let principal = structural().authenticate(&token, now()).await.unwrap();
    assert_eq!(principal.namespace.as_str(), "sless-2bd806c97f0e00af");
    assert!(!principal.admin);
    for alg in ["none", "None", "", "nOnE", "XX999"] {
        let header = format!(r#"{{"alg":"{alg}"}}"#);
        let token = maker::assemble(&header, &claims, b"anything");
        assert_eq!(
            code(structural().authenticate(&token, now()).await),
            "token_algorithm"
        );
    }
}

#[tokio::test]
async fn a_token_opens_its_own_namespace_and_an_admin_all() {
    let token = |sub: &str| {
        let claims = format!(r#"{{"sub":"{sub}","exp":{}}}"#, now().as_second() + 60);
        maker::assemble(r#"{"alg":"RS256"}"#, &claims, b"anything")
    };
    let alice = structural()
        .authenticate(&token("alice"), now())
        .await
        .unwrap();
    let root = structural()
        .authenticate(&token("root"), now())
        .await
        .unwrap();
    let own = alice.namespace.as_str();
    assert_eq!(alice.may_open(own), Ok(()));
    assert_eq!(
        alice.may_open("sless-0000000000000000"),
        Err(AuthError::OtherNamespace)
    );
    assert_eq!(
        alice.may_open(&own.to_uppercase()),
        Err(AuthError::OtherNamespace)
    );
    assert_eq!(root.may_open("sless-0000000000000000"), Ok(()));
}

#[test]
fn a_token_has_one_shape() {
    let token = maker::assemble(r#"{"alg":"RS256"}"#, "{}", b"x");
    assert!(Token::parse(&token, 1000).is_ok());
    let two_dots_short = token.replace('.', "");
    let wrong = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        two_dots_short,
        format!("{token}.x"),
        format!(" {token}"),
        format!("{token}="),
        format!("{token}\n"),
        token[..token.rfind('.').unwrap() + 1].to_owned(),
        maker::assemble(r#"["RS256"]"#, "{}", b"x"),
        maker::assemble(r#"{"alg":1}"#, "{}", b"x"),
        maker::assemble(r#"{"alg":"RS256","alg":"none"}"#, "{}", b"x"),
        maker::assemble(r#"{"alg":"RS256","crit":["exp"],"exp":1}"#, "{}", b"x"),
        maker::assemble(r#"{"alg":"RS256","crit":null}"#, "{}", b"x"),
        maker::assemble(r#"{"alg":"RS256","kid":null}"#, "{}", b"x"),
        maker::assemble(r#"{"alg":"RS256","typ":null}"#, "{}", b"x"),
        maker::assemble(r#"{"alg":"RS256","typ":"logout+jwt"}"#, "{}", b"x"),
    ];
    for token in wrong {
        let error = Token::parse(&token, 1000).unwrap_err();
        assert_eq!(error.code(), "token_malformed", "{token}");
    }
}

#[test]
fn a_megabyte_is_refused_by_its_length() {
    let token = "a".repeat(1 << 20);
    let limit = TokenLimits::default().token_bytes;
    assert_eq!(
        Token::parse(&token, limit).unwrap_err(),
        AuthError::TooLarge(limit)
    );
}

fn check_anything(text: &str) {
    let authenticator = structural();
    let run = authenticator.authenticate(text, now());
    let error = futures::executor::block_on(run).expect_err("not a token");
    assert_eq!(error.status(), 401);
    let _ = axum::response::IntoResponse::into_response(error);
}

proptest! {
    #[test]
    fn no_text_panics_or_gets_in(text in ".{0,300}") {
        check_anything(&text);
    }

    #[test]
    fn no_three_parts_panic_or_get_in(
        header in "[A-Za-z0-9_=-]{0,80}",
        claims in "[A-Za-z0-9_=-]{0,80}",
        signature in "[A-Za-z0-9_=-]{0,80}",
    ) {
        check_anything(&format!("{header}.{claims}.{signature}"));
    }

    #[test]
    fn no_header_and_claims_panic(header in ".{0,80}", claims in ".{0,80}") {
        check_anything(&maker::assemble(&header, &claims, b"x"));
        check_anything(&maker::assemble(r#"{"alg":"RS256"}"#, &claims, b"x"));
    }
}
