//! Uploads, sources, logs and the invocation log.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use sless_api::{
    FunctionPhase, InvocationOrigin, InvocationsQuery, LogQuery, LogSource, VerdictOutcome,
    client::Content,
};
use sless_core::{Verdict, memory::MemoryValidator};

use crate::support::{Answer, Server, refused, until, zip};

const CODE: &[(&str, &str)] = &[
    ("handler.py", "def handle(event):\n    return 1\n"),
    ("lib/util.py", "X = 1\n"),
];

async fn created() -> Server {
    let server = Server::start_ensured().await;
    let body = r#"{"name": "hello", "runtime": "python3.11"}"#;
    assert_eq!(
        server.ask_json("POST", "/functions", body).await.status,
        201
    );
    server
}

#[tokio::test]
async fn an_upload_answers_202_with_the_digest_and_the_function_becomes_ready() {
    let server = created().await;
    let (client, namespace) = (&server.client, &server.namespace);
    let first = client
        .upload(namespace, "hello", Content::bytes(zip(CODE)))
        .await
        .unwrap();
    assert_eq!(first.code_sha256.len(), 64);
    assert_eq!(first.verdict.outcome, VerdictOutcome::Skipped);
    assert!(
        first
            .s3_key
            .starts_with(&format!("contexts/{namespace}/hello/")),
        "{first:?}"
    );
    until("ready", async || {
        client.function(namespace, "hello").await.unwrap().phase == FunctionPhase::Ready
    })
    .await;
    let function = client.function(namespace, "hello").await.unwrap();
    assert_eq!(function.code_sha256, Some(first.code_sha256.clone()));
    let again = client
        .upload(namespace, "hello", Content::bytes(zip(CODE)))
        .await
        .unwrap();
    assert_eq!(
        again,
        sless_api::UploadResult {
            phase: FunctionPhase::Ready,
            ..first
        }
    );
}

#[tokio::test]
async fn a_form_with_a_file_is_the_same_upload() {
    let server = created().await;
    let token = server.token("alice");
    let send = async |field: &str| {
        let mut body = format!(
            "--X\r\ncontent-disposition: form-data; name=\"note\"\r\n\r\nhello\r\n--X\r\n\
             content-disposition: form-data; name=\"{field}\"; filename=\"a.zip\"\r\n\
             content-type: application/zip\r\n\r\n"
        )
        .into_bytes();
        body.extend(zip(CODE));
        body.extend(b"\r\n--X--\r\n");
        let mut request = format!(
            "POST /v1/namespaces/{}/functions/hello/upload HTTP/1.1\r\nhost: x\r\n\
             connection: close\r\nauthorization: Bearer {token}\r\n\
             content-type: multipart/form-data; boundary=X\r\ncontent-length: {}\r\n\r\n",
            server.namespace,
            body.len()
        )
        .into_bytes();
        request.extend(body);
        Answer::of(&server.exchange(request).await)
    };
    let form = send("file").await;
    assert_eq!(form.status, 202, "{form:?}");
    let raw = server
        .client
        .upload(&server.namespace, "hello", Content::bytes(zip(CODE)))
        .await;
    assert_eq!(form.json()["code_sha256"], raw.unwrap().code_sha256);
    let without = send("code").await;
    assert_eq!(
        (without.status, without.error().code.as_str()),
        (400, "form_invalid")
    );
}

#[tokio::test]
async fn a_large_form_is_held_to_the_limits_of_uploads_alone() {
    let server = created().await;
    let token = server.token("alice");
    // More than what forms may have by default, of characters that do not shrink much.
    let noise: String = std::iter::repeat_with(fastrand::alphanumeric)
        .take(3_000_000)
        .collect();
    let code = zip(&[
        ("handler.py", "def handle(event): return 1\n"),
        ("noise.txt", &noise),
    ]);
    assert!(code.len() > 2_097_152, "{}", code.len());
    let mut body = b"--X\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n".to_vec();
    body.extend(code);
    body.extend(b"\r\n--X--\r\n");
    let mut request = format!(
        "POST /v1/namespaces/{}/functions/hello/upload HTTP/1.1\r\nhost: x\r\n\
         connection: close\r\nauthorization: Bearer {token}\r\n\
         content-type: multipart/form-data; boundary=X\r\ncontent-length: {}\r\n\r\n",
        server.namespace,
        body.len()
    )
    .into_bytes();
    request.extend(body);
    let answer = Answer::of(&server.exchange(request).await);
    assert_eq!(answer.status, 202, "{answer:?}");
}

