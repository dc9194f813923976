//! Ends of every kind, after each of which the state says what exists.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    process::Command,
    time::{Duration, Instant},
};

use tfplugin_acceptance::{DEADLINE, is_running, providers_of};

use crate::files::Files;

#[test]
#[ignore = "needs terraform 1.11"]
fn what_exists_is_kept_and_tainted_when_a_create_fails() {
    let tf = Files::new();
    for (content, error) in [
        ("FAIL", "Error: Waiting failed"),
        ("PANIC", "Error: Creating failed inside the provider"),
    ] {
        tf.object(&format!("name = \"a\"\ncontent = {content:?}"));
        tf.apply().failed().says(error);
        let state = tf.state();
        assert_eq!(state["tainted"], true, "{state}");
        assert_eq!(state["values"]["name"], "a");
        assert_eq!(tf.stored().len(), 1);
        tf.run(&["destroy", "-auto-approve"]).ok();
        assert!(tf.stored().is_empty());
    }
}

#[test]
#[ignore = "needs terraform 1.11"]
fn an_operation_without_an_outcome_is_an_error() {
    let mut tf = Files::new();
    tf.object("name = \"a\"\ncontent = \"SILENT\"");
    tf.apply()
        .failed()
        .says("ended a create without an outcome");
    tf.object("name = \"a\"");
    tf.apply().ok();
    tf.set("FILES_SILENT_DELETE", "1");
    tf.run(&["destroy", "-auto-approve"])
        .failed()
        .says("ended a delete without an outcome");
    assert_eq!(tf.state_list(), "files_object.o");
    tf.unset();
    tf.set("FILES_FAIL_DELETE", "1");
    tf.run(&["destroy", "-auto-approve"])
        .failed()
        .says("The store said 503.");
    assert_eq!(tf.state_list(), "files_object.o");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_time_out_is_one_error_and_loses_nothing() {
    let tf = Files::new();
    tf.object("name = \"a\"\ncontent = \"SLOW\"\ntimeouts = { create = \"1s\" }");
    let began = Instant::now();
    tf.apply()
        .failed()
        .says("Timed out")
        .says("last seen: SLOW");
    assert!(
        began.elapsed() < Duration::from_secs(25),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(tf.state()["tainted"], true);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn ctrl_c_stops_the_wait_and_keeps_the_object() {
    let tf = Files::new();
    tf.object("name = \"a\"\ncontent = \"SLOW\"");
    let running = tf.start(&["apply", "-auto-approve"]);
    tf.until_stored();
    running.interrupt();
    let said = running.wait();
    assert_eq!(said.code, 1, "{}", said.text);
    said.says("Interrupted").says("The object exists.");
    assert_eq!(tf.state()["tainted"], true);
    assert_eq!(tf.stored().len(), 1);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_killed_terraform_leaves_no_provider_behind() {
    let tf = Files::new();
    tf.object("name = \"a\"\ncontent = \"SLOW\"");
    let mut running = tf.start(&["apply", "-auto-approve"]);
    tf.until_stored();
    let providers = providers_of(running.id());
    assert!(!providers.is_empty());
    running.kill();
    let began = Instant::now();
    while providers.iter().any(|provider| is_running(*provider)) {
        assert!(began.elapsed() < DEADLINE, "left over: {providers:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn started_by_hand_it_says_what_it_is() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terraform-provider-files"));
    let output = command
        .process_group(0)
        .env_remove("TF_PLUGIN_MAGIC_COOKIE")
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(
        output.stdout.is_empty(),
        "standard output is for the handshake"
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("is a Terraform provider"));
}

#[test]
fn the_socket_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::{io::BufRead as _, process::Stdio};
    let folder = tempfile::tempdir().unwrap();
    let mut provider = Command::new(env!("CARGO_BIN_EXE_terraform-provider-files"))
        .env(
            "TF_PLUGIN_MAGIC_COOKIE",
            "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
        )
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("PLUGIN_UNIX_SOCKET_DIR", folder.path())
        .env_remove("PLUGIN_CLIENT_CERT")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(provider.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let parts: Vec<_> = line.trim().split('|').collect();
    assert_eq!(
        [parts[0], parts[1], parts[2], parts[4]],
        ["1", "6", "unix", "grpc"],
        "{line}"
    );
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let socket = std::path::Path::new(parts[3]);
    assert_eq!(mode(socket), 0o600);
    assert_eq!(mode(socket.parent().unwrap()), 0o700);
    provider.kill().unwrap();
    provider.wait().unwrap();
}
