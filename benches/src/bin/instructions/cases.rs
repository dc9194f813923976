//! What is counted: each way that a call takes, on one thread.

use std::{io::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use sless_core::{
    Backends, Body, Deploy, FunctionSpec, Name, Namespace, Options, Sless, memory::MemoryScheduler,
};
use sless_runtime::{CallContext, DiscardLogs, Host, HostConfig, Language};
use sless_server::{
    AppState, ServeConfig,
    auth::{AuthMode, Authenticator, Hs256Key},
    metrics::Metrics,
    routes, serve,
    settings::{Settings, Sources},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};

/// Rounds that are not counted: caches are filled, buffers have grown.
const WARM_UP: usize = 20;
const ROUNDS: usize = 100;
/// Fewer of what takes longer.
const FEW: usize = 20;

const SMALL: usize = 2;
const LARGE: usize = 100 << 10;

/// Runs all cases, and says each one's name and number of rounds, in order.
pub(crate) fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;

    for (name, recorded) in [("a call, not recorded", false), ("a call, recorded", true)] {
        let sless = runtime.block_on(in_memory(recorded))?;
        case(&runtime, name, ROUNDS, async || call(&sless).await)?;
        runtime.block_on(sless.shutdown());
    }

    let path = folder.path().join("key");
    let key = Hs256Key::load_or_create(&path)?;
    let now = Timestamp::now();
    let token = key.mint("alice", Duration::from_secs(600), now)?;
    let authenticator = Arc::new(Authenticator::new(AuthMode::Hs256(key), []));
    case(&runtime, "a token, checked", ROUNDS, async || {
        let checked = authenticator.authenticate(&token, now).await;
        checked.map(drop).context("the token")
    })?;

    let sless = runtime.block_on(in_memory(true))?;
    let address = runtime.block_on(server(&sless, authenticator.clone()))?;
    for (name, bytes, rounds) in [
        ("a request through the server, 2 B", SMALL, ROUNDS),
        ("a request through the server, 100 KiB", LARGE, FEW),
    ] {
        let client = runtime.block_on(Client::connect(address, bytes))?;
        let client = tokio::sync::Mutex::new(client);
        case(&runtime, name, rounds, async || {
            client.lock().await.ask().await
        })?;
    }
    runtime.block_on(sless.shutdown());

    let code = folder.path().join("code");
    std::fs::create_dir(&code)?;
    std::fs::write(
        code.join("handler.py"),
        "def handle(event):\n    return event\n",
    )?;
    let mut config = HostConfig::new(Language::Python, code);
    config.path = std::env::var("PATH").unwrap_or(config.path);
    config.interpreter = Some("python3.11".into());
    let host = runtime.block_on(Host::start(config, Arc::new(DiscardLogs)))?;
    for (name, bytes, rounds) in [
        ("a call of a worker, 2 B", SMALL, ROUNDS),
        ("a call of a worker, 100 KiB", LARGE, FEW),
    ] {
        let body = Bytes::from(vec![b'x'; bytes]);
        case(&runtime, name, rounds, async || work(&host, &body).await)?;
    }
    runtime.block_on(host.drain(Duration::ZERO));
    Ok(())
}

/// Runs a case, and says that it is the next that was counted.
fn case(
    runtime: &Runtime,
    name: &str,
    rounds: usize,
    round: impl AsyncFn() -> Result<()>,
) -> Result<()> {
    let many = async |rounds: usize| {
        for _ in 0..rounds {
            round().await?;
        }
        anyhow::Ok(())
    };
    runtime
        .block_on(many(WARM_UP))
        .with_context(|| name.to_owned())?;
    let mut done = Ok(());
    counted(&mut || done = runtime.block_on(many(rounds)));
    done.with_context(|| name.to_owned())?;
    Ok(writeln!(std::io::stdout(), "{name}\t{rounds}")?)
}

