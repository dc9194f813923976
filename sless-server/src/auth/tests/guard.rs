//! The check in front of the routes, through HTTP.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    http::{Request, Response, header::WWW_AUTHENTICATE},
    middleware::from_fn_with_state,
    routing::get,
};
use tower::ServiceExt;

use super::*;

struct Site {
    router: Router,
    key: Hs256Key,
    _folder: tempfile::TempDir,
}

fn site() -> Site {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let key = Hs256Key::load_or_create(&path).unwrap();
    let mode = AuthMode::Hs256(Hs256Key::load_or_create(&path).unwrap());
    let authenticator = Arc::new(Authenticator::new(mode, ["root".to_owned()]));
    let who = |principal: Principal| async move { principal.sub };
    let router = Router::new()
        .route("/v1/namespaces/{ns}/x", get(who))
        .route_layer(from_fn_with_state(authenticator, guard))
        .route("/open", get(who));
    Site {
        router,
        key,
        _folder: folder,
    }
}

impl Site {
    async fn get(&self, path: &str, fields: &[&str]) -> Response<Body> {
        let mut request = Request::get(path);
        for field in fields {
            request = request.header("authorization", *field);
        }
        let request = request.body(Body::empty()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    fn token(&self, sub: &str) -> String {
        let ttl = Duration::from_secs(60);
        format!(
            "Bearer {}",
            self.key.mint(sub, ttl, Timestamp::now()).unwrap()
        )
    }
}

fn path(sub: &str) -> String {
    format!("/v1/namespaces/{}/x", Namespace::of_subject(sub))
}

async fn text(response: Response<Body>) -> String {
    let body = axum::body::to_bytes(response.into_body(), 10_000)
        .await
        .unwrap();
    String::from_utf8(body.into()).unwrap()
}

#[tokio::test]
async fn the_owner_and_an_admin_come_in() {
    let site = site();
    for sub in ["alice", "root"] {
        let response = site.get(&path("alice"), &[&site.token(sub)]).await;
        assert_eq!(response.status(), 200);
        assert_eq!(text(response).await, sub);
    }
}

#[tokio::test]
async fn another_users_namespace_is_403() {
    let site = site();
    let response = site.get(&path("bob"), &[&site.token("alice")]).await;
    assert_eq!(response.status(), 403);
    let challenge = response.headers()[WWW_AUTHENTICATE].to_str().unwrap();
    assert!(
        challenge.contains("error=\"insufficient_scope\""),
        "{challenge}"
    );
    assert!(
        text(response)
            .await
            .contains("\"code\":\"namespace_denied\"")
    );
}

#[tokio::test]
async fn an_encoded_namespace_is_the_decoded_one() {
    let site = site();
    let own = Namespace::of_subject("alice")
        .to_string()
        .replace("sless", "%73less");
    let response = site
        .get(&format!("/v1/namespaces/{own}/x"), &[&site.token("alice")])
        .await;
    assert_eq!(response.status(), 200);
}

#[tokio::test]
async fn no_token_is_401_without_an_error_word() {
    let response = site().get(&path("alice"), &[]).await;
    assert_eq!(response.status(), 401);
    let challenge = response.headers()[WWW_AUTHENTICATE].to_str().unwrap();
    assert_eq!(challenge, "Bearer realm=\"sless\"");
    assert!(text(response).await.contains("\"code\":\"token_missing\""));
}

#[tokio::test]
async fn a_wrong_field_is_401_with_a_word() {
    let site = site();
    let right = site.token("alice");
    let cases: &[(&[&str], &str)] = &[
        (&["Basic YTpi"], "token_request"),
        (&["Bearer"], "token_request"),
        (&[&right, &right], "token_request"),
        (&["Bearer "], "token_malformed"),
        (&["Bearer a b"], "token_malformed"),
        (&["Bearer \u{e9}"], "token_request"),
    ];
    for (fields, word) in cases {
        let response = site.get(&path("alice"), fields).await;
        assert_eq!(response.status(), 401, "{fields:?}");
        let challenge = response.headers()[WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.contains("error=\"invalid_"), "{challenge}");
        let body = text(response).await;
        assert!(
            body.contains(&format!("\"code\":\"{word}\"")),
            "{fields:?}: {body}"
        );
    }
}

#[tokio::test]
async fn the_scheme_is_read_in_any_case() {
    let site = site();
    let token = site.token("alice").replace("Bearer", "bEARER");
    assert_eq!(site.get(&path("alice"), &[&token]).await.status(), 200);
}

#[tokio::test]
async fn a_route_that_was_left_unguarded_lets_nobody_in() {
    let site = site();
    assert_eq!(
        site.get("/open", &[&site.token("root")]).await.status(),
        401
    );
}
