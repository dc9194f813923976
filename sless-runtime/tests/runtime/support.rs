//! What the tests share.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use serde_json::Value;
use sless_runtime::{
    Body, CallContext, CallError, Host, HostConfig, Language, LogLine, LogSink, StartError, Zygote,
};
use tempfile::TempDir;

pub(crate) use Language::{Node, Python};

/// Longer than anything here should take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Set where all workers of all tests are to be forked, if they can be.
const FORKED: &str = "SLESS_TEST_FORKED";

/// What workers were forked from then.
static ZYGOTES: Mutex<Vec<Weak<Zygote>>> = Mutex::new(Vec::new());

#[derive(Debug, Default)]
pub(crate) struct Captured(Mutex<Vec<(Instant, LogLine)>>);

impl LogSink for Captured {
    fn write(&self, line: LogLine) {
        self.0.lock().unwrap().push((Instant::now(), line));
    }
}

impl Captured {
    pub(crate) fn lines(&self) -> Vec<LogLine> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(_, line)| line.clone())
            .collect()
    }

    pub(crate) fn find(&self, text: &str) -> Option<LogLine> {
        self.lines()
            .into_iter()
            .find(|line| line.text.contains(text))
    }

    /// Waits for a line with this text.
    pub(crate) async fn wait_for(&self, text: &str) -> LogLine {
        until(text, || self.find(text)).await
    }
}

/// A function's folder, its configuration and its log.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) folder: TempDir,
    pub(crate) config: HostConfig,
    pub(crate) logs: Arc<Captured>,
}

impl Function {
    pub(crate) fn new(language: Language, code: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = if language == Python {
            "handler.py"
        } else {
            "handler.js"
        };
        std::fs::write(folder.path().join(file), code).unwrap();
        let mut config = HostConfig::new(language, folder.path());
        config.interpreter = Some(interpreter(language));
        config.timeout = PATIENCE;
        config.start_timeout = PATIENCE;
        Self {
            folder,
            config,
            logs: Arc::default(),
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut HostConfig)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// Where [`FORKED`] is set, from a zygote of its own.
    pub(crate) async fn try_start(&self) -> Result<Host, StartError> {
        if std::env::var_os(FORKED).is_none() {
            return Host::start(self.config.clone(), self.logs.clone()).await;
        }
        let zygote = Arc::new(Zygote::new());
        ZYGOTES.lock().unwrap().push(Arc::downgrade(&zygote));
        Host::start_from(zygote, self.config.clone(), self.logs.clone()).await
    }

    pub(crate) async fn start(&self) -> Host {
        self.try_start()
            .await
            .unwrap_or_else(|error| panic!("{error}\n{}", error.log_tail))
    }
}

/// The system's Python rather than a version manager's shim, which needs its own environment.
pub(crate) fn interpreter(language: Language) -> PathBuf {
    let name = language.default_interpreter();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(PathBuf::from("/usr/bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is needed and not to be found"))
}

pub(crate) fn post(content_type: &str, body: impl Into<Bytes>) -> Request<Body> {
    let request = Request::post("/").header("content-type", content_type);
    request.body(Body::full(body)).unwrap()
}

pub(crate) fn json_event(event: &Value) -> Request<Body> {
    post("application/json", event.to_string())
}

pub(crate) async fn call(host: &Host, request: Request<Body>) -> Result<Answer, CallError> {
    call_as(host, request, CallContext::new("test")).await
}

pub(crate) async fn call_as(
    host: &Host,
    request: Request<Body>,
    context: CallContext,
) -> Result<Answer, CallError> {
    Answer::read(host.call(request, context).await?).await
}

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) async fn read(response: Response<Body>) -> Result<Self, CallError> {
        let (head, body) = response.into_parts();
        Ok(Self {
            head,
            body: body.collect().await?.to_bytes(),
        })
    }

    pub(crate) fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    pub(crate) fn media(&self) -> &str {
        self.head
            .headers
            .get("content-type")
            .map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {:?}", self.body))
    }

    /// The type and message of an error's answer.
    pub(crate) fn error(&self) -> (String, String) {
        let error = &self.json()["error"];
        let part = |name: &str| error[name].as_str().unwrap().to_owned();
        (part("type"), part("message"))
    }
}

/// Polls until there is a value.
pub(crate) async fn until<T>(what: impl Debug, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    // A zombie has no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

pub(crate) fn kill(pid: u32) {
    let status = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// The processes whose environment names this instance, save those that all workers are forked from.
pub(crate) fn processes_of(instance: &str) -> Vec<u32> {
    let mark = format!("SLESS_INSTANCE={instance}");
    let mut found = Vec::new();
    let zygotes = ZYGOTES.lock().unwrap();
    let zygotes = zygotes.iter().filter_map(|zygote| zygote.upgrade()?.pid());
    let zygotes: Vec<u32> = zygotes.collect();
    for entry in Path::new("/proc").read_dir().unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
            && !zygotes.contains(&pid)
        {
            found.push(pid);
        }
    }
    found
}
