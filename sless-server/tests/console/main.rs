//! The web console in a browser: each test is a scenario of `testing/browser/scenarios`, which starts
//! the server on a folder and a port of its own.

#![allow(clippy::unwrap_used)]

#[cfg(feature = "full")]
#[path = "../ground/mod.rs"]
mod ground;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long a scenario may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs a scenario and shows what it says where it fails. Functions run on this machine, or where `cluster`
/// says, in the form that `world.mjs` reads.
fn run(scenario: &str, cluster: Option<String>) {
    for name in [
        "SLESS_TEST_BROWSER",
        "SLESS_TEST_BROWSER_MODULES",
        "SLESS_TEST_BROWSER_STATE",
    ] {
        assert!(
            std::env::var_os(name).is_some(),
            "{name} is not set: testing/browser/up prints it"
        );
    }
    let scenarios = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testing/browser/scenarios");
    let mut output = tempfile::tempfile().unwrap();
    let mut node = Command::new("node")
        .arg(scenarios.join("run.mjs"))
        .arg(scenario)
        .env("SLESS_TEST_SERVER", env!("CARGO_BIN_EXE_sless-server"))
        .envs(cluster.map(|cluster| ("SLESS_TEST_CLUSTER", cluster)))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap())
        .spawn()
        .expect("node runs");
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = node.try_wait().unwrap() {
            break Some(status);
        }
        if begun.elapsed() > LIMIT {
            node.kill().unwrap();
            node.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    use std::io::{Read, Seek};
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    match status {
        Some(status) if status.success() => {}
        Some(status) => panic!("{scenario}: {status}\n{text}"),
        None => panic!("{scenario} took longer than {LIMIT:?}\n{text}"),
    }
}

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        $(
            #[test]
            #[ignore = "needs a browser: testing/browser/up"]
            fn $name() {
                run(stringify!($name), None);
            }
        )*

        /// A scenario that nobody runs would pass for ever.
        #[test]
        fn every_scenario_is_a_test() {
            let folder =
                PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testing/browser/scenarios");
            let mut found: Vec<String> = std::fs::read_dir(folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter_map(|name| Some(name.strip_suffix(".mjs")?.to_owned()))
                .filter(|name| !["run", "world"].contains(&name.as_str()))
                .collect();
            found.sort();
            let mut tests = vec![$(stringify!($name)),*];
            tests.sort();
            assert_eq!(found, tests);
        }
    };
}

scenarios![
    accessibility,
    accordion,
    apart,
    call_form,
    console_alone,
    dead_letters,
    drop_code,
    drop_folder,
    flow,
    live_logs,
    many_functions,
    markup,
    own_host,
    pages,
    restart,
    screenshots,
    sign_in,
    start_and_stop,
    two_tabs,
    without_scripts,
];

/// The same life of a function, with an alice whose namespace in the cluster is no other test's.
#[cfg(feature = "full")]
#[test]
#[ignore = "needs a browser, S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
fn flow_in_a_cluster() {
    let subject = format!("alice-{:08x}", fastrand::u32(..));
    let namespace = sless_core::Namespace::of_subject(&subject).to_string();
    let data = tempfile::tempdir().unwrap();
    let ground = ground::Ground::new(&namespace);
    let settings = ground::settings("kubernetes", &namespace, data.path());
    let settings: std::collections::BTreeMap<_, _> = settings.into_iter().collect();
    let cluster = serde_json::json!({"settings": settings, "subject": subject});
    run("flow", Some(cluster.to_string()));
    ground.is_bare_again();
}
