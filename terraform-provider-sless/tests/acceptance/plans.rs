//! What is a change, and what is none.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use crate::server::{Server, function};

#[test]
#[ignore = "needs terraform 1.11"]
fn contents_count_and_nothing_else() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    tf.write("src/lib/util.py", "X = 1\n");
    tf.write("src/.slessignore", "notes.txt\n");
    tf.write("src/sub/empty/.keep", "");
    tf.function("code_hash = \"first\"\ntimeout = 30\nenv = {}");
    tf.apply().ok();
    tf.nothing_to_do();
    let digest = tf.values("sless_function.f")["digest"].clone();

    // Times, modes, ignored files, the folder's place, and a hash of the user's own.
    let file = tf.path("src/handler.py");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::File::open(&file)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    tf.write("src/notes.txt", "later");
    fs::rename(tf.path("src"), tf.path("elsewhere")).unwrap();
    let moved =
        function("f", "code_hash = \"second\"\ntimeout = 30").replace("\"src\"", "\"elsewhere\"");
    tf.config(&moved);
    tf.nothing_to_do();

    // The same contents as a zip made by somebody else.
    let zipped = Command::new("python3")
        .args(["-c", "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1],'w',strict_timestamps=False)\n[z.write(sys.argv[2]+'/'+n,n) for n in ('lib/util.py','handler.py')]"])
        .arg(tf.path("code.zip"))
        .arg(tf.path("elsewhere"))
        .status();
    assert!(zipped.unwrap().success());
    tf.config(&moved.replace("source_dir = \"elsewhere\"", "filename = \"code.zip\""));
    tf.apply().ok().says("1 changed").lacks("~ digest");
    assert_eq!(tf.values("sless_function.f")["digest"], digest);

    // The executable bit counts.
    tf.config(&moved);
    tf.apply().ok();
    let tool = tf.path("elsewhere/lib/util.py");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    tf.plan().says("~ digest");

    // What was a setting is a default again.
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o644)).unwrap();
    tf.config(&moved.replace("timeout = 30", ""));
    tf.apply().ok().says("30 -> 60");
    tf.nothing_to_do();
}

#[test]
#[ignore = "needs terraform 1.11"]
fn what_comes_later_and_what_changed_meanwhile() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    let later = "resource \"terraform_data\" \"t\" { input = \"src\" }\n".to_owned()
        + &function("f", "env = { ID = terraform_data.t.id }")
            .replace("\"src\"", "terraform_data.t.output");
    tf.config(&later);
    tf.plan().says("+ digest").says("(known after apply)");
    tf.apply().ok();
    tf.nothing_to_do();

    tf.code("src", "2");
    tf.run(&["plan", "-out", "saved"]).ok();
    tf.code("src", "3");
    let refused = tf.run(&["apply", "saved"]);
    refused
        .failed()
        .says("inconsistent final plan")
        .says(".digest: was");
    tf.apply().ok();
    assert_eq!(server.call("f"), (200, "3".to_owned()));
}

#[test]
#[ignore = "needs terraform 1.11"]
fn two_ways_to_say_the_same_are_no_change() {
    let server = Server::start();
    let tf = server.workspace();
    tf.code("src", "1");
    let body = |memory: &str, backoff: &str, event: &str| {
        function("f", &format!("memory = {memory:?}"))
            + &format!(
                "resource \"sless_trigger\" \"t\" {{\n name = \"t\"\n type = \"event\"\n function = \
                 sless_function.f.name\n queue = \"q\"\n delivery = {{ max_backoff = {backoff:?} }}\n}}\n\
                 resource \"sless_job\" \"j\" {{\n name = \"j\"\n function = sless_function.f.name\n \
                 event_json = {event:?}\n}}\n"
            )
    };
    tf.config(&body("1Gi", "60s", "{\"a\": 1}"));
    tf.apply().ok();
    tf.nothing_to_do();
    tf.config(&body("1024Mi", "1m", "{ \"a\":1 }"));
    tf.nothing_to_do();
    tf.config(&body("512Mi", "2m", "{\"a\": 2}"));
    tf.apply().ok().says("0 added, 3 changed, 0 destroyed");
    tf.nothing_to_do();
    // Not said at all is what the server does by itself.
    tf.config(
        &body("512Mi", "2m", "{\"a\": 2}").replace("delivery = { max_backoff = \"2m\" }", ""),
    );
    tf.apply().ok().says("1 changed");
    tf.nothing_to_do();
    let there = server.client();
    let trigger = server
        .runtime
        .block_on(there.trigger(&server.namespace(), "t"))
        .unwrap();
    assert_eq!(
        trigger.delivery.unwrap().max_backoff.unwrap().to_string(),
        "5m"
    );
}
