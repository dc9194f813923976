//! A server that misbehaves on demand: for what the real one does too rarely.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use base64::Engine as _;
use serde_json::{Value, json};
use tfplugin_acceptance::Workspace;

use crate::server::{Sless, provider};

#[derive(Debug, Default)]
struct State {
    function: Option<Value>,
    creates: usize,
    lose_next: bool,
    refuse: Option<String>,
}

/// One function, one namespace.
#[derive(Debug)]
pub(crate) struct Peer {
    address: String,
    state: Arc<Mutex<State>>,
}

impl Peer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                let shared = shared.clone();
                std::thread::spawn(move || {
                    let _ = serve(stream, &shared);
                });
            }
        });
        Self { address, state }
    }

    pub(crate) fn workspace(&self) -> Sless {
        let mut workspace = Workspace::new("sless", provider());
        let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(r#"{"sub":"alice"}"#);
        workspace.set("SLESS_ENDPOINT", &format!("http://{}", self.address));
        workspace.set("SLESS_API_TOKEN", &format!("e30.{payload}.x"));
        Sless(workspace)
    }

    pub(crate) fn refuse_uploads(&self, why: &str) {
        self.state.lock().unwrap().refuse = Some(why.to_owned());
    }

    /// Does what the next create asks for, and breaks the connection.
    pub(crate) fn lose_next_answer(&self) {
        self.state.lock().unwrap().lose_next = true;
    }

    pub(crate) fn creates(&self) -> usize {
        self.state.lock().unwrap().creates
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let Some((status, answer)) = answer(&method, &path, &body, &mut shared.lock().unwrap())
        else {
            // Neither an answer nor an end in good order.
            return Ok(());
        };
        let answer = answer.to_string();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
    }
}

fn answer(method: &str, path: &str, body: &[u8], state: &mut State) -> Option<(u16, Value)> {
    let namespace = path.split('/').nth(3).unwrap_or_default().to_owned();
    let error =
        |status, code: &str, text: &str| Some((status, json!({"error": text, "code": code})));
    let tail: Vec<_> = path.split('/').skip(4).collect();
    match (method, tail.as_slice()) {
        ("POST", ["ensure"]) => Some((200, json!({"namespace": namespace, "status": "exists"}))),
        ("POST", ["functions"]) => {
            state.creates += 1;
            if state.function.is_some() {
                return error(409, "already_exists", "it is there");
            }
            let asked: Value = serde_json::from_slice(body).unwrap();
            let made = json!({
                "name": asked["name"], "namespace": namespace, "runtime": asked["runtime"],
                "entrypoint": asked["entrypoint"], "env": asked["env"], "replicas": null,
                "timeout_seconds": 60, "memory": null, "cpu": null, "concurrency": asked["concurrency"],
                "phase": "Pending", "reason": "no_code", "message": null, "code_sha256": null,
                "s3_key": null, "url": "http://x/fn", "image": null, "last_built_at": null,
                "ready_replicas": 0, "created_at": "2026-01-01T00:00:00Z",
            });
            state.function = Some(made.clone());
            if std::mem::take(&mut state.lose_next) {
                return None;
            }
            Some((201, made))
        }
        ("POST", ["functions", name, "upload"]) => {
            if let Some(why) = &state.refuse {
                return error(400, "code_refused", why);
            }
            // Whatever it is, it is what the plan has promised.
            let tree = sless_core::source::SourceArchive::open(
                std::io::Cursor::new(body),
                &sless_core::source::SourceLimits::default(),
            );
            let digest = tree.unwrap().digest().hex();
            let function = state.function.as_mut()?;
            function["code_sha256"] = digest.clone().into();
            function["phase"] = "Ready".into();
            let verdict = json!({"outcome": "skipped", "reason": null});
            Some((
                202,
                json!({"name": name, "namespace": namespace, "code_sha256": digest, "s3_key": "k",
                       "phase": "Pending", "verdict": verdict, "warnings": []}),
            ))
        }
        ("GET", ["functions", _]) => match &state.function {
            Some(function) => Some((200, function.clone())),
            None => error(404, "not_found", "it is not there"),
        },
        _ => error(404, "not_found", "no such route"),
    }
}
