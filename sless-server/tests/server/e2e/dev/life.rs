//! From the command to its end.

use std::{
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use sless_api::client::Call;

use super::{DEADLINE, Desk, Dev, HELLO, LOOK, command, shell};
use crate::e2e::process::{marked_processes, marks_below};

#[tokio::test]
async fn each_folder_gets_a_url_and_a_curl_line_that_works() {
    let desk = Desk::new();
    let python = desk.folder(
        "My_Greeter",
        &[(
            "handler.py",
            "def handle(e):\n    return f\"hi {e['name']}\"\n",
        )],
    );
    let node = desk.folder(
        "web",
        &[("handler.js", "exports.handle = (e) => `node ${e.name}`;\n")],
    );
    let dev = Dev::start(&desk.data(), &[&python, &node]).await;
    for (name, expected) in [("my-greeter", "hi you"), ("web", "node you")] {
        dev.ready(name).await;
        let url = format!("  {}/fn/dev/{name}", dev.url);
        let line = dev.process.out.until("the curl line", |lines| {
            let at = lines.iter().position(|line| *line == url)?;
            lines.get(at + 1).cloned()
        });
        let answer = shell(&line.await, desk.root.path());
        assert_eq!(
            String::from_utf8_lossy(&answer.stdout),
            expected,
            "{answer:?}"
        );
    }
    dev.stop().await;
}

#[tokio::test]
async fn logs_of_all_functions_stand_behind_their_names() {
    let desk = Desk::new();
    let code =
        "import sys\ndef handle(event):\n    print('seen')\n    print('warned', file=sys.stderr)\n";
    let (a, b) = (
        desk.folder("a", &[("handler.py", code)]),
        desk.folder("bcd", &[("handler.py", code)]),
    );
    let dev = Dev::start(&desk.data(), &[&a, &b]).await;
    for name in ["a", "bcd"] {
        dev.ready(name).await;
        dev.answers(name).await;
    }
    for line in ["a   | seen", "a   | warned", "bcd | seen", "bcd | warned"] {
        dev.process
            .out
            .until(line, |lines| {
                lines.iter().any(|found| found == line).then_some(())
            })
            .await;
    }
    assert!(
        !dev.process.out.text().contains('\x1b'),
        "no colours outside of a terminal"
    );
    dev.stop().await;
}

#[tokio::test]
async fn it_ends_cleanly_and_starts_again_without_a_new_installation() {
    let desk = Desk::new();
    let code = "import six\ndef handle(event):\n    return six.__version__\n";
    let folder = desk.folder(
        "hello",
        &[("handler.py", code), ("requirements.txt", "six==1.16.0\n")],
    );
    let dev = Dev::start(&desk.data(), &[&folder]).await;
    dev.ready("hello").await;
    assert_eq!(dev.answers("hello").await, "1.16.0");
    assert!(
        dev.process.out.text().contains("hello | pip install"),
        "{}",
        dev.process.out.text()
    );
    let marks = marks_below(dev.process.id());
    assert!(!marks.is_empty(), "a worker runs");
    dev.stop().await;
    let left: Vec<_> = marked_processes()
        .into_iter()
        .filter(|(_, _, mark)| marks.contains(mark))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let dev = Dev::start(&desk.data(), &[&folder]).await;
    dev.ready("hello").await;
    assert_eq!(dev.answers("hello").await, "1.16.0");
    assert!(
        !dev.process.out.text().contains("pip install"),
        "{}",
        dev.process.out.text()
    );
    dev.stop().await;
}

#[tokio::test]
async fn told_twice_it_ends_at_once_whatever_goes_on() {
    let desk = Desk::new();
    let code = "import time\ndef handle(event):\n    print('sleeps')\n    time.sleep(50)\n";
    let folder = desk.folder("hello", &[("handler.py", code)]);
    let mut patient = command(Some(&desk.data()), ["dev", "--port", "0"]);
    patient.arg(&folder).env("SLESS_DRAIN_TIMEOUT", "60s");
    let mut dev = Dev::run(patient).await;
    dev.ready("hello").await;
    let client = dev.client();
    let call =
        tokio::spawn(async move { client.call("dev", "hello", Call::new("GET")).await.is_err() });
    dev.process.out.until_there("sleeps", 1).await;
    let marks = marks_below(dev.process.id());
    dev.process.signal(Signal::INT);
    dev.process
        .out
        .until_there("Ctrl-C once more ends at once", 1)
        .await;
    dev.process.signal(Signal::INT);
    dev.process.ended(Duration::from_secs(10)).await;
    assert!(call.await.unwrap(), "the call was cut off");
    let began = Instant::now();
    while marked_processes()
        .iter()
        .any(|(_, _, mark)| marks.contains(mark))
    {
        assert!(began.elapsed() < DEADLINE, "a worker outlived its server");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test]
async fn two_run_side_by_side_and_the_same_folders_are_refused_with_the_reason() {
    let desk = Desk::new();
    let (a, b) = (
        desk.folder("a", &[("handler.py", HELLO)]),
        desk.folder("b", &[("handler.py", HELLO)]),
    );
    let start = |folder: &Path| {
        let mut dev = command(None, ["dev", "--port", "0"]);
        dev.arg(folder).env("XDG_CACHE_HOME", desk.data());
        dev
    };
    let first = Dev::run(start(&a)).await;
    let second = Dev::run(start(&b)).await;
    first.ready("a").await;
    second.ready("b").await;
    assert_eq!(first.answers("a").await, "one");
    assert_eq!(second.answers("b").await, "one");
    assert_eq!(first.call("b").await.0, 404);

    let output = start(&a).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    for named in ["SLESS_DATA_DIR", "dev", &first.process.id().to_string()] {
        assert!(error.contains(named), "{named}: {error}");
    }
    first.stop().await;
    second.stop().await;
}

#[test]
fn what_is_wrong_with_the_command_is_named() {
    let desk = Desk::new();
    let good = desk.folder("good", &[("handler.py", HELLO)]);
    let go = desk.folder("go", &[("main.go", "")]);
    let bad = desk.folder(
        "bad",
        &[
            ("handler.py", HELLO),
            ("sless.toml", "name = 'a'\nruntime = 'perl'\n"),
        ],
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let missing = desk.root.path().join("missing");
    let cases: [(&[&Path], &str, &[&str]); 6] = [
        (
            &[&missing],
            "0",
            &["missing cannot be read", "expected a folder"],
        ),
        (&[&good.join("handler.py")], "0", &["handler.py is a file"]),
        (
            &[&good, &go],
            "0",
            &[
                "go holds no function",
                "handler.py",
                "handler.js",
                "sless.toml",
            ],
        ),
        (
            &[&bad],
            "0",
            &["bad/sless.toml:2:1: field runtime", "python3.11"],
        ),
        (&[&good, &good], "0", &["both named `good`"]),
        (&[&good], &port, &[&port, "--port", "in use"]),
    ];
    for (folders, port, told) in cases {
        let output = command(Some(&desk.data()), ["dev", "--port", port])
            .args(folders)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8_lossy(&output.stderr);
        for text in told {
            assert!(error.contains(text), "{text}: {error}");
        }
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}
