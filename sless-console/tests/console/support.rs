//! A console on backends in memory, and ways to ask it.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use sless_console::{Console, ConsoleConfig, Gate, Identity, Refusal, SessionKey};
use sless_core::{
    Backends, Body as CallBody, CatalogExt, Deploy, FunctionSpec, Metadata, Name, Namespace,
    Runtime, Sless, Trigger, TriggerSpec, memory::MemoryScheduler,
};
use tower::ServiceExt as _;

pub(crate) const ADDRESS: &str = "http://console.test";
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Tokens are `good:SUBJECT`.
#[derive(Debug)]
pub(crate) struct Words;

#[async_trait]
impl Gate for Words {
    async fn check(&self, token: &str) -> Result<Identity, Refusal> {
        let subject = token.strip_prefix("good:").ok_or_else(|| Refusal {
            status: StatusCode::UNAUTHORIZED,
            code: "token_signature",
            message: "the token's signature does not fit".to_owned(),
        })?;
        Ok(Identity {
            subject: subject.to_owned(),
            expires_at: Timestamp::now() + SignedDuration::from_hours(1),
        })
    }

    fn home(&self, subject: &str) -> Namespace {
        Namespace::of_subject(subject)
    }

    fn opens(&self, subject: &str, namespace: &Namespace) -> bool {
        self.home(subject) == *namespace || subject == "root"
    }
}

pub(crate) struct World {
    pub(crate) sless: Sless,
    pub(crate) console: Console,
    pub(crate) namespace: Namespace,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}, |_| {}).await
    }

    pub(crate) async fn with(
        backends: impl FnOnce(&mut Backends),
        config: impl FnOnce(&mut ConsoleConfig),
    ) -> Self {
        let mut given = Backends::in_memory();
        let scheduler = MemoryScheduler::new(given.clock.clone()).with_handler(
            "handler.handle",
            |request: http::Request<CallBody>, context| async move {
                context.log("<b>called</b> \u{1b}[31m");
                let said = format!("{} {}", request.method(), request.uri());
                let body = request.into_body().bytes(1 << 20).await.unwrap();
                let mut answer = said.into_bytes();
                answer.extend_from_slice(b"\n");
                answer.extend_from_slice(&body);
                Ok(http::Response::builder()
                    .status(201)
                    .header("x-markup", "<i>")
                    .body(CallBody::from_stream(sless_core::bytes_stream(answer)))
                    .unwrap())
            },
        );
        let scheduler = scheduler.with_handler("handler.fail", |_, _| async {
            Ok(http::Response::builder()
                .status(500)
                .body(CallBody::empty())
                .unwrap())
        });
        given.scheduler = Arc::new(scheduler);
        backends(&mut given);
        let sless = Sless::new(given).unwrap();
        let mut settings = ConsoleConfig::new(ADDRESS);
        config(&mut settings);
        let console = Console::new(
            sless.clone(),
            Arc::new(Words),
            SessionKey::new([1; 32]),
            settings,
        );
        let namespace = Namespace::of_subject("alice");
        sless.ensure_namespace(&namespace).await.unwrap();
        Self {
            sless,
            console,
            namespace,
        }
    }

    pub(crate) async fn deploy(&self, name: &str, files: &[(&str, &str)]) {
        let files = files
            .iter()
            .map(|(path, text)| (path.to_string(), text.to_string()));
        let name = Name::new(name).unwrap();
        let mut spec = FunctionSpec::new(Runtime::Python311);
        if name.as_str() == "failing" {
            spec.entrypoint = "handler.fail".parse().unwrap();
        }
        let deploy = Deploy::files(self.namespace.clone(), name, spec, files).unwrap();
        self.sless.deploy(deploy).await.unwrap();
    }

    pub(crate) async fn hello(&self) {
        self.deploy(
            "hello",
            &[("handler.py", "def handle(event):\n    return 1\n")],
        )
        .await;
    }

    pub(crate) async fn trigger(&self, name: &str, spec: TriggerSpec) {
        let metadata = Metadata::new(self.namespace.clone(), Name::new(name).unwrap());
        let trigger = Trigger::new(metadata, spec);
        self.sless.backends().catalog.add(trigger).await.unwrap();
    }

    /// A path of alice's namespace.
    pub(crate) fn path(&self, below: &str) -> String {
        format!("/funcs/{}{below}", self.namespace)
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        let response = self.console.router().oneshot(ask.0).await.unwrap();
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(DEADLINE, body.collect())
            .await
            .expect("an end");
        let body = body.unwrap().to_bytes().to_vec();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// A page for a person who is signed in as alice.
    pub(crate) async fn page(&self, below: &str) -> Answer {
        self.ask(
            Ask::get(&self.path(below))
                .html()
                .session(&self.session("alice").await),
        )
        .await
    }

    /// The cookie of somebody who has signed in.
    pub(crate) async fn session(&self, subject: &str) -> String {
        let form = format!("token=good:{subject}&next=%2Ffuncs");
        let answer = self.ask(Ask::form("/funcs/_sign-in", &form).html()).await;
        assert_eq!(answer.status, 303, "{}", answer.body);
        let field = answer.value("set-cookie");
        field.split(';').next().unwrap().to_owned()
    }

    /// A form that alice sends from the console.
    pub(crate) async fn send(&self, below: &str, form: &str) -> Answer {
        let session = self.session("alice").await;
        self.ask(Ask::form(&self.path(below), form).html().session(&session))
            .await
    }
}

/// A request.
pub(crate) struct Ask(pub(crate) Request<Body>);

impl Ask {
    pub(crate) fn of(method: &str, path: &str, body: impl Into<Body>) -> Self {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "console.test");
        Self(request.body(body.into()).unwrap())
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::of("GET", path, "")
    }

    /// As a browser sends a form of this origin.
    pub(crate) fn form(path: &str, form: &str) -> Self {
        Self::of("POST", path, form.to_owned())
            .with("content-type", "application/x-www-form-urlencoded")
            .with("origin", ADDRESS)
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.headers_mut().insert(name, value.parse().unwrap());
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.0.headers_mut().remove(name);
        self
    }

    pub(crate) fn html(self) -> Self {
        self.with("accept", "text/html")
    }

    pub(crate) fn session(self, cookie: &str) -> Self {
        self.with("cookie", cookie)
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn value(&self, name: &str) -> &str {
        let value = self
            .headers
            .get(name)
            .unwrap_or_else(|| panic!("{name} in {self:?}"));
        value.to_str().unwrap()
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        self.body.contains(text)
    }
}

/// A form with files, as a browser writes it (RFC 7578).
pub(crate) fn multipart(fields: &[(&str, &str)], zip: &[u8]) -> (String, Vec<u8>) {
    const BOUNDARY: &str = "boundary-of-the-test";
    let mut text = String::new();
    for (name, value) in fields {
        let _ = write!(
            text,
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    let _ = write!(
        text,
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.zip\"\r\n\
         content-type: application/zip\r\n\r\n"
    );
    let mut body = text.into_bytes();
    body.extend_from_slice(zip);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={BOUNDARY}"), body)
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited
        .await
        .unwrap_or_else(|_| panic!("not {what} in time"));
}