#[tokio::test]
async fn what_is_no_zip_is_refused_and_nothing_is_stored() {
    let server = created().await;
    for body in [&b""[..], b"not a zip", b"PK\x03\x04"] {
        let content = Content::bytes(body.to_vec());
        let upload = server
            .client
            .upload(&server.namespace, "hello", content)
            .await;
        assert_eq!(refused(upload).0, 400);
    }
    let nested = zip(&[("other.py", "")]);
    let upload = server
        .client
        .upload(&server.namespace, "hello", Content::bytes(nested))
        .await;
    assert_eq!(refused(upload).0, 400, "the entrypoint's file is missing");
    let source = server.client.source(&server.namespace, "hello").await;
    let refused = refused(source);
    assert_eq!((refused.0, refused.1.as_str()), (404, "no_code"));
    let absent = server
        .client
        .upload(&server.namespace, "absent", Content::bytes(zip(CODE)))
        .await;
    assert_eq!(crate::support::refused(absent).0, 404);
}

#[tokio::test]
async fn a_zip_above_the_limit_is_413_naming_it() {
    let server = Server::start_with(&[("SLESS_MAX_ZIP_BYTES", "1KiB")], |_| {}).await;
    server.ensure().await;
    let body = r#"{"name": "hello", "runtime": "python3.11"}"#;
    server.ask_json("POST", "/functions", body).await;
    let stream = futures::stream::iter((0..10).map(|_| Ok(vec![b'x'; 1000].into())));
    for content in [Content::bytes(vec![b'x'; 5000]), Content::stream(stream)] {
        let upload = server
            .client
            .upload(&server.namespace, "hello", content)
            .await;
        let (status, code, _) = refused(upload);
        assert_eq!(status, 413);
        assert!(code.contains("zip_bytes"), "{code}");
    }
}

#[tokio::test]
async fn code_that_the_validator_refuses_is_400_with_its_reason() {
    let server = Server::start_with(&[], |backends| {
        let verdict = Verdict::Unsafe {
            reason: "it mines coins".to_owned(),
        };
        backends.validator = Arc::new(MemoryValidator::fixed(verdict));
    })
    .await;
    server.ensure().await;
    let body = r#"{"name": "hello", "runtime": "python3.11"}"#;
    server.ask_json("POST", "/functions", body).await;
    let upload = server
        .client
        .upload(&server.namespace, "hello", Content::bytes(zip(CODE)))
        .await;
    let (status, code, message) = refused(upload);
    assert_eq!((status, code.as_str()), (400, "code_validation_failed"));
    assert!(
        message.ends_with("code validation failed: it mines coins"),
        "{message}"
    );
    assert_eq!(
        server
            .client
            .function(&server.namespace, "hello")
            .await
            .unwrap()
            .s3_key,
        None
    );
}

#[tokio::test]
async fn the_source_comes_back_as_files_and_as_the_zip_itself() {
    let server = created().await;
    let bytes = zip(CODE);
    let content = Content::bytes(bytes.clone());
    server
        .client
        .upload(&server.namespace, "hello", content)
        .await
        .unwrap();
    let files = server
        .client
        .source(&server.namespace, "hello")
        .await
        .unwrap();
    let files: Vec<_> = files
        .iter()
        .map(|file| (file.name.as_str(), file.content.as_str()))
        .collect();
    assert_eq!(files, CODE);
    let zip = server
        .client
        .source_zip(&server.namespace, "hello")
        .await
        .unwrap();
    let pieces: Vec<_> = zip.try_collect().await.unwrap();
    assert_eq!(pieces.concat(), bytes);
}

