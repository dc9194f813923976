//! `login`, `context`, `doctor`, and what happens without access.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    time::{Duration, SystemTime},
};

use crate::support::{Done, World, run};

/// As somebody who has only what was signed in to.
fn plain(world: &World, arguments: &[&str]) -> Done {
    run(world.bare(arguments), None)
}

fn login(world: &World, name: &str) {
    fs::write(world.work().join("token"), &world.token).unwrap();
    let arguments = [
        "login",
        "--server",
        &world.endpoint,
        "--name",
        name,
        "--token-file",
        "token",
    ];
    let done = plain(world, &arguments);
    assert_eq!(done.status, 0, "{done:#?}");
    assert!(
        done.err.contains("signed in to") && done.err.contains("as alice, until"),
        "{done:#?}"
    );
    assert!(
        !done.err.contains(&world.token) && done.out.is_empty(),
        "{done:#?}"
    );
}

#[test]
fn who_signed_in_needs_nothing_more() {
    let world = World::new();
    login(&world, "home");
    let mode = fs::metadata(world.contexts()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    plain(&world, &["init", "hello"]);
    let deployed = plain(&world, &["deploy", "hello"]);
    assert_eq!(deployed.status, 0, "{deployed:#?}");
    let list = plain(&world, &["context", "list"]);
    assert!(
        list.out.contains("home") && list.out.contains(&world.namespace),
        "{list:#?}"
    );
    assert!(!list.out.contains(&world.token));
    login(&world, "second");
    assert_eq!(plain(&world, &["context", "use", "home"]).status, 0);
    let json = plain(&world, &["context", "list", "-o", "json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json[0]["name"], &json[0]["current"]),
        (&"home".into(), &true.into())
    );
    assert_eq!(json[1]["current"], false);
    assert_eq!(plain(&world, &["list", "--context", "second"]).status, 0);
    let done = plain(&world, &["list", "--context", "third"]);
    assert_eq!(done.status, 3);
    assert!(done.err.contains("there are: home, second"), "{done:#?}");
    assert_eq!(plain(&world, &["context", "remove", "home"]).status, 0);
    assert!(
        !fs::read_to_string(world.contexts())
            .unwrap()
            .contains("home")
    );
    let done = plain(&world, &["list"]);
    assert_eq!(done.status, 3, "none is current: {done:#?}");
    assert!(done.err.contains("sless login"), "{done:#?}");
}

#[test]
fn a_token_that_opens_nothing_is_not_kept() {
    let world = World::new();
    let refused = |token: &str, status: i32, said: &str| {
        let mut command = world.bare(&["login", "--server", &world.endpoint, "--token-file", "-"]);
        command.env("XDG_CONFIG_HOME", world.work().join("config"));
        let done = run(command, Some(token.as_bytes()));
        assert_eq!(done.status, status, "{done:#?}");
        assert!(done.err.contains(said), "{done:#?}");
        assert!(!world.work().join("config/sless/contexts.toml").exists());
    };
    refused("hunter2", 3, "three parts");
    refused("", 3, "is empty");
    let (claims, _) = world.token.rsplit_once('.').unwrap();
    refused(&format!("{claims}.AAAA"), 5, "next: ");
    let done = plain(&world, &["login", "--server", &world.endpoint]);
    assert_eq!(done.status, 2);
    assert!(done.err.contains("--token-file -"), "{done:#?}");
    // Nothing listens there.
    let done = run(
        world.bare(&[
            "login",
            "--server",
            "http://127.0.0.1:9",
            "--token-file",
            "-",
        ]),
        Some(world.token.as_bytes()),
    );
    assert_eq!(done.status, 7, "{done:#?}");
    assert!(done.err.contains("sless doctor"), "{done:#?}");
}

#[test]
fn a_token_of_a_context_goes_to_its_own_server_only() {
    let world = World::new();
    login(&world, "home");
    let done = plain(&world, &["list", "--server", "http://127.0.0.1:9"]);
    assert_eq!(done.status, 3, "{done:#?}");
    assert!(
        done.err.contains("no token for http://127.0.0.1:9"),
        "{done:#?}"
    );
    let slash = format!("{}/", world.endpoint);
    plain(&world, &["init", "hello"]);
    assert_eq!(
        plain(&world, &["deploy", "hello", "--server", &slash]).status,
        0
    );
}

#[test]
fn every_kind_of_refusal_has_its_exit_status() {
    let world = World::new();
    world.hello();
    world.fails(&["get", "nobody"], 4, "sless list");
    world.fails(
        &["list", "--namespace", "sless-0000000000000000"],
        5,
        "its own subject",
    );
    world.fails(
        &["list", "--token", "a.b.c"],
        3,
        "does not tell its namespace",
    );
    world.fails(
        &["list", "--server", "http://127.0.0.1:9"],
        7,
        "cannot connect",
    );
    world.fails(
        &["list", "--server", "ftp://x"],
        3,
        "expected http:// or https://",
    );
    world.fails(&["frobnicate"], 2, "unrecognized subcommand");
    world.fails(
        &["trigger", "create", "t", "--function", "hello"],
        2,
        "--cron",
    );
    assert_eq!(world.run(&[]).status, 2);
    assert_eq!(world.run(&["--help"]).status, 0);
    // Quiet leaves data and errors.
    let done = world.run(&["deploy", "hello", "--quiet"]);
    assert!(
        done.err.is_empty() && done.out.ends_with("/hello\n"),
        "{done:#?}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_to_speak_of() {
    let world = World::new();
    let mut command = world.bare(&["completion", "bash"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    assert!(
        done.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn the_doctor_finds_what_is_wrong_and_says_what_to_do() {
    let world = World::new();
    let states = |arguments: &[&str], status| {
        let done = world.run(&[arguments, &["-o", "json"]].concat());
        assert_eq!(done.status, status, "{done:#?}");
        let checks: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        let checks = checks.as_array().unwrap().iter();
        let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let states: Vec<_> = checks
            .map(|check| format!("{}={}", word(&check["check"]), word(&check["state"])))
            .collect();
        states.join(" ")
    };
    let well = "context=ok token=ok server=ok ready=ok version=ok clock=ok access=ok namespace=ok";
    assert_eq!(states(&["doctor"], 0), well);
    world.hello();
    assert_eq!(states(&["doctor"], 0), well);
    let shown = world.ok(&["doctor"]);
    assert!(shown.contains("of alice, until"), "{shown}");
    let away = states(&["doctor", "--server", "http://127.0.0.1:9"], 1);
    assert!(
        away.contains("token=ok server=wrong ready=skipped"),
        "{away}"
    );
    let other = states(&["doctor", "--namespace", "sless-0000000000000000"], 1);
    assert!(
        other.contains("server=ok") && other.contains("access=wrong"),
        "{other}"
    );
    let short = world.server.token("alice", Duration::from_secs(1));
    let began = SystemTime::now();
    while began.elapsed().unwrap() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let expired = states(&["doctor", "--token", &short], 1);
    assert!(
        expired.contains("token=wrong") && expired.contains("access=wrong"),
        "{expired}"
    );
    let done = plain(&world, &["doctor", "--server", &world.endpoint]);
    assert_eq!(done.status, 1);
    assert!(done.out.contains("sless login --server URL"), "{done:#?}");
}

#[test]
fn a_contexts_file_that_others_can_read_is_told() {
    let world = World::new();
    login(&world, "home");
    fs::set_permissions(world.contexts(), fs::Permissions::from_mode(0o644)).unwrap();
    let done = plain(&world, &["doctor"]);
    assert!(
        done.out.contains("others on this machine can read"),
        "{done:#?}"
    );
    login(&world, "home");
    let mode = fs::metadata(world.contexts()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
