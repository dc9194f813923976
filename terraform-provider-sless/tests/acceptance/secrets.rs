//! Secrets reach the function and nothing else.

use std::fs;

use crate::server::Server;

const SECRETS: [&str; 3] = ["hunter-sensitive", "hunter-write-only", "hunter-again"];

#[test]
#[ignore = "needs terraform 1.11"]
fn secrets_are_neither_shown_nor_logged() {
    let server = Server::start();
    let mut tf = server.workspace();
    let log = tf.path("log");
    tf.set("TF_LOG", "TRACE");
    tf.set("TF_LOG_PATH", log.to_str().unwrap());
    tf.write(
        "src/handler.py",
        "import os\ndef handle(event):\n    return [os.environ.get(k) for k in ('P', 'S', 'W')]\n",
    );
    let body = |write_only: &str, version: u32| {
        format!(
            "env = {{ P = \"plain\" }}\nenv_sensitive = {{ S = \"hunter-sensitive\" }}\n\
             env_wo = {{ W = {write_only:?} }}\nenv_wo_version = {version}"
        )
    };
    tf.function(&body("hunter-write-only", 1));
    let mut said = tf.plan().text;
    said += &tf.apply().ok().text;
    tf.nothing_to_do();
    assert_eq!(
        server.call("f").1,
        r#"["plain","hunter-sensitive","hunter-write-only"]"#
    );

    // Terraform cannot see that it changed, and sends it again when it is told to.
    tf.function(&body("hunter-again", 1));
    tf.nothing_to_do();
    tf.function(&body("hunter-again", 2));
    said += &tf.apply().ok().says("1 changed").text;
    tf.until("the new secret is there", || {
        server.call("f").1.contains("hunter-again")
    });
    tf.nothing_to_do();

    let state = fs::read_to_string(tf.path("terraform.tfstate")).unwrap();
    assert!(state.contains("hunter-sensitive"));
    assert!(!state.contains("hunter-write-only") && !state.contains("hunter-again"));
    let log = fs::read_to_string(log).unwrap();
    let token = server.token("alice", "1h");
    let ours = log.lines().filter(|line| {
        line.contains("provider.sless") || line.contains("terraform-provider-sless")
    });
    let ours = ours.collect::<Vec<_>>().join("\n");
    assert!(ours.contains("uploaded"), "progress is in the log: {ours}");
    for secret in SECRETS.iter().chain([&token.as_str()]) {
        assert!(!said.contains(secret) && !ours.contains(secret), "{secret}");
    }

    // A variable is in one place.
    tf.function("env = { A = \"1\" }\nenv_sensitive = { A = \"2\" }");
    tf.run(&["validate"])
        .failed()
        .says("Environment variable given twice");
}
