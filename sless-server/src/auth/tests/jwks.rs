//! Keys that are fetched, against a server whose answer the test changes.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, http::StatusCode, response::IntoResponse, routing::get};
use serde_json::json;

use super::{
    maker::{EcKey, RsaKey},
    *,
};

/// A server of key sets that counts how often it is asked.
struct Provider {
    url: String,
    state: Arc<State>,
}

struct State {
    answer: Mutex<(StatusCode, String)>,
    asked: AtomicUsize,
}

impl Provider {
    async fn start(keys: &[serde_json::Value]) -> Self {
        let state = Arc::new(State {
            answer: Mutex::default(),
            asked: AtomicUsize::new(0),
        });
        let served = state.clone();
        let answer = move || {
            let served = served.clone();
            async move {
                served.asked.fetch_add(1, Ordering::SeqCst);
                served.answer.lock().unwrap().clone().into_response()
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let router = Router::new().route("/keys", get(answer));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let provider = Self { url, state };
        provider.serve(keys);
        provider
    }

    fn serve(&self, keys: &[serde_json::Value]) {
        self.answer(StatusCode::OK, &json!({ "keys": keys }).to_string());
    }

    fn answer(&self, status: StatusCode, body: &str) {
        *self.state.answer.lock().unwrap() = (status, body.to_owned());
    }

    fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    fn config(&self) -> JwksConfig {
        JwksConfig::new(&self.url)
    }
}

fn authenticator(config: JwksConfig) -> Authenticator {
    Authenticator::new(AuthMode::Jwks(Jwks::new(config).unwrap()), [])
}

fn claims() -> String {
    format!(r#"{{"sub":"alice","exp":{}}}"#, now().as_second() + 60)
}

#[tokio::test]
async fn both_kinds_of_keys_let_in_and_are_fetched_once() {
    let (rsa, ec) = (RsaKey::new("r"), EcKey::new("e"));
    let provider = Provider::start(&[rsa.jwk(), ec.jwk()]).await;
    let authenticator = authenticator(provider.config());
    authenticator.prepare().await;
    for _ in 0..3 {
        for token in [rsa.token(&claims()), ec.token(&claims())] {
            let principal = authenticator.authenticate(&token, now()).await.unwrap();
            assert_eq!(principal.sub, "alice");
        }
    }
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn an_rsa_key_is_for_the_algorithm_that_it_names() {
    const ALGORITHMS: [&str; 6] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];
    let key = RsaKey::new("r");
    for named in ALGORITHMS {
        let provider = Provider::start(&[key.jwk_for(named)]).await;
        let authenticator = authenticator(provider.config());
        for algorithm in ALGORITHMS {
            let token = key.token_for(algorithm, &claims());
            let answer = authenticator.authenticate(&token, now()).await;
            if algorithm == named {
                assert_eq!(answer.unwrap().sub, "alice", "{named}");
            } else {
                assert_eq!(code(answer), "token_algorithm", "{algorithm} under {named}");
            }
        }
    }
}

#[tokio::test]
async fn a_public_key_is_no_shared_secret() {
    let rsa = RsaKey::new("r");
    let provider = Provider::start(&[rsa.jwk()]).await;
    let authenticator = authenticator(provider.config());
    let jwk = rsa.jwk().to_string().into_bytes();
    for secret in [rsa.public_der(), rsa.modulus(), jwk] {
        for alg in ["HS256", "none", "RS512", "PS256", "ES256"] {
            let header = json!({"alg": alg, "kid": "r"}).to_string();
            let token = maker::signed(&header, &claims(), |message| {
                maker::hmac_sha256(&secret, message)
            });
            assert_eq!(
                code(authenticator.authenticate(&token, now()).await),
                "token_algorithm"
            );
        }
        let header = r#"{"alg":"RS256","kid":"r"}"#;
        let token = maker::signed(header, &claims(), |message| {
            maker::hmac_sha256(&secret, message)
        });
        assert_eq!(
            code(authenticator.authenticate(&token, now()).await),
            "token_signature"
        );
    }
}

#[tokio::test]
async fn a_key_that_the_token_brings_along_is_not_used() {
    let (known, own) = (EcKey::new("k"), EcKey::new("k"));
    let provider = Provider::start(&[known.jwk()]).await;
    let authenticator = authenticator(provider.config());
    assert_eq!(
        code(
            authenticator
                .authenticate(&own.token(&claims()), now())
                .await
        ),
        "token_signature"
    );
}

#[tokio::test]
async fn a_new_key_is_fetched_when_it_is_first_seen() {
    let (old, new) = (EcKey::new("old"), EcKey::new("new"));
    let provider = Provider::start(&[old.jwk()]).await;
    let mut config = provider.config();
    config.min_interval = Duration::ZERO;
    let authenticator = authenticator(config);
    authenticator
        .authenticate(&old.token(&claims()), now())
        .await
        .unwrap();
    provider.serve(&[new.jwk()]);
    authenticator
        .authenticate(&new.token(&claims()), now())
        .await
        .unwrap();
    // What the provider took back opens nothing any more.
    let refused = authenticator
        .authenticate(&old.token(&claims()), now())
        .await;
    assert_eq!(code(refused), "token_unknown_key");
}

#[tokio::test]
async fn made_up_key_ids_do_not_make_us_fetch() {
    let key = EcKey::new("k");
    let provider = Provider::start(&[key.jwk()]).await;
    let authenticator = Arc::new(authenticator(provider.config()));
    authenticator.prepare().await;
    let calls = (0..50).map(|number| {
        let authenticator = authenticator.clone();
        async move {
            let token = EcKey::new(&format!("made-up-{number}")).token(&claims());
            assert_eq!(
                code(authenticator.authenticate(&token, now()).await),
                "token_unknown_key"
            );
        }
    });
    futures::future::join_all(calls).await;
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn many_tokens_at_a_cold_start_share_one_fetch() {
    let key = EcKey::new("k");
    let provider = Provider::start(&[key.jwk()]).await;
    let authenticator = authenticator(provider.config());
    let token = key.token(&claims());
    let calls = (0..20).map(|_| authenticator.authenticate(&token, now()));
    for result in futures::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(provider.asked(), 1);
}

#[tokio::test]
async fn old_keys_go_on_where_new_ones_cannot_be_had() {
    let key = EcKey::new("k");
    let provider = Provider::start(&[key.jwk()]).await;
    let mut config = provider.config();
    config.refresh = Duration::ZERO;
    config.min_interval = Duration::ZERO;
    let authenticator = authenticator(config);
    let token = key.token(&claims());
    authenticator.authenticate(&token, now()).await.unwrap();
    for (status, body) in [
        (StatusCode::INTERNAL_SERVER_ERROR, ""),
        (StatusCode::OK, "<html>"),
        (StatusCode::OK, r#"{"keys":[]}"#),
        (StatusCode::FOUND, ""),
    ] {
        provider.answer(status, body);
        let asked = provider.asked();
        authenticator.authenticate(&token, now()).await.unwrap();
        assert_eq!(provider.asked(), asked + 1, "it was tried");
    }
}

#[tokio::test]
async fn keys_that_are_too_old_are_not_believed() {
    let key = EcKey::new("k");
    let provider = Provider::start(&[key.jwk()]).await;
    let mut config = provider.config();
    config.refresh = Duration::ZERO;
    config.stale_for = Duration::ZERO;
    config.min_interval = Duration::ZERO;
    let authenticator = authenticator(config);
    provider.answer(StatusCode::INTERNAL_SERVER_ERROR, "");
    let error = authenticator
        .authenticate(&key.token(&claims()), now())
        .await
        .unwrap_err();
    assert_eq!(error, AuthError::KeysUnavailable);
    assert_eq!(error.status(), 503);
}

#[tokio::test]
async fn an_answer_above_a_limit_is_refused() {
    let key = EcKey::new("k");
    let provider = Provider::start(&[key.jwk()]).await;
    let mut config = provider.config();
    config.max_bytes = 20;
    let error = authenticator(config)
        .authenticate(&key.token(&claims()), now())
        .await;
    assert_eq!(error.unwrap_err(), AuthError::KeysUnavailable);
    let mut config = provider.config();
    config.max_keys = 0;
    let error = authenticator(config)
        .authenticate(&key.token(&claims()), now())
        .await;
    assert_eq!(error.unwrap_err(), AuthError::KeysUnavailable);
}

#[tokio::test]
async fn a_token_names_its_key() {
    let key = EcKey::new("k");
    let provider = Provider::start(&[key.jwk()]).await;
    let token = maker::assemble(r#"{"alg":"ES256"}"#, &claims(), b"x");
    let refused = authenticator(provider.config())
        .authenticate(&token, now())
        .await;
    assert_eq!(code(refused), "token_unknown_key");
    assert_eq!(provider.asked(), 0);
}

#[test]
fn keys_that_are_not_for_us_are_passed_over() {
    let ec = EcKey::new("k");
    let with = |name: &str, value: serde_json::Value| {
        let mut jwk = ec.jwk();
        jwk[name] = value;
        jwk
    };
    let useless = [
        with("use", json!("enc")),
        with("key_ops", json!(["encrypt"])),
        with("alg", json!("ES384")),
        with("crv", json!("P-384")),
        with("crv", json!("secp256k1")),
        with("kty", json!("future")),
        json!({"kty": "oct", "k": "c2VjcmV0", "kid": "k", "alg": "HS256"}),
        json!("not a key"),
    ];
    for jwk in &useless {
        let set = json!({ "keys": [jwk] }).to_string();
        assert!(KeySet::parse(set.as_bytes(), 10).is_err(), "{jwk}");
        let set = json!({ "keys": [jwk, ec.jwk()] }).to_string();
        assert_eq!(KeySet::parse(set.as_bytes(), 10).unwrap().len(), 1, "{jwk}");
    }
}
