//! Ends of every kind: nothing that exists is lost, and nothing is left behind.

use std::{
    fs,
    time::{Duration, Instant},
};

use tfplugin_acceptance::{is_running, providers_of};

use crate::server::{Server, Sless, function};

/// A function that takes its time to come up.
fn slow(tf: &Sless, seconds: u32) {
    let handler = format!("import time\ntime.sleep({seconds})\ndef handle(event):\n    return 1\n");
    tf.write("src/handler.py", &handler);
    tf.function("");
}

fn until_uploaded(server: &Server, tf: &Sless) {
    let (client, namespace) = (server.client(), server.namespace());
    tf.until("the code is there", || {
        let function = server.runtime.block_on(client.function(&namespace, "f"));
        function.is_ok_and(|function| function.code_sha256.is_some())
    });
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_server_that_restarts_in_the_middle_is_waited_for() {
    let mut server = Server::start();
    let tf = server.workspace();
    tf.write("quick/handler.py", "def handle(event):\n    return 2\n");
    slow(&tf, 2);
    let many = (0..12).map(|at| function(&format!("q{at}"), "").replace("\"src\"", "\"quick\""));
    tf.config(&(function("f", "") + &many.collect::<String>()));
    let running = tf.start(&["apply", "-auto-approve"]);
    until_uploaded(&server, &tf);
    server.kill();
    std::thread::sleep(Duration::from_millis(500));
    server.start_again();
    running.wait().ok().says("13 added");
    assert_eq!(server.call("f"), (200, "1".to_owned()));
    assert_eq!(server.call("q11"), (200, "2".to_owned()));
    tf.nothing_to_do();
    tf.run(&["destroy", "-auto-approve"]).ok();
    assert_eq!(server.count(), [0, 0, 0]);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_token_that_expires_half_way_loses_nothing() {
    let server = Server::start();
    let mut tf = server.workspace();
    slow(&tf, 3);
    let many: String = (0..6).map(|at| function(&format!("f{at}"), "")).collect();
    tf.config(&many);
    let fresh = server.token("alice", "1h");
    tf.set("SLESS_API_TOKEN", &server.token("alice", "8s"));
    let said = tf.run(&["apply", "-auto-approve", "-parallelism=1"]);
    assert_eq!(said.code, 1, "{}", said.text);
    said.says("status 401")
        .says("The token expired at")
        .says("Give the provider a new one");
    // Whatever is there is in the state, whole or tainted.
    let kept = tf.state_list().lines().count();
    assert_eq!(kept, server.count()[0]);
    assert!((1..6).contains(&kept), "{kept}: {}", said.text);
    tf.code("src", "1");
    tf.set("SLESS_API_TOKEN", &fresh);
    tf.apply().ok();
    assert_eq!(server.count()[0], 6);
    tf.nothing_to_do();
}

#[test]
#[ignore = "needs terraform 1.11"]
fn ctrl_c_stops_the_wait_and_keeps_what_exists() {
    let server = Server::start();
    let tf = server.workspace();
    slow(&tf, 60);
    let running = tf.start(&["apply", "-auto-approve"]);
    until_uploaded(&server, &tf);
    let began = Instant::now();
    running.interrupt();
    let said = running.wait();
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(said.code, 1, "{}", said.text);
    said.says("Interrupted")
        .says("Terraform was asked to stop while");
    let state = tf.state();
    assert_eq!(
        (&state["tainted"], &state["values"]["name"]),
        (&true.into(), &"f".into())
    );
    tf.run(&["destroy", "-auto-approve"]).ok();
    assert_eq!(server.count(), [0, 0, 0]);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_killed_terraform_leaves_no_provider_and_what_it_made_can_be_imported() {
    let server = Server::start();
    let tf = server.workspace();
    slow(&tf, 5);
    let mut running = tf.start(&["apply", "-auto-approve"]);
    until_uploaded(&server, &tf);
    let providers = providers_of(running.id());
    assert!(!providers.is_empty());
    running.kill();
    tf.until("no provider is left", || {
        !providers.iter().any(|provider| is_running(*provider))
    });
    // The lock of a dead process does not hold; its mark goes with the next apply.
    let _ = fs::remove_file(tf.path(".terraform.tfstate.lock.info"));
    tf.apply()
        .failed()
        .says("There is a function named `f` already");
    tf.run(&["import", "sless_function.f", "f"]).ok();
    tf.until("it is ready", || {
        server
            .runtime
            .block_on(server.client().function(&server.namespace(), "f"))
            .unwrap()
            .ready_replicas
            > 0
    });
    tf.nothing_to_do();
}

#[test]
#[ignore = "needs terraform 1.11"]
fn time_limits_say_which_they_are_and_how_far_it_was() {
    let server = Server::start();
    let tf = server.workspace();
    slow(&tf, 60);
    for (limit, named) in [
        ("timeouts = { create = \"2s\" }", "`timeouts` of 2s"),
        ("build_timeout_sec = 2", "`build_timeout_sec` of 2 s"),
    ] {
        tf.function(limit);
        let said = tf.apply();
        said.failed()
            .says("The function f did not become ready in time")
            .says(named);
        assert!(
            said.text.contains("Building") || said.text.contains("Pending"),
            "{}",
            said.text
        );
        assert_eq!(tf.state()["tainted"], true);
        tf.run(&["destroy", "-auto-approve"]).ok();
    }
    // A run that takes too long.
    tf.write(
        "src/handler.py",
        "import time\ndef handle(event):\n    time.sleep(40)\n",
    );
    tf.config(
        &(function("f", "")
            + "resource \"sless_job\" \"j\" {\n name = \"j\"\n function = sless_function.f.name\n run_id = 1\n \
               wait_timeout_sec = 1\n}"),
    );
    tf.apply()
        .failed()
        .says("The job j did not end in time")
        .says("`wait_timeout_sec` of 1 s")
        .says("Running");
    tf.run(&["destroy", "-auto-approve"]).ok();
    assert_eq!(server.count(), [0, 0, 0]);
}
