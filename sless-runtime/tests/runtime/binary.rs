//! The program itself, over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::support::*;

pub(super) struct Server {
    child: Child,
    port: u16,
    lines: mpsc::Receiver<String>,
    function: Function,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn command(function: &Function, word: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sless-runtime"));
    let language = if function.config.language == Python {
        "python"
    } else {
        "node"
    };
    command.arg(word).env("SLESS_LANGUAGE", language);
    command.env("SLESS_INTERPRETER", function.config.interpreter());
    command.env("SLESS_CODE_DIR", function.folder.path());
    command
}

impl Server {
    pub(super) fn start(function: Function, arguments: &[&str]) -> Self {
        let port = free_port();
        let mut command = command(&function, "serve");
        command
            .args(arguments)
            .arg("--listen")
            .arg(format!("127.0.0.1:{port}"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        Self {
            child,
            port,
            lines,
            function,
        }
    }

    fn connect(&self) -> TcpStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    return stream;
                }
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a request and reads until the connection ends.
    pub(super) fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.exchange(&format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        ))
    }

    pub(super) fn wait_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.get("/_sless/readyz").starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < deadline, "not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([name, &self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    fn line(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline - Instant::now()) {
            if line.contains(text) {
                return line;
            }
        }
        panic!("no line with {text}");
    }
}

#[test]
fn the_handler_answers_over_http() {
    for (language, code) in [
        (
            Python,
            "def handle(event, context):\n    print('seen')\n    return {'path': context.path, 'id': context.request_id, 'own': context.headers.get('x-request-id'), 'internal': [h for h in context.headers if h.startswith('x-sless')]}",
        ),
        (
            Node,
            "exports.handle = (event, context) => { console.log('seen'); return { path: context.path, id: context.requestId, own: context.headers['x-request-id'], internal: Object.keys(context.headers).filter((h) => h.startsWith('x-sless')) }; };",
        ),
    ] {
        let function = Function::new(language, code);
        let server = Server::start(function, &[]);
        server.wait_ready();
        assert!(server.get("/_sless/healthz").starts_with("HTTP/1.1 200"));
        let answer = server.exchange("GET /a%20b?c HTTP/1.1\r\nhost: x\r\nx-request-id: r1\r\nx-sless-timeout-ms: 9000\r\nx-sless-attempt: 2\r\nx-sless-other: x\r\nconnection: close\r\n\r\n");
        assert!(
            answer.ends_with(
                r#"{"path":"/a%20b","id":"r1","own":"r1","internal":["x-sless-attempt"]}"#
            ),
            "{answer}"
        );
        let line = server.line("seen");
        assert!(line.contains(r#""request_id":"r1""#), "{line}");
        let head = server.exchange("HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert!(
            head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }
}

#[test]
fn it_is_ready_only_once_the_handler_is_imported() {
    let code = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\ndef handle(event):\n    return 1";
    let function = Function::new(Python, code);
    let server = Server::start(function, &[]);
    assert!(server.get("/_sless/healthz").starts_with("HTTP/1.1 200"));
    let answer = server.get("/_sless/readyz");
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("starting"),
        "{answer}"
    );
    let answer = server.get("/");
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"),
        "{answer}"
    );
    std::fs::write(server.function.folder.path().join("go"), "").unwrap();
    server.wait_ready();
    assert!(server.get("/").ends_with("\r\n\r\n1"));
}

#[test]
fn errors_have_their_status_and_word() {
    let code = "import time, os\ndef handle(event, context):\n    if context.path == '/slow':\n        time.sleep(600)\n    if context.path == '/die':\n        os._exit(1)\n    raise ValueError('bad')";
    let server = Server::start(Function::new(Python, code), &["--timeout", "0.5"]);
    server.wait_ready();
    for (path, status, word) in [
        ("/", 500, "handler_error"),
        ("/die", 502, "worker_died"),
        ("/slow", 504, "timeout"),
    ] {
        let answer = server.get(path);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(
            answer.contains(&format!("x-sless-error: {word}\r\n")),
            "{answer}"
        );
    }
}

#[test]
fn sigterm_lets_the_call_in_flight_end() {
    let code = "import time\ndef handle(event):\n    print('began')\n    time.sleep(1)\n    return 'whole'";
    let mut server = Server::start(Function::new(Python, code), &[]);
    server.wait_ready();
    let mut stream = server.connect();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    server.line("began");
    server.signal("-TERM");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("whole"), "{answer}");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(("127.0.0.1", server.port)).is_err());
}

#[test]
fn a_client_that_leaves_frees_the_slot() {
    let code = "import time\ndef handle(event, context):\n    print('began')\n    while context.path == '/wait' and not context.cancelled:\n        time.sleep(0.01)\n    return 'free'";
    let server = Server::start(Function::new(Python, code), &[]);
    server.wait_ready();
    let mut stream = server.connect();
    stream
        .write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    server.line("began");
    drop(stream);
    assert!(server.get("/").ends_with("free"));
}

#[test]
fn killing_the_program_leaves_no_worker() {
    for (language, code) in [
        (Python, "def handle(event):\n    return 1"),
        (Node, "exports.handle = (event) => 1;"),
    ] {
        let instance = format!("killed-{language:?}-{}", std::process::id());
        let server = Server::start(Function::new(language, code), &["--instance", &instance]);
        server.wait_ready();
        let workers = || {
            let mut pids = processes_of(&instance);
            pids.retain(|pid| *pid != server.child.id());
            pids
        };
        assert_eq!(workers().len(), 1);
        server.signal("-KILL");
        let deadline = Instant::now() + PATIENCE;
        while !workers().is_empty() {
            assert!(Instant::now() < deadline, "the worker lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_handler_that_does_not_start_ends_the_program() {
    let function = Function::new(Python, "import nope");
    let output = command(&function, "serve")
        .args(["--listen", "127.0.0.1:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("handler_import"), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Traceback"));
}

#[test]
fn once_writes_the_outcome() {
    let function = Function::new(
        Node,
        "exports.handle = (event) => { console.log('working'); return event.a; };",
    );
    let output = command(&function, "once")
        .args(["--event", r#"{"a":[1]}"#])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["result"], serde_json::json!([1]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("working"));
    let function = Function::new(Python, "def handle(event):\n    raise OSError('full')");
    let output = command(&function, "once").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains(r#""type":"OSError""#));
}

#[test]
fn a_wrong_setting_stops_the_start() {
    let function = Function::new(Python, "");
    let output = command(&function, "serve")
        .env("SLESS_CONCURRENCY", "many")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("SLESS_CONCURRENCY"));
}
