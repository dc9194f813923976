//! What functions and installers get at on a data folder, with a sandbox and without.

use std::{path::Path, time::Duration};

use sless_core::{
    Body, CatalogExt as _, Deploy, FunctionJob, FunctionSpec, JobPhase, JobSpec, LogOptions,
    Metadata, Name, Namespace, Runtime, Sless,
};
use sless_local::{Enforcement, Local, LocalConfig, SandboxMode, ToolsConfig};

struct Machine {
    local: Local,
    sless: Sless,
}

fn ns() -> Namespace {
    Namespace::new("test").expect("a label")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a label")
}

fn config(folder: &Path, mode: SandboxMode) -> LocalConfig {
    let mut config = LocalConfig::new(folder);
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    config.sandbox.mode = mode;
    config
}

impl Machine {
    async fn start(config: LocalConfig) -> Self {
        let local = Local::open(config).await.expect("a data folder");
        let sless = Sless::new(local.backends()).expect("backends that fit");
        Self { local, sless }
    }

    async fn deploy(&self, function: &str, runtime: Runtime, files: &[(&str, &str)]) {
        let files = files.iter().map(|(path, text)| (*path, text.to_string()));
        let spec = FunctionSpec::new(runtime);
        let deploy = Deploy::files(ns(), name(function), spec, files).expect("files");
        let deployed = self.sless.deploy(deploy).await;
        deployed.unwrap_or_else(|error| panic!("{}", error.chain()));
    }

    async fn call(&self, function: &str, body: String) -> (u16, String) {
        let request = http::Request::post("/")
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("a request");
        let response = self.sless.invoke(&ns(), &name(function), request).await;
        let response = response.expect("an answer");
        let status = response.status().as_u16();
        let body = response.into_body().bytes(1 << 20).await.expect("a body");
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn stop(self) {
        self.sless.shutdown().await;
        self.local.shutdown().await;
    }
}

/// Answers what it could read below a folder, beyond its own code and its own files.
const READS: &str = "
import os

def handle(event):
    own = (os.environ['TMPDIR'], os.getcwd())
    found = []
    for root in event['folders']:
        for folder, folders, files in os.walk(root, onerror=lambda error: None):
            for name in files:
                path = os.path.join(folder, name)
                try:
                    if not path.startswith(own):
                        open(path, 'rb').read(1)
                        found.append(path)
                except OSError:
                    pass
        for name in ('format', 'lock', 'db/catalog.db', 'db/work.db'):
            try:
                open(os.path.join(root, name), 'rb').read(1)
                found.append(name)
            except OSError:
                pass
    return found
";

const WRITES: &str = "
import os

def handle(event):
    open(os.environ['TMPDIR'] + '/secret', 'w').write('hidden')
";

async fn reads(mode: SandboxMode) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(config(folder.path(), mode)).await;
    machine
        .deploy("other", Runtime::Python311, &[("handler.py", WRITES)])
        .await;
    machine
        .deploy("reads", Runtime::Python311, &[("handler.py", READS)])
        .await;
    assert_eq!(machine.call("other", "{}".to_owned()).await.0, 200);
    let event = serde_json::json!({ "folders": [folder.path()] });
    let (status, found) = machine.call("reads", event.to_string()).await;
    assert_eq!(status, 200, "{found}");
    machine.stop().await;
    serde_json::from_str(&found).expect("names")
}

#[tokio::test]
async fn a_function_reads_nothing_of_the_server_and_of_others() {
    let mut found = reads(SandboxMode::Auto).await;
    // The program that runs it is there for all to read.
    found.retain(|path| !path.contains("/runtime/"));
    assert!(found.is_empty(), "{found:?}");
    let found = reads(SandboxMode::Off).await;
    for reached in [
        "/home/",
        "/artifacts/",
        "/storage/",
        "db/catalog.db",
        "/logs/",
    ] {
        assert!(
            found.iter().any(|path| path.contains(reached)),
            "{reached}: {found:?}"
        );
    }
}

/// What its install script read of the server's folder.
async fn stolen(mode: SandboxMode) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(config(folder.path(), mode)).await;
    let catalog = folder.path().join("db/catalog.db");
    let install = format!(
        "wc -c > stolen.txt < {0}; touch {0}.evil; true",
        catalog.display()
    );
    let package = serde_json::json!({
        "name": "x", "version": "1.0.0", "scripts": { "preinstall": install },
        "dependencies": { "y": "file:./y" },
    });
    let inner = r#"{"name": "y", "version": "1.0.0"}"#;
    let handler = "exports.handle = () => require('fs').readFileSync(__dirname + '/stolen.txt', 'utf8').trim();";
    let files = [
        ("handler.js", handler),
        ("package.json", &package.to_string()),
        ("y/package.json", inner),
    ];
    machine.deploy("js", Runtime::NodeJs20, &files).await;
    let (status, told) = machine.call("js", "{}".to_owned()).await;
    assert_eq!(status, 200, "{told}");
    assert_eq!(
        catalog.with_extension("db.evil").exists(),
        mode == SandboxMode::Off
    );
    machine.stop().await;
    told
}

