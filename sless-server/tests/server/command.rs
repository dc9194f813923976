//! The binary itself.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use crate::support::DEADLINE;

fn command(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sless-server"));
    command.env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("SLESS_DATA_DIR", data).env("HOME", data);
    command
}

fn run(command: &mut Command) -> (Output, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

#[test]
fn help_lists_settings_and_wrong_ones_are_all_told_with_status_78() {
    let folder = tempfile::tempdir().unwrap();
    let (output, out, _) = run(command(folder.path()).arg("--help"));
    assert!(output.status.success());
    assert!(
        out.contains("SLESS_LISTEN") && out.contains("127.0.0.1:8080"),
        "{out}"
    );
    let mut wrong = command(folder.path());
    wrong
        .env("SLESS_LISTEN", "x")
        .env("S3_SECRET_KEY", "hunter2")
        .env("SLESS_AUTH", "jwks");
    let (output, _, err) = run(&mut wrong);
    assert_eq!(output.status.code(), Some(78));
    let of_the_store = if cfg!(feature = "s3") {
        "S3_ACCESS_KEY is missing"
    } else {
        "--features s3"
    };
    for named in [
        "SLESS_LISTEN is `x`",
        "S3_SECRET_KEY",
        of_the_store,
        "SLESS_JWKS_URL is missing",
    ] {
        assert!(err.contains(named), "{named} not in {err}");
    }
    assert!(!err.contains("hunter2"), "{err}");
}

#[test]
fn check_config_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sless.toml");
    fs::write(
        &file,
        "SLESS_SERVICE_TOKEN = 'hunter2'\nSLESS_MAX_UPLOADS = 9\n",
    )
    .unwrap();
    let mut check = command(folder.path());
    let (output, out, err) = run(check.args(["check-config", "--config"]).arg(&file));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("SLESS_MAX_UPLOADS = 9  # from "), "{out}");
    assert!(!out.contains("hunter2"), "{out}");
}

#[test]
fn openapi_and_token_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let (output, out, _) = run(command(folder.path()).arg("openapi"));
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["info"]["title"], "sless");
    let (output, out, _) = run(command(folder.path()).args(["token", "--sub", "alice"]));
    assert!(output.status.success());
    assert_eq!(out.trim_end().split('.').count(), 3, "{out}");
    let (output, _, _) = run(command(folder.path()).args(["token", "--sub", ""]));
    assert_eq!(output.status.code(), Some(1));
}

/// A server that is ended with the test.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    fn start_with(data: &Path, given: &[(&str, &str)]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = command(data)
            .env("SLESS_LISTEN", &address)
            .envs(given.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let running = Self { child, address };
        let began = Instant::now();
        while !running
            .get("/readyz", "")
            .is_some_and(|answer| answer.contains(" 200 "))
        {
            assert!(began.elapsed() < DEADLINE, "not ready in time");
            std::thread::sleep(Duration::from_millis(20));
        }
        running
    }

    fn get(&self, path: &str, lines: &str) -> Option<String> {
        self.send("GET", path, lines)
    }

    fn send(&self, method: &str, path: &str, lines: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{lines}\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_answers_logs_json_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Running::start(folder.path());
    let (_, token, _) = run(command(folder.path()).args(["token", "--sub", "alice"]));
    let namespace = sless_core::Namespace::of_subject("alice");
    let path = format!("/v1/namespaces/{namespace}/ensure");
    let lines = format!("authorization: Bearer {}\r\n", token.trim_end());
    let answer = server.send("POST", &path, &lines).unwrap();
    assert!(answer.contains(" 201 "), "{answer}");

    let pid = server.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let began = Instant::now();
    let status = loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < DEADLINE, "not stopped in time");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    let log = BufReader::new(server.child.stderr.take().unwrap());
    let mut lines = 0;
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(
            line["level"].is_string() && line["timestamp"].is_string(),
            "{line}"
        );
        lines += 1;
    }
    assert!(lines > 0);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (output, _, err) = run(command(folder.path()).env("SLESS_LISTEN", &address));
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains(&format!("SLESS_LISTEN is {address}")), "{err}");
}

/// Spans reach a collector, and a call's trace is the caller's.
#[cfg(feature = "otel")]
#[test]
fn traces_are_sent_to_the_collector() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start_with(folder.path(), &[("SLESS_OTLP_ENDPOINT", &endpoint)]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let lines = format!("traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n");
    server.get("/fn/n/absent", &lines).unwrap();
    let wanted: Vec<u8> = (0..16)
        .map(|byte| u8::from_str_radix(&trace[2 * byte..2 * byte + 2], 16).unwrap())
        .collect();
    let began = Instant::now();
    let mut seen = Vec::new();
    while !seen.windows(16).any(|window| window == wanted) {
        assert!(began.elapsed() < DEADLINE, "no span of the trace in time");
        let (mut stream, _) = collector.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let mut piece = [0; 16 * 1024];
        // The collector's answer comes once nothing more is sent.
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            seen.extend_from_slice(&piece[..count]);
        }
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    }
    assert!(String::from_utf8_lossy(&seen).contains("POST /v1/traces"));
}
