//! Functions of both languages, through the engine, on a data folder.

use std::{path::Path, time::Duration};

use futures::StreamExt as _;
use sless_core::{
    Body, CatalogExt as _, Deploy, Function, FunctionJob, FunctionPhase, FunctionSpec, JobPhase,
    JobSpec, LogOptions, Metadata, Name, Namespace, Resource as _, Result, Runtime, Sless, reason,
};
use sless_local::{Local, LocalConfig, ToolsConfig};

pub(super) struct Machine {
    local: Local,
    pub(super) sless: Sless,
}

pub(super) fn config(folder: &Path) -> LocalConfig {
    let mut config = LocalConfig::new(folder);
    config.tools = ToolsConfig::default().with_environment(std::env::vars());
    config
}

impl Machine {
    async fn start(folder: &Path) -> Self {
        Self::start_with(config(folder)).await
    }

    pub(super) async fn start_with(config: LocalConfig) -> Self {
        let local = Local::open(config).await.expect("a data folder");
        let sless = Sless::new(local.backends()).expect("backends that fit");
        Self { local, sless }
    }

    pub(super) async fn stop(self) {
        self.sless.shutdown().await;
        self.local.shutdown().await;
    }

    pub(super) async fn deploy(
        &self,
        function: &str,
        runtime: Runtime,
        files: &[(&str, &str)],
    ) -> Result<Function> {
        let files = files.iter().map(|(path, text)| (*path, text.to_string()));
        let spec = FunctionSpec::new(runtime);
        self.sless
            .deploy(Deploy::files(ns(), name(function), spec, files)?)
            .await
    }

    pub(super) async fn call(&self, function: &str, body: &'static str) -> Result<(u16, String)> {
        let request = http::Request::post("/")
            .header("content-type", "text/plain")
            .body(Body::from(body))
            .expect("a request");
        let response = self.sless.invoke(&ns(), &name(function), request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().bytes(1 << 20).await?;
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

pub(super) fn ns() -> Namespace {
    Namespace::new("test").expect("a label")
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("a label")
}

const PYTHON: &str = "def handle(event):\n    print('got', event)\n    return {'python': event}\n";
const NODE: &str = "exports.handle = (event) => ({ node: event });\n";

#[tokio::test]
async fn both_languages_answer_and_their_logs_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(folder.path()).await;
    machine
        .deploy("py", Runtime::Python311, &[("handler.py", PYTHON)])
        .await
        .expect("deployed");
    machine
        .deploy("js", Runtime::NodeJs20, &[("handler.js", NODE)])
        .await
        .expect("deployed");
    assert_eq!(
        machine.call("py", "hi").await.expect("answers").1,
        r#"{"python":"hi"}"#
    );
    assert_eq!(
        machine.call("js", "hi").await.expect("answers").1,
        r#"{"node":"hi"}"#
    );

    let options = LogOptions::default().following();
    let mut log = machine
        .sless
        .logs(&ns(), &name("py"), &options)
        .await
        .expect("a log");
    let found = async {
        while let Some(line) = log.next().await {
            if line.expect("a line").text.contains("got hi") {
                return;
            }
        }
        panic!("the log ended without the line");
    };
    tokio::time::timeout(Duration::from_secs(10), found)
        .await
        .expect("in time");
    machine.stop().await;
}

#[tokio::test]
async fn what_was_deployed_answers_after_a_restart_without_a_new_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(folder.path()).await;
    let before = machine
        .deploy("py", Runtime::Python311, &[("handler.py", PYTHON)])
        .await
        .expect("deployed");
    machine.stop().await;
    let machine = Machine::start(folder.path()).await;
    assert_eq!(machine.call("py", "hi").await.expect("answers").0, 200);
    let after: Function = machine
        .sless
        .backends()
        .catalog
        .read(&ns(), &name("py"))
        .await
        .expect("there");
    assert_eq!(after.status, before.status);
    let receipt = machine.sless.delete(&after.key()).await.expect("deleted");
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| removed.kind.as_str())
        .collect();
    for kind in [
        "process",
        "workload",
        "build",
        "artifact",
        "stored_source",
        "stored_context",
    ] {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    machine.stop().await;
    for left in [
        "artifacts",
        "home",
        "logs",
        "work",
        "storage/functions",
        "storage/contexts",
    ] {
        let files = walk(&folder.path().join(left));
        assert!(files.is_empty(), "{left} holds {files:?}");
    }
}

fn walk(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(walk(&path));
        } else {
            all.push(path.display().to_string());
        }
    }
    all
}

#[tokio::test]
async fn an_import_that_fails_fails_the_deploy_with_its_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(folder.path()).await;
    machine
        .deploy("py", Runtime::Python311, &[("handler.py", PYTHON)])
        .await
        .expect("deployed");
    let broken = "import nothing_of_that_name\ndef handle(event): pass\n";
    let error = machine
        .deploy("py", Runtime::Python311, &[("handler.py", broken)])
        .await;
    let error = error.expect_err("cannot be imported");
    assert_eq!(error.reason(), reason::HANDLER_IMPORT);
    assert!(
        error.message().contains("nothing_of_that_name"),
        "{}",
        error.message()
    );
    assert_eq!(
        machine.call("py", "hi").await.expect("the old version").0,
        200
    );
    machine.stop().await;

    // The old version is what was remembered.
    let machine = Machine::start(folder.path()).await;
    assert_eq!(
        machine.call("py", "hi").await.expect("the old version").0,
        200
    );
    machine.stop().await;
}