#[tokio::test]
async fn an_install_script_reads_and_writes_nothing_of_the_server() {
    assert_eq!(stolen(SandboxMode::Auto).await, "");
    assert_ne!(stolen(SandboxMode::Off).await, "");
}

const FILLS: &str = "
import os

def handle(event):
    for number in range(event['files']):
        open(os.environ['TMPDIR'] + f'/{number}', 'wb').write(bytes(1 << 20))
    return len(os.listdir(os.environ['TMPDIR']))
";

#[tokio::test]
async fn a_function_that_fills_its_folder_loses_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(folder.path(), SandboxMode::Auto);
    config.sandbox.home_bytes = 8 << 20;
    config.sandbox.home_look_ms = 50;
    let machine = Machine::start(config).await;
    machine
        .deploy("fills", Runtime::Python311, &[("handler.py", FILLS)])
        .await;
    let few = r#"{"files": 2}"#.to_owned();
    assert_eq!(
        machine.call("fills", few.clone()).await,
        (200, "2".to_owned())
    );
    // It may be cut off before it answers.
    let request = http::Request::post("/")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"files": 20}"#))
        .expect("a request");
    let _ = machine.sless.invoke(&ns(), &name("fills"), request).await;
    let emptied = async {
        loop {
            let (status, left) = machine.call("fills", few.clone()).await;
            if (status, left.as_str()) == (200, "2") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), emptied)
        .await
        .expect("its files are gone");
    let log = machine
        .sless
        .logs(&ns(), &name("fills"), &LogOptions::default())
        .await;
    let lines: Vec<_> = futures::StreamExt::collect(log.expect("a log")).await;
    let told = |line: &sless_core::Result<sless_core::LogLine>| {
        line.as_ref()
            .is_ok_and(|line| line.text.contains("home_bytes of 8388608 bytes"))
    };
    assert!(lines.iter().any(told), "{lines:?}");
    machine.stop().await;
}

#[tokio::test]
async fn a_job_that_fills_its_folder_fails_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(folder.path(), SandboxMode::Auto);
    config.sandbox.home_bytes = 8 << 20;
    config.sandbox.home_look_ms = 50;
    let machine = Machine::start(config).await;
    let waits = format!("{FILLS}    import time; time.sleep(60)\n")
        .replace("    return len(os.listdir(os.environ['TMPDIR']))\n", "");
    machine
        .deploy("fills", Runtime::Python311, &[("handler.py", &waits)])
        .await;
    let mut spec = JobSpec::new(name("fills"));
    spec.event_json = Some(r#"{"files": 20}"#.to_owned());
    let job = FunctionJob::new(Metadata::new(ns(), name("job")), spec);
    let catalog = &machine.sless.backends().catalog;
    catalog.add(job).await.expect("created");
    let ended = async {
        loop {
            let now: FunctionJob = catalog.read(&ns(), &name("job")).await.expect("a job");
            if now.status.phase == JobPhase::Failed {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
    let ended = ended.expect("in time");
    let message = format!("{:?}", ended.status);
    assert!(message.contains("home_bytes"), "{message}");
    machine.stop().await;
}

#[tokio::test]
async fn the_report_is_there_unless_the_sandbox_is_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(config(folder.path(), SandboxMode::Auto)).await;
    let report = machine.local.sandbox().expect("a report").clone();
    let disk = report.protections.last().expect("some");
    assert_eq!(disk.name, "disk_total");
    assert!(matches!(disk.enforcement, Enforcement::Partly(_)));
    machine.stop().await;

    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(config(folder.path(), SandboxMode::Off)).await;
    assert!(machine.local.sandbox().is_none());
    machine.stop().await;

    let folder = tempfile::tempdir().expect("a folder");
    let opened = Local::open(config(folder.path(), SandboxMode::Required)).await;
    match opened {
        Ok(local) => {
            assert_eq!(report.lacking().count(), 0, "{report}");
            local.shutdown().await;
        }
        Err(error) => {
            assert!(report.lacking().count() > 0, "{error}");
            assert_eq!(error.reason(), "sandbox_lacking");
        }
    }
}
