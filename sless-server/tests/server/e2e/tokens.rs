//! Tokens through the whole server: let in is only who may, and nothing is a 500.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use sless_core::Namespace;

use super::machine::Machine;

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

#[tokio::test]
async fn no_forged_token_is_let_in_and_each_is_told_with_a_word() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let text = std::fs::read_to_string(data.path().join("hs256.key")).unwrap();
    let text = text.trim();
    let secret: Vec<u8> = (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    let sign = |header: Header, claims: &Value| {
        jsonwebtoken::encode(&header, claims, &EncodingKey::from_secret(&secret).unwrap()).unwrap()
    };
    let now = jiff::Timestamp::now().as_second();
    let good = json!({ "sub": "alice", "exp": now + 600 });
    let hs256 = || Header::new(Algorithm::HS256);
    let right = sign(hs256(), &good);
    let none = |name: &str| format!("{}.{}.", part(&json!({ "alg": name })), part(&good));
    let other_secret = jsonwebtoken::encode(
        &hs256(),
        &good,
        &EncodingKey::from_secret(&[7; 32]).unwrap(),
    )
    .unwrap();
    let mut broken = right.clone();
    broken.truncate(right.rfind('.').unwrap());

    let ask = async |namespace: &str, token: &str| {
        let request = format!(
            "GET /v1/namespaces/{namespace}/functions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\n\r\n"
        );
        let answer = machine.exchange(request).await;
        let status: u16 = answer[9..12].parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    };
    assert_eq!(ask(&machine.namespace, &right).await.0, 200, "a right one");
    for (what, token) in [
        ("alg none", none("none")),
        ("alg None", none("None")),
        ("no signature", format!("{broken}.")),
        ("two dots short", right.replace('.', "")),
        ("one dot short", broken.clone()),
        ("another secret", other_secret),
        ("HS512", sign(Header::new(Algorithm::HS512), &good)),
        ("no exp", sign(hs256(), &json!({ "sub": "alice" }))),
        (
            "exp as text",
            sign(
                hs256(),
                &json!({ "sub": "alice", "exp": (now + 600).to_string() }),
            ),
        ),
        (
            "a huge exp",
            sign(hs256(), &json!({ "sub": "alice", "exp": 1e300 })),
        ),
        (
            "expired",
            sign(hs256(), &json!({ "sub": "alice", "exp": now - 600 })),
        ),
        ("no sub", sign(hs256(), &json!({ "exp": now + 600 }))),
        (
            "sub as number",
            sign(hs256(), &json!({ "sub": 1, "exp": now + 600 })),
        ),
        ("empty", String::new()),
        ("no base64", "ä.ö.ü".to_owned()),
        ("long", "a".repeat(40_000)),
    ] {
        let (status, body) = ask(&machine.namespace, &token).await;
        assert!(matches!(status, 400 | 401 | 403), "{what}: {status} {body}");
        let body: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{what}: {body}"));
        assert!(
            body["code"].as_str().is_some_and(|code| !code.is_empty()),
            "{what}: {body}"
        );
        assert!(!body.to_string().contains(&right), "{what}");
    }
    let other = Namespace::of_subject("bob");
    let (status, body) = ask(other.as_str(), &right).await;
    assert_eq!(status, 403, "another user's namespace: {body}");

    // Larger than any head may be: refused before it is read as a whole.
    let request = format!(
        "GET /v1/namespaces/{} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ",
        machine.namespace
    );
    let mut stream = machine.connect().await;
    let huge = [
        request.into_bytes(),
        vec![b'a'; 1 << 20],
        b"\r\n\r\n".to_vec(),
    ]
    .concat();
    // The server may close before it was given everything.
    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &huge).await;
    let mut answer = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );
    assert_eq!(ask(&machine.namespace, &right).await.0, 200, "it goes on");
    machine.stop().await;
}
