//! A server with its sources in an S3 store, and everything else on its machine.

use std::{env, time::Instant};

use futures::TryStreamExt as _;
use sless_api::{
    CreateFunction,
    client::{Call, Content},
};
use sless_core::Storage as _;
use sless_s3::{S3Config, S3Storage};

use super::{
    machine::Machine,
    process::{DEADLINE, LOOK, Process, command},
};

const HANDLER: &str = "def handle(event):\n    return {'got': event['n'] + 1}\n";

fn given(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set: testing/s3/up gives it"))
}

fn settings() -> Vec<(&'static str, String)> {
    [
        ("S3_ENDPOINT", "SLESS_TEST_S3_ENDPOINT"),
        ("S3_BUCKET", "SLESS_TEST_S3_BUCKET"),
        ("S3_REGION", "SLESS_TEST_S3_REGION"),
        ("S3_ACCESS_KEY", "SLESS_TEST_S3_ACCESS_KEY"),
        ("S3_SECRET_KEY", "SLESS_TEST_S3_SECRET_KEY"),
    ]
    .map(|(setting, variable)| (setting, given(variable)))
    .into()
}

async fn machine(data: &std::path::Path) -> Machine {
    let settings = settings();
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    Machine::start_with(data, &settings).await
}

async fn called(machine: &Machine, name: &str) {
    let call = Call::new("POST")
        .with_header("content-type", "application/json")
        .with_body(Content::bytes(br#"{"n": 41}"#.to_vec()));
    let (status, body) = machine.call(name, call).await;
    let body = String::from_utf8(body).unwrap();
    assert_eq!((status, body.as_str()), (200, r#"{"got":42}"#));
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_function_lives_in_the_store_and_leaves_nothing_there() {
    let data = tempfile::tempdir().unwrap();
    let server = machine(data.path()).await;
    // A name of its own: the bucket may be shared, and the namespace is alice's in all servers.
    let name = format!("f{}", fastrand::u64(..));
    let function = CreateFunction {
        name: name.clone(),
        runtime: "python3.11".into(),
        ..CreateFunction::default()
    };
    server.deploy(function, &[("handler.py", HANDLER)]).await;
    called(&server, &name).await;

    let store = S3Config::new(given("SLESS_TEST_S3_BUCKET"))
        .with_endpoint(given("SLESS_TEST_S3_ENDPOINT"))
        .with_keys(
            given("SLESS_TEST_S3_ACCESS_KEY"),
            given("SLESS_TEST_S3_SECRET_KEY"),
        );
    let store = S3Storage::connect(store).await.unwrap();
    let namespace = server.namespace.clone();
    let stored = async || {
        let mut found = Vec::new();
        for folder in ["functions", "contexts"] {
            let prefix = format!("{folder}/{namespace}/{name}/");
            let listed: Vec<_> = store.list(&prefix).try_collect().await.unwrap();
            found.extend(listed.into_iter().map(|info| info.key.to_string()));
        }
        found
    };
    let keys = stored().await;
    assert!(keys.iter().any(|key| key.ends_with(".zip")), "{keys:?}");
    assert!(keys.iter().any(|key| key.ends_with(".tar.gz")), "{keys:?}");
    let locally = std::fs::read_dir(data.path().join("storage"));
    let locally = locally.map_or(0, Iterator::count);
    assert_eq!(locally, 0, "nothing is stored on the machine");

    // The source comes out of the store, for another process too.
    server.stop().await;
    let server = machine(data.path()).await;
    let source = server.client.source(&namespace, &name).await.unwrap();
    let source: Vec<_> = source
        .iter()
        .map(|file| (file.name.as_str(), file.content.as_str()))
        .collect();
    assert_eq!(source, [("handler.py", HANDLER)]);
    called(&server, &name).await;

    server
        .client
        .delete_function(&namespace, &name)
        .await
        .unwrap();
    let began = Instant::now();
    while !stored().await.is_empty() {
        assert!(began.elapsed() < DEADLINE, "{:?} is left", stored().await);
        tokio::time::sleep(LOOK).await;
    }
    server.stop().await;
}

#[tokio::test]
#[ignore = "needs S3: testing/s3/up"]
async fn a_store_that_refuses_stops_the_start_and_names_the_setting() {
    for (wrong, value, named) in [
        ("S3_SECRET_KEY", "wrong", "S3_ACCESS_KEY and S3_SECRET_KEY:"),
        ("S3_BUCKET", "sless-no-such-bucket", "S3_BUCKET:"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let mut serve = command(Some(data.path()), ["serve"]);
        serve.env("SLESS_LISTEN", "127.0.0.1:0").envs(settings());
        serve.env(wrong, value);
        let mut process = Process::start(serve);
        let status = process.ended(DEADLINE).await;
        assert!(!status.success());
        let told = process.err.text();
        assert!(told.contains(named), "{wrong}: {told}");
        assert!(!told.contains(&given("SLESS_TEST_S3_SECRET_KEY")), "{told}");
    }
}
