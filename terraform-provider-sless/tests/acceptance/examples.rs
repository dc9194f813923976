//! The configurations of `examples/terraform`, applied.

use std::{fs, path::Path};

use crate::server::Server;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Applies an example, and sees that nothing is to do then.
fn apply(name: &str, check: impl FnOnce(&Server, &serde_json::Value)) {
    let server = Server::start();
    let tf = server.workspace();
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/terraform")
        .join(name);
    copy(&example, &tf.path("."));
    // They name the provider as the registry will have it; here it is the one of this build.
    let main = fs::read_to_string(tf.path("main.tf")).unwrap();
    assert!(main.contains("sless-dev/sless"));
    tf.write("main.tf", &main.replace("sless-dev/sless", "test/sless"));
    tf.apply().ok();
    tf.nothing_to_do();
    check(&server, &tf.shown()["values"]["outputs"]);
    tf.run(&["destroy", "-auto-approve"]).ok();
    assert_eq!(server.count(), [0, 0, 0]);
}

#[test]
#[ignore = "needs terraform 1.11"]
fn hello() {
    apply("hello", |server, outputs| {
        let url = outputs["url"]["value"].as_str().unwrap();
        assert!(url.ends_with("/hello"), "{url}");
        let (status, body) = server.call("hello");
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("Hello"), "{body}");
    });
}

#[test]
#[ignore = "needs terraform 1.11"]
fn schedule_and_queue() {
    apply("schedule-and-queue", |server, outputs| {
        assert!(outputs["next_report"]["value"].is_string(), "{outputs}");
        assert_eq!(server.count(), [2, 2, 0]);
    });
}

#[test]
#[ignore = "needs terraform 1.11"]
fn migration() {
    apply("migration", |_, outputs| {
        assert_eq!(outputs["migrated_to"]["value"], 7, "{outputs}");
    });
}
