//! `job`.

use serde_json::json;

use crate::support::{World, run};

#[test]
fn a_job_is_run_waited_for_and_read() {
    let world = World::new();
    world.hello();
    let result = world.ok(&[
        "job",
        "run",
        "hello",
        "--data",
        r#"{"name":"Ada"}"#,
        "--wait",
    ]);
    assert_eq!(result, "{\n  \"message\": \"Hello, Ada!\"\n}\n");
    let name = world.ok(&["job", "run", "hello", "--name", "report"]);
    assert_eq!(name, "report\n");
    assert_eq!(world.ok(&["job", "wait", "report"]), "Succeeded\n");
    let result = world.json(&["job", "result", "report"]);
    assert_eq!(result, json!({"message": "Hello, world!"}));
    // The same name runs it again.
    let again = run(
        world.command(&[
            "job", "run", "hello", "--name", "report", "--file", "-", "--wait",
        ]),
        Some(br#"{"name":"Bob"}"#),
    );
    assert!(
        again.status == 0 && again.out.contains("Hello, Bob!"),
        "{again:#?}"
    );
    let logs = world.ok(&["job", "logs", "report"]);
    assert!(logs.contains("greeting Bob"), "{logs}");
    let list = world.ok(&["job", "list"]);
    assert!(
        list.lines()
            .any(|line| line.starts_with("report ") && line.contains("Succeeded")),
        "{list}"
    );
    world.fails(&["job", "delete", "report"], 2, "--yes");
    world.ok(&["job", "delete", "report", "--yes"]);
    world.fails(&["job", "wait", "report"], 4, "sless job list");
}

#[test]
fn a_job_that_fails_fails_the_command() {
    let world = World::new();
    world.write(&[(
        "f/handler.py",
        "def handle(event): raise ValueError('no tea')\n",
    )]);
    world.ok(&["deploy", "f"]);
    let failed = world.fails(
        &["job", "run", "f", "--name", "j", "--wait"],
        1,
        "the job j failed",
    );
    assert!(failed.err.contains("sless job logs j"), "{failed:#?}");
    let waited = world.fails(&["job", "wait", "j"], 1, "the job j failed");
    assert_eq!(waited.out, "Failed\n");
    world.fails(&["job", "result", "j"], 1, "the job j failed");
    world.fails(&["job", "run", "nobody"], 4, "sless list");
    world.fails(
        &["job", "run", "f", "--data", "tea"],
        2,
        "the event is not JSON",
    );
    world.ok(&["deploy", "f", "--name", "g"]);
    world.fails(
        &["job", "run", "g", "--name", "j"],
        6,
        "belongs to the function f",
    );
}