/// Callgrind knows this function by its name, begins to count where it begins, and writes down where it
/// ends.
#[inline(never)]
pub(crate) fn counted(work: &mut dyn FnMut()) {
    work();
}

fn place() -> Result<(Namespace, Name)> {
    Ok((Namespace::new("bench")?, Name::new("echo")?))
}

/// A function in memory that answers its body.
async fn in_memory(recorded: bool) -> Result<Sless> {
    let mut backends = Backends::in_memory();
    if !recorded {
        backends.invocations = None;
    }
    let echo = |request: Request<Body>, _| async { Ok(Response::new(request.into_body())) };
    let scheduler =
        MemoryScheduler::new(backends.clock.clone()).with_handler("handler.handle", echo);
    backends.scheduler = Arc::new(scheduler);
    let sless = Sless::with_options(backends, Options::default())?;
    let (namespace, name) = place()?;
    let spec = FunctionSpec::new(sless_core::Runtime::Python311);
    let code = [("handler.py", "code")];
    sless
        .deploy(Deploy::files(namespace, name, spec, code)?)
        .await?;
    Ok(sless)
}

async fn call(sless: &Sless) -> Result<()> {
    let (namespace, name) = place()?;
    let request = Request::new(Body::from("{}"));
    let response = sless.invoke(&namespace, &name, request).await?;
    ensure!(response.status() == 200, "{}", response.status());
    response.into_body().bytes(1024).await?;
    Ok(())
}

/// The server's own routes behind its own listener.
async fn server(sless: &Sless, authenticator: Arc<Authenticator>) -> Result<SocketAddr> {
    let settings = Settings::load(&Sources::new([], None))?;
    let metrics = Metrics::new();
    let limits = settings.limits.clone();
    let state = AppState::new(sless.clone(), authenticator, limits, metrics.clone());
    let config = ServeConfig::new(&settings.limits, settings.drain_timeout);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        // It ends with this program.
        let _ = serve(
            listener,
            routes(state),
            &config,
            metrics,
            std::future::pending(),
        )
        .await;
    });
    Ok(address)
}

/// As little of a client as there can be, since it is counted, too.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    /// Connects, and learns how long the answers are.
    async fn connect(address: SocketAddr, bytes: usize) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (namespace, name) = place()?;
        let mut request = format!(
            "POST /fn/{namespace}/{name} HTTP/1.1\r\nhost: x\r\ncontent-length: {bytes}\r\n\r\n"
        )
        .into_bytes();
        request.resize(request.len() + bytes, b'x');
        let mut client = Self {
            stream,
            request,
            answer: Vec::new(),
        };
        client.stream.write_all(&client.request).await?;
        let head = loop {
            ensure!(
                client.stream.read_buf(&mut client.answer).await? > 0,
                "no answer"
            );
            let head = client.answer.windows(4).position(|end| end == b"\r\n\r\n");
            if let Some(head) = head {
                break head + 4;
            }
        };
        let read = client.answer.len();
        ensure!(
            client.answer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&client.answer)
        );
        client.answer.resize(head + bytes, 0);
        client.stream.read_exact(&mut client.answer[read..]).await?;
        Ok(client)
    }

    async fn ask(&mut self) -> Result<()> {
        let (mut from, mut to) = self.stream.split();
        let asked = to.write_all(&self.request);
        let answered = from.read_exact(&mut self.answer);
        let (asked, answered) = futures::join!(asked, answered);
        asked?;
        answered?;
        ensure!(self.answer.starts_with(b"HTTP/1.1 200"), "not 200");
        Ok(())
    }
}

/// A call of a worker, past HTTP: its framing, its slot, its pool.
async fn work(host: &Host, body: &Bytes) -> Result<()> {
    let request = Request::post("/")
        .header("content-type", "application/octet-stream")
        .body(Full::new(body.clone()))?;
    let response = host.call(request, CallContext::new("counted")).await?;
    let answer = response.into_body().collect().await?.to_bytes();
    ensure!(answer == *body, "another answer");
    Ok(())
}