#[tokio::test]
async fn logs_come_as_lines_of_json_or_text() {
    let server = Server::with_hello().await;
    server
        .ask("GET", &server.hello("/one"), &["x-request-id: call-1"])
        .await;
    let (client, namespace) = (&server.client, &server.namespace);
    let lines = client
        .logs(namespace, "hello", &LogQuery::default())
        .await
        .unwrap();
    let lines: Vec<_> = lines.try_collect().await.unwrap();
    let line = lines
        .iter()
        .find(|line| line.text == "called with /one")
        .expect("a line");
    assert_eq!(
        (line.source, line.request_id.as_deref()),
        (LogSource::Stdout, Some("call-1"))
    );
    let token = format!("authorization: Bearer {}", server.token("alice"));
    let path = format!("/v1/namespaces/{namespace}/functions/hello/logs?tail=1");
    let text = server.ask("GET", &path, &[&token]).await;
    assert!(text.value("content-type").starts_with("text/plain"));
    assert!(
        text.body.contains("stdout [call-1] called with /one"),
        "{text:?}"
    );
    let absent = client.logs(namespace, "absent", &LogQuery::default()).await;
    assert_eq!(refused(absent.map(|_| ())).0, 404);
}

#[tokio::test]
async fn a_log_that_is_followed_shows_lines_at_once() {
    let server = Server::with_hello().await;
    let query = LogQuery {
        follow: true,
        ..LogQuery::default()
    };
    let mut lines = server
        .client
        .logs(&server.namespace, "hello", &query)
        .await
        .unwrap();
    for path in ["/one", "/two"] {
        server.ask("GET", &server.hello(path), &[]).await;
        let wanted = format!("called with {path}");
        let seen = tokio::time::timeout(crate::support::DEADLINE, async {
            while let Some(line) = lines.next().await {
                if line.unwrap().text == wanted {
                    return true;
                }
            }
            false
        });
        assert!(seen.await.expect("in time"));
    }
}

#[tokio::test]
async fn calls_are_in_the_invocation_log() {
    let server = Server::with_hello().await;
    server
        .ask("GET", &server.hello("/one"), &["x-request-id: call-1"])
        .await;
    server
        .ask("GET", &server.hello("/418"), &["x-request-id: call-2"])
        .await;
    let query = InvocationsQuery::default();
    until("recorded", async || {
        let page = server
            .client
            .invocations(&server.namespace, "hello", &query)
            .await
            .unwrap();
        page.items.len() == 2
    })
    .await;
    let page = server
        .client
        .invocations(&server.namespace, "hello", &query)
        .await
        .unwrap();
    let last = &page.items[0];
    assert_eq!((last.request_id.as_str(), last.status), ("call-2", 418));
    assert_eq!(
        (last.origin, last.response_bytes),
        (InvocationOrigin::Http, 15)
    );
    // The test speaks from this machine.
    assert_eq!(last.caller.as_deref(), Some("127.0.0.1"));
    assert_eq!(last.request_bytes, 0);
    let asked = async |query: InvocationsQuery| {
        let page = server
            .client
            .invocations(&server.namespace, "hello", &query)
            .await
            .unwrap();
        let ids = page.items.into_iter().map(|call| call.request_id);
        ids.collect::<Vec<_>>()
    };
    let failed = InvocationsQuery {
        failed: true,
        ..Default::default()
    };
    assert_eq!(asked(failed).await, ["call-2"]);
    let by_cron = InvocationsQuery {
        origin: Some(InvocationOrigin::Cron),
        ..Default::default()
    };
    assert_eq!(asked(by_cron).await, [""; 0]);
    let since = InvocationsQuery {
        since: Some(last.started_at),
        ..Default::default()
    };
    assert_eq!(asked(since).await, ["call-2"]);
    let one = InvocationsQuery {
        limit: Some(1),
        ..Default::default()
    };
    let page = server
        .client
        .invocations(&server.namespace, "hello", &one)
        .await
        .unwrap();
    assert!(page.next.is_some());
}

#[tokio::test]
async fn without_an_invocation_log_it_is_501_with_a_reason() {
    let server = Server::start_with(&[], |backends| backends.invocations = None).await;
    server.ensure().await;
    server.deploy("hello").await;
    let asked = server
        .client
        .invocations(&server.namespace, "hello", &InvocationsQuery::default())
        .await;
    let (status, code, message) = refused(asked);
    assert_eq!((status, code.as_str()), (501, "not_configured"));
    assert!(message.contains("invocation log"), "{message}");
}
