//! A server on a port of its own, and ways to talk to it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use sless_api::{
    CreateFunction, Ensured, ErrorBody,
    client::{Client, ClientConfig, ClientError, Content},
};
use sless_core::{
    Backends, Namespace, Options, Sless,
    memory::MemoryScheduler,
    source::{SourceTree, pack},
};
use sless_server::{
    AppState, ServeConfig,
    auth::{AuthMode, Authenticator, Hs256Key},
    metrics::Metrics,
    routes, serve,
    settings::{Settings, Sources},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::proxy::handler;

/// How long anything in these tests may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) sless: Sless,
    pub(crate) state: AppState,
    /// Speaks for alice.
    pub(crate) client: Client,
    /// Alice's namespace.
    pub(crate) namespace: String,
    key: Hs256Key,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[], |_| {}).await
    }

    /// With these settings, and backends that were changed.
    pub(crate) async fn start_with(
        given: &[(&str, &str)],
        change: impl FnOnce(&mut Backends),
    ) -> Self {
        let environment = given
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let settings = Settings::load(&Sources::new(environment, None)).unwrap();
        let mut backends = Backends::in_memory();
        let scheduler = MemoryScheduler::new(backends.clock.clone())
            .with_handler("handler.handle", handler::handle);
        backends.scheduler = Arc::new(scheduler);
        change(&mut backends);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::new();
        let mut options = Options::default();
        options.external_url = format!("http://{address}");
        options.observer = Some(Arc::new(metrics.clone()));
        options.source_limits.zip_bytes = settings.limits.zip_bytes;
        let sless = Sless::with_options(backends, options).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = Hs256Key::load_or_create(&path).unwrap();
        let mode = AuthMode::Hs256(Hs256Key::load(&path).unwrap());
        let authenticator = Arc::new(Authenticator::new(mode, ["root".to_owned()]));
        let limits = settings.limits.clone();
        let state = AppState::new(sless.clone(), authenticator, limits, metrics.clone());
        let (stop, stopped) = oneshot::channel();
        let config = ServeConfig::new(&settings.limits, settings.drain_timeout);
        let routes = routes(state.clone());
        let draining = state.clone();
        let task = tokio::spawn(async move {
            let told = async move {
                let _ = stopped.await;
                draining.drain();
            };
            serve(listener, routes, &config, metrics, told)
                .await
                .unwrap();
        });
        let mut server = Self {
            address,
            sless,
            state,
            client: Client::new(ClientConfig::new("http://unused")).unwrap(),
            namespace: Namespace::of_subject("alice").to_string(),
            key,
            stop: Some(stop),
            task,
            _folder: folder,
        };
        server.client = server.client_of("alice");
        server
    }

    /// With alice's namespace.
    pub(crate) async fn start_ensured() -> Self {
        let server = Self::start().await;
        server.ensure().await;
        server
    }

    pub(crate) async fn ensure(&self) -> Ensured {
        self.client.ensure_namespace(&self.namespace).await.unwrap()
    }

    pub(crate) fn token(&self, sub: &str) -> String {
        self.key
            .mint(sub, Duration::from_secs(600), Timestamp::now())
            .unwrap()
    }

    pub(crate) fn client_of(&self, sub: &str) -> Client {
        let mut config = ClientConfig::new(format!("http://{}", self.address));
        config.max_retries = 0;
        Client::new(config.with_token(self.token(sub))).unwrap()
    }

    /// A function that is ready, with the handler of these tests.
    pub(crate) async fn deploy(&self, name: &str) {
        let function = CreateFunction {
            name: name.into(),
            runtime: "python3.11".into(),
            concurrency: Some(50),
            timeout_seconds: Some(10),
            ..CreateFunction::default()
        };
        self.client
            .create_function(&self.namespace, &function)
            .await
            .unwrap();
        let zip = Content::bytes(zip(&[("handler.py", "def handle(event): return event\n")]));
        self.client
            .upload(&self.namespace, name, zip)
            .await
            .unwrap();
        until("ready", async || {
            let function = self.client.function(&self.namespace, name).await.unwrap();
            function.phase == sless_api::FunctionPhase::Ready
        })
        .await;
    }

    /// A server with alice's namespace and a ready function `hello`.
    pub(crate) async fn with_hello() -> Self {
        let server = Self::start_ensured().await;
        server.deploy("hello").await;
        server
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends these bytes and reads until the server closes. Lines end as they stand.
    pub(crate) async fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_ref()).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut answer));
        read.await.expect("the server closes").unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A request with these lines behind the first, without a body, that asks to close.
    pub(crate) async fn ask(&self, method: &str, path: &str, lines: &[&str]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
        for line in lines {
            request.push_str(line);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        Answer::of(&self.exchange(request).await)
    }

    /// As [`ask`](Self::ask), with alice's token and a JSON body.
    pub(crate) async fn ask_json(&self, method: &str, path: &str, body: &str) -> Answer {
        let (token, length) = (self.token("alice"), body.len());
        let request = format!(
            "{method} /v1/namespaces/{}{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n{body}",
            self.namespace
        );
        Answer::of(&self.exchange(request).await)
    }

    /// The path of the function `hello` and below.
    pub(crate) fn hello(&self, tail: &str) -> String {
        format!("/fn/{}/hello{tail}", self.namespace)
    }

    pub(crate) fn tell_to_stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    pub(crate) async fn ended(self) {
        tokio::time::timeout(DEADLINE, self.task)
            .await
            .expect("it ends")
            .unwrap();
        self.sless.shutdown().await;
    }
}

/// An answer taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or(0),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let prefix = format!("{name}: ");
        self.head
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix))
            .collect()
    }

    pub(crate) fn value(&self, name: &str) -> &str {
        let values = self.values(name);
        assert_eq!(values.len(), 1, "{name} in {self:?}");
        values[0]
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn error(&self) -> ErrorBody {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// The status and word of an answer that is an error.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, ClientError>) -> (u16, String, String) {
    let error = result.expect_err("refused");
    let api = error.api().unwrap_or_else(|| panic!("{error:?}"));
    (api.status, api.code.clone(), api.message.clone())
}

pub(crate) fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let files = files
        .iter()
        .map(|(path, text)| (path.to_string(), text.to_string()));
    let tree = SourceTree::from_files(files).unwrap();
    pack::write_zip(&tree, std::io::Cursor::new(Vec::new()))
        .unwrap()
        .into_inner()
}

/// Looks until it is so.
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
