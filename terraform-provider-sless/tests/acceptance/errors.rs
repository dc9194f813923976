//! What is refused, and in which words.

use crate::{
    peer::Peer,
    server::{Server, function},
};

#[test]
#[ignore = "needs terraform 1.11"]
fn what_the_server_would_refuse_is_refused_before() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    let name = |name: &str| function("f", "").replace("name = \"f\"", &format!("name = {name:?}"));
    tf.config(&name(&"x".repeat(63)));
    tf.run(&["validate"]).ok();
    let trigger = |more: &str| {
        format!("resource \"sless_trigger\" \"t\" {{\n name = \"t\"\n function = \"f\"\n{more}\n}}")
    };
    for (body, at, problem) in [
        (name(&"x".repeat(64)), "name", "63"),
        (name("Big"), "name", "Invalid value"),
        (name("a.b"), "name", "Invalid value"),
        (name("a-"), "name", "Invalid value"),
        (function("f", "filename = \"x.zip\""), "filename", "exclude each other"),
        (function("f", "").replace("source_dir = \"src\"", ""), "sless_function", "Missing attribute"),
        (function("f", "").replace("python3.11", "cobol"), "runtime", "is not known"),
        (function("f", "memory = \"much\""), "memory", "memory"),
        (function("f", "replicas = -1"), "replicas", "0 or more"),
        (function("f", "max_replicas = 0"), "max_replicas", "1 to 1000"),
        (function("f", "idle_seconds = -1"), "idle_seconds", "0 or more"),
        (function("f", "timeout = 0"), "timeout", "timeout_seconds"),
        (function("f", "timeouts = { create = \"5\" }"), "create", "is not a duration"),
        (function("f", "env = { \"1A\" = \"\" }"), "env", "not beginning with a digit"),
        (trigger("type = \"sometimes\""), "type", "is none of"),
        (trigger("type = \"cron\""), "", "schedule is missing"),
        (trigger("type = \"cron\"\nschedule = \"0 0 31 2 *\""), "schedule", "never"),
        (trigger("type = \"cron\"\nschedule = \"60 * * * *\""), "schedule", "60"),
        (trigger("type = \"http\"\nqueue = \"q\""), "queue", "does not belong"),
        (trigger("type = \"event\"\nqueue = \"q\"\ndelivery = { min_backoff = \"7\" }"), "min_backoff", "is not a duration"),
        (
            "resource \"sless_job\" \"j\" {\n name = \"j\"\n function = \"f\"\n event_json = \"{secret\"\n}".to_owned(),
            "event_json",
            "is not JSON",
        ),
        (
            "resource \"sless_job\" \"j\" {\n name = \"j\"\n function = \"f\"\n run_id = -1\n}".to_owned(),
            "run_id",
            "0 or more",
        ),
    ] {
        tf.config(&body);
        tf.run(&["validate"]).failed().says(problem).says(at);
    }
    tf.write("src/handler.py", "");
    tf.config(&function("f", "entrypoint = \"app.main\""));
    tf.plan()
        .failed()
        .says("The code has no such handler")
        .says("app.py");
    tf.config(&function("f", "").replace("\"src\"", "\"nowhere\""));
    tf.plan()
        .failed()
        .says("The code cannot be used")
        .says("nowhere is not a folder");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_failed_build_shows_the_end_of_its_log_and_is_mended() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    tf.write("src/requirements.txt", "not a requirement at all\n");
    tf.function("");
    let said = tf.apply();
    said.failed()
        .says("The function f is not ready")
        .says("not a requirement at all");
    assert_eq!(tf.state()["tainted"], true, "it exists");
    tf.write("src/requirements.txt", "");
    tf.apply().ok().says("1 added, 0 changed, 1 destroyed");
    assert_eq!(server.call("f"), (200, "1".to_owned()));

    // In a change, it is not replaced: it is brought up again.
    tf.write("src/handler.py", "import nowhere_to_be_found\n");
    tf.apply().failed().says("nowhere_to_be_found");
    tf.apply().failed().says("nowhere_to_be_found");
    tf.code("src", "2");
    tf.apply().ok().says("0 added, 1 changed, 0 destroyed");
    assert_eq!(server.call("f"), (200, "2".to_owned()));

    // Two of one name.
    tf.config(&(function("f", "") + &function("g", "").replace("name = \"g\"", "name = \"f\"")));
    tf.apply()
        .failed()
        .says("There is a function named `f` already")
        .says("terraform import sless_function.LABEL f");

    // A job that fails.
    tf.write(
        "src/handler.py",
        "def handle(event):\n    raise ValueError('no luck')\n",
    );
    tf.config(
        &(function("f", "")
            + "resource \"sless_job\" \"j\" {\n name = \"j\"\n function = sless_function.f.name\n run_id = 1\n}"),
    );
    tf.apply().failed().says("The job j failed").says("no luck");
    assert_eq!(tf.values("sless_job.j")["phase"], "Failed");
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_refused_upload_says_why() {
    let peer = Peer::start();
    let tf = peer.workspace();
    tf.code("src", "1");
    tf.function("");
    peer.refuse_uploads("code validation failed: it mines coins");
    let said = tf.apply();
    said.failed()
        .says("The code of f is refused")
        .says("code validation failed: it mines coins");
    assert_eq!(tf.state()["tainted"], true);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn a_create_whose_answer_was_lost_is_found_again() {
    let peer = Peer::start();
    let tf = peer.workspace();
    tf.code("src", "1");
    tf.function("");
    peer.lose_next_answer();
    tf.apply().ok().says("1 added");
    assert_eq!(peer.creates(), 2, "asked twice, made once");
}