#[tokio::test]
async fn a_function_sleeps_and_wakes_without_losing_a_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = config(folder.path());
    config.scheduler.idle_ms = 200;
    let machine = Machine::start_with(config).await;
    let function = machine
        .deploy("py", Runtime::Python311, &[("handler.py", PYTHON)])
        .await
        .expect("deployed");
    let id = sless_core::FunctionId::of(&function.metadata);
    for _ in 0..3 {
        let asleep = async {
            let scheduler = &machine.sless.backends().scheduler;
            while !scheduler.status(&id).await.expect("a status").asleep {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), asleep)
            .await
            .expect("falls asleep");
        assert_eq!(machine.call("py", "hi").await.expect("wakes").0, 200);
    }
    machine.stop().await;
}

#[tokio::test]
async fn a_new_version_takes_over_without_a_failed_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(folder.path()).await;
    let version = |number: u32| format!("def handle(event):\n    return {number}\n");
    let deploy = async |number: u32| {
        let files = [("handler.py", version(number))];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        machine
            .deploy("py", Runtime::Python311, &files)
            .await
            .expect("deployed");
    };
    deploy(0).await;
    let calls = async {
        let (mut seen, mut count) = (0, 0);
        while seen < 5 {
            let (status, body) = machine.call("py", "").await.expect("answers");
            assert_eq!(status, 200);
            let now: u32 = body.parse().expect("a number");
            assert!(now >= seen, "an old version answered after a new one");
            seen = now;
            count += 1;
        }
        count
    };
    let deploys = async {
        for number in 1..=5 {
            deploy(number).await;
        }
    };
    let (count, ()) = futures::future::join(calls, deploys).await;
    assert!(count > 5, "{count} calls");
    machine.stop().await;
}

#[tokio::test]
async fn a_job_runs_once_and_one_that_was_cut_off_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(folder.path()).await;
    machine
        .deploy("py", Runtime::Python311, &[("handler.py", PYTHON)])
        .await
        .expect("deployed");
    let mut spec = JobSpec::new(name("py"));
    spec.event_json = Some("[1]".to_owned());
    let job = FunctionJob::new(Metadata::new(ns(), name("job")), spec);
    let catalog = machine.sless.backends().catalog.clone();
    catalog.add(job).await.expect("created");
    let done = async {
        loop {
            let job: FunctionJob = catalog.read(&ns(), &name("job")).await.expect("a job");
            if job.status.phase.is_terminal() {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let job = tokio::time::timeout(Duration::from_secs(20), done)
        .await
        .expect("ends");
    assert_eq!(job.status.phase, JobPhase::Succeeded, "{:?}", job.status);
    assert_eq!(job.status.result.as_deref(), Some(r#"{"python":[1]}"#));
    machine.stop().await;
}

#[tokio::test]
async fn dependencies_are_installed_and_a_failed_install_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = Machine::start(folder.path()).await;
    let uses = "import six\ndef handle(event):\n    return six.__version__\n";
    let files = [("handler.py", uses), ("requirements.txt", "six==1.16.0\n")];
    machine
        .deploy("py", Runtime::Python311, &files)
        .await
        .expect("installed");
    assert_eq!(machine.call("py", "").await.expect("answers").1, "1.16.0");

    let files = [
        ("handler.py", uses),
        ("requirements.txt", "six==0.0.0.404\n"),
    ];
    let error = machine
        .deploy("py", Runtime::Python311, &files)
        .await
        .expect_err("no such version");
    assert_eq!(error.reason(), reason::INSTALL_FAILED);
    assert!(
        error.message().contains("six==0.0.0.404"),
        "{}",
        error.message()
    );
    let function: Function = machine
        .sless
        .backends()
        .catalog
        .read(&ns(), &name("py"))
        .await
        .expect("there");
    assert_eq!(function.status.phase, FunctionPhase::Failed);
    assert_eq!(
        machine.call("py", "").await.expect("the old version").1,
        "1.16.0"
    );
    machine.stop().await;
}

#[tokio::test]
async fn a_start_that_fails_for_a_passing_reason_is_tried_again_with_growing_pauses() {
    let folder = tempfile::tempdir().expect("a folder");
    let seen = folder.path().join("seen");
    std::fs::create_dir(&seen).expect("made");
    let (starts, mended) = (seen.join("starts"), seen.join("mended"));
    let code = format!(
        "import os\nwith open({starts:?}, 'a') as starts:\n    starts.write('x')\n\
         if not os.path.exists({mended:?}):\n    os._exit(1)\n\
         def handle(event):\n    return 'up'\n"
    );
    let mut config = config(&folder.path().join("data"));
    config.scheduler.start_backoff_min_ms = 400;
    config.sandbox.confinement.write.push(seen);
    let machine = Machine::start_with(config).await;
    let began = std::time::Instant::now();
    let error = machine
        .deploy("py", Runtime::Python311, &[("handler.py", &code)])
        .await
        .expect_err("it cannot start");
    assert_eq!(error.reason(), "crash");
    let started = || std::fs::read(&starts).map_or(0, |starts| starts.len());
    while started() < 3 {
        assert!(began.elapsed() < Duration::from_secs(30), "not tried again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Pauses of 400 and 800 ms lie between three starts.
    assert!(
        began.elapsed() >= Duration::from_millis(1200),
        "tried again at once"
    );
    std::fs::write(&mended, "").expect("written");
    let up = async {
        while machine.call("py", "").await.map_or(0, |(status, _)| status) != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), up)
        .await
        .expect("it is up once it can be");
    machine.stop().await;
}
