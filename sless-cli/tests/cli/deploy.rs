//! `deploy`, `list`, `get`, `logs` and `delete`, through pipes.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::json;

use crate::support::{World, copy};

const ESCAPE: char = '\u{1b}';

#[test]
fn from_an_empty_folder_to_a_url_and_back() {
    let world = World::new();
    let made = world.ok(&["init", "hello"]);
    assert!(
        made.lines().any(|line| line == "hello/handler.py"),
        "{made}"
    );
    let deployed = world.run(&["deploy", "hello"]);
    assert_eq!(deployed.status, 0, "{deployed:#?}");
    let url = format!("{}/fn/{}/hello", world.endpoint, world.namespace);
    // Data is the URL alone; all else is talk.
    assert_eq!(deployed.out, format!("{url}\n"));
    for said in [
        "2 files",
        "made the function hello",
        "uploaded",
        "hello is Ready",
    ] {
        assert!(deployed.err.contains(said), "{said}: {deployed:#?}");
    }
    assert!(
        !deployed.err.contains(ESCAPE) && !deployed.err.contains('\r'),
        "{deployed:#?}"
    );

    let answer = world.ok(&["invoke", "hello", "--data", r#"{"name": "Ada"}"#]);
    assert_eq!(answer, r#"{"message":"Hello, Ada!"}"#);
    let list = world.ok(&["list"]);
    let row = list
        .lines()
        .find(|line| line.starts_with("hello "))
        .unwrap();
    assert!(
        row.contains("python3.11") && row.contains("Ready") && row.ends_with(&url),
        "{list}"
    );
    assert!(!list.contains(ESCAPE));
    let get = world.ok(&["get", "hello"]);
    assert!(
        get.contains("GREETING") && !get.contains("Hello"),
        "no values: {get}"
    );
    assert_eq!(
        world.json(&["get", "hello"])["env"],
        json!({"GREETING": "Hello"})
    );
    assert_eq!(world.json(&["list"])[0]["name"], "hello");
    assert!(world.ok(&["list", "-o", "yaml"]).contains("- name: hello"));
    let logs = world.ok(&["logs", "hello", "--runs"]);
    assert_eq!(logs, "greeting Ada\n");

    world.fails(&["delete", "hello"], 2, "--yes");
    let receipt = world.ok(&["delete", "hello", "--yes"]);
    assert!(
        receipt.lines().any(|line| line.starts_with("removed ")),
        "{receipt}"
    );
    world.fails(&["get", "hello"], 4, "sless list");
    world.fails(&["delete", "hello", "--yes"], 4, "sless list");
    assert_eq!(
        world.json(&["delete", "hello", "--yes", "--ignore-missing"]),
        json!([])
    );
    assert_eq!(world.json(&["list"]), json!([]));
}

#[test]
fn the_same_code_is_uploaded_once_however_it_lies_on_disk() {
    let world = World::new();
    world.hello();
    let first = world.json(&["get", "hello"]);
    let again = world.run(&["deploy", "hello"]);
    assert!(
        again.err.contains("the code is on the server already"),
        "{again:#?}"
    );
    assert!(again.out.ends_with("/hello\n"), "{again:#?}");
    // Another place, another time, another mode, and files that are left out.
    copy(&world.work().join("hello"), &world.work().join("copy"));
    fs::set_permissions(
        world.work().join("copy/handler.py"),
        fs::Permissions::from_mode(0o600),
    )
    .unwrap();
    world.write(&[
        ("copy/.env", "SECRET=1"),
        ("copy/test_more.py", ""),
        ("copy/.gitignore", "*.log\n"),
        ("copy/a.log", ""),
    ]);
    let dry = world.json(&["deploy", "copy", "--dry-run"]);
    assert_eq!(dry["code_sha256"], first["code_sha256"]);
    assert_eq!(dry["files"], json!(["handler.py", "requirements.txt"]));
    assert_eq!(
        (&dry["upload"], &dry["changes"]),
        (&json!(false), &json!([]))
    );
    world.ok(&["deploy", "copy", "--force"]);
    let second = world.json(&["get", "hello"]);
    assert_eq!(second["code_sha256"], first["code_sha256"]);
    assert_eq!(
        second["last_built_at"], first["last_built_at"],
        "the same code is built once"
    );
}

#[test]
fn flags_win_over_the_manifest_and_the_manifest_over_the_server() {
    let world = World::new();
    world.write(&[
        (
            "f/handler.py",
            "import os\ndef handle(event): return dict(os.environ).get('A')\n",
        ),
        (
            "f/sless.toml",
            "name = 'f'\nruntime = 'python3.11'\ntimeout_seconds = 20\n[env]\nA = 'manifest'\n",
        ),
    ]);
    let deployed = world.json(&["deploy", "f", "--env", "A=flag", "--memory", "128Mi"]);
    assert_eq!(deployed["env"], json!({"A": "flag"}));
    assert_eq!(
        (&deployed["timeout_seconds"], &deployed["memory"]),
        (&json!(20), &json!("128Mi"))
    );
    assert_eq!(world.ok(&["invoke", "f"]), "flag");
    let said = world.run(&["deploy", "f"]);
    assert!(
        said.err.contains("change memory to null") && said.err.contains("change env"),
        "{said:#?}"
    );
    assert!(
        !said.err.contains("manifest"),
        "no value of the environment: {said:#?}"
    );
    let deployed = world.json(&["get", "f"]);
    assert_eq!(deployed["env"], json!({"A": "manifest"}));
    let named = world.ok(&["deploy", "f", "--name", "g"]);
    assert!(named.ends_with("/g\n"), "{named}");
    world.fails(&["deploy", "f", "--memory", "much"], 2, "memory");
    world.fails(&["deploy", "f", "--name", "No"], 2, "DNS label");
    world.fails(&["deploy", "f", "--env", "A"], 2, "NAME=VALUE");
}

#[test]
fn triggers_of_the_manifest_are_made_changed_and_removed() {
    let world = World::new();
    let manifest = |rest: &str| {
        let text = format!("name = 'f'\nruntime = 'python3.11'\n{rest}");
        world.write(&[
            ("f/handler.py", "def handle(event): pass\n"),
            ("f/sless.toml", &text),
        ]);
    };
    manifest(
        "[[trigger]]\nname = 'nightly'\ntype = 'cron'\nschedule = '0 3 * * *'\n\
              [[trigger]]\nname = 'jobs'\ntype = 'event'\nqueue = 'jobs'\n",
    );
    let said = world.run(&["deploy", "f"]);
    assert_eq!(said.status, 0, "{said:#?}");
    assert!(
        said.err
            .contains("made the trigger nightly (cron, next at "),
        "{said:#?}"
    );
    assert!(
        said.err.contains("made the trigger jobs (event)"),
        "{said:#?}"
    );
    let same = world.run(&["deploy", "f"]);
    assert!(!same.err.contains("trigger"), "nothing changes: {same:#?}");

    manifest(
        "[[trigger]]\nname = 'nightly'\ntype = 'cron'\nschedule = '0 4 * * *'\nenabled = false\n",
    );
    let said = world.run(&["deploy", "f"]);
    assert!(
        said.err.contains("changed the trigger nightly"),
        "{said:#?}"
    );
    assert!(
        said.err.contains("kept: jobs (--prune removes)"),
        "{said:#?}"
    );
    let nightly = world.json(&["trigger", "get", "nightly"]);
    assert_eq!(
        (&nightly["schedule"], &nightly["enabled"]),
        (&json!("0 4 * * *"), &json!(false))
    );
    let said = world.run(&["deploy", "f", "--prune"]);
    assert!(said.err.contains("removed the trigger jobs"), "{said:#?}");

    // What cannot be is told before anything changes.
    manifest("memory = '64Mi'\n[[trigger]]\nname = 'nightly'\ntype = 'http'\n");
    world.fails(&["deploy", "f"], 6, "a trigger keeps its type");
    assert_eq!(world.json(&["get", "f"])["memory"], json!(null));
    manifest("[[trigger]]\nname = 'nightly'\ntype = 'cron'\nschedule = '61 * * * *'\n");
    world.fails(&["deploy", "f"], 2, "f/sless.toml:6:1: ");
}

#[test]
fn code_that_cannot_run_fails_with_its_log_and_what_to_do() {
    let world = World::new();
    world.write(&[("bad/handler.py", "def handle(event:\n")]);
    let failed = world.fails(&["deploy", "bad"], 1, "bad cannot run: ");
    assert!(
        failed.err.contains("next: ") && failed.err.contains("sless logs bad --build"),
        "{failed:#?}"
    );
    assert_eq!(failed.out, "", "no URL of what does not answer");
    assert!(
        failed.err.contains("SyntaxError"),
        "the log is shown: {failed:#?}"
    );
    // A corrected one is a new try, and so is the same one.
    world.write(&[("bad/handler.py", "def handle(event): return 1\n")]);
    world.ok(&["deploy", "bad"]);
    assert_eq!(world.ok(&["invoke", "bad"]), "1");
}

#[test]
fn what_is_no_function_is_refused_before_anything_is_made() {
    let world = World::new();
    world.write(&[("empty/README.md", "")]);
    world.fails(&["deploy", "empty"], 2, "sless init");
    world.fails(&["deploy", "nowhere"], 2, "nowhere cannot be read");
    world.write(&[("f/handler.py", ""), ("f/Dockerfile", "")]);
    world.fails(&["deploy", "f"], 2, "Dockerfile");
    assert_eq!(world.json(&["list"]), json!([]), "nothing was made");
}

#[test]
fn without_waiting_the_url_comes_at_once() {
    let world = World::new();
    world.ok(&["init", "hello"]);
    let done = world.run(&["deploy", "hello", "--no-wait"]);
    assert!(
        done.err.contains("not waiting") && done.out.ends_with("/hello\n"),
        "{done:#?}"
    );
    world.ok(&["deploy", "hello"]);
}
