//! `trigger` and its dead letters.

use serde_json::json;
use sless_api::client::Content;

use crate::support::{World, until};

#[test]
fn a_schedule_is_made_shown_switched_and_removed() {
    let world = World::new();
    world.hello();
    let made = world.ok(&[
        "trigger",
        "create",
        "nightly",
        "--function",
        "hello",
        "--cron",
        "0 3 * * *",
        "--time-zone",
        "Europe/Berlin",
        "--overlap",
        "allow",
    ]);
    assert!(made.contains("0 3 * * * (Europe/Berlin)"), "{made}");
    let list = world.ok(&["trigger", "list"]);
    let row = list
        .lines()
        .find(|line| line.starts_with("nightly "))
        .unwrap();
    assert!(row.contains("cron") && row.contains("hello"), "{list}");
    let next = world.ok(&["trigger", "next", "nightly"]);
    assert_eq!(next.lines().count(), 5, "{next}");
    assert!(
        next.lines()
            .all(|line| line.contains("T03:00:00") && line.contains("[Europe/Berlin]  in ")),
        "{next}"
    );
    assert_eq!(
        world.ok(&["trigger", "disable", "nightly"]),
        "nightly is disabled\n"
    );
    assert_eq!(world.json(&["trigger", "get", "nightly"])["enabled"], false);
    assert_eq!(
        world.ok(&["trigger", "enable", "nightly"]),
        "nightly is enabled\n"
    );
    assert_eq!(
        world
            .json(&["trigger", "next", "nightly"])
            .as_array()
            .unwrap()
            .len(),
        5
    );
    world.fails(
        &[
            "trigger",
            "create",
            "nightly",
            "--function",
            "hello",
            "--http",
        ],
        6,
        "trigger get nightly",
    );
    world.fails(
        &[
            "trigger",
            "create",
            "t",
            "--function",
            "hello",
            "--cron",
            "0 0 31 2 *",
        ],
        2,
        "schedule",
    );
    world.fails(&["trigger", "get", "nobody"], 4, "sless trigger list");
    world.fails(&["trigger", "delete", "nightly"], 2, "--yes");
    world.ok(&["trigger", "delete", "nightly", "--yes"]);
    assert_eq!(world.json(&["trigger", "list"]), json!([]));
}

#[test]
fn an_http_trigger_switches_the_url_off_and_on() {
    let world = World::new();
    world.hello();
    world.ok(&["trigger", "create", "url", "--function", "hello", "--http"]);
    world.fails(&["trigger", "next", "url"], 2, "only the clock");
    world.ok(&["trigger", "disable", "url"]);
    let called = || world.run(&["invoke", "hello", "-o", "json"]);
    let status =
        || serde_json::from_str::<serde_json::Value>(&called().out).unwrap()["status"].clone();
    until(
        "it is off",
        || status() == 503,
        || format!("{:?}", called()),
    );
    world.fails(&["invoke", "hello"], 1, "sless get hello");
    world.ok(&["trigger", "enable", "url"]);
    until("it is on", || status() == 200, || format!("{:?}", called()));
}

#[test]
fn dead_letters_are_listed_shown_redriven_and_purged() {
    let world = World::new();
    world.write(&[(
        "f/handler.py",
        "def handle(event): raise ValueError('never')\n",
    )]);
    world.ok(&["deploy", "f"]);
    world.ok(&[
        "trigger",
        "create",
        "in",
        "--function",
        "f",
        "--queue",
        "in",
        "--max-attempts",
        "1",
    ]);
    let none = world.run(&["trigger", "dead-letters", "list", "in"]);
    assert!(
        none.status == 0 && none.err.contains("no dead letters"),
        "{none:#?}"
    );
    let letters = || world.json(&["trigger", "dead-letters", "list", "in"]);
    let publish = |body: &str| {
        let body = body.to_owned();
        world.api(async |client, namespace| {
            client
                .publish(namespace, "in", "application/json", Content::bytes(body))
                .await
                .unwrap()
        });
    };
    publish(r#"{"number": 1}"#);
    publish(r#"{"number": 2}"#);
    let count = || letters().as_array().unwrap().len();
    until(
        "both are given up",
        || count() == 2,
        || letters().to_string(),
    );
    let list = world.ok(&["trigger", "dead-letters", "list", "in"]);
    assert!(
        list.starts_with("ID") && list.contains(r#"{"number": 1}"#),
        "{list}"
    );
    let id = letters()[0]["id"].as_str().unwrap().to_owned();
    let shown = world.ok(&["trigger", "dead-letters", "show", "in", &id]);
    assert!(
        shown.contains("attempts") && shown.contains(r#"{"number": "#),
        "{shown}"
    );
    world.fails(
        &["trigger", "dead-letters", "show", "in", "nobody"],
        4,
        "list in",
    );

    world.write(&[("f/handler.py", "def handle(event): return 'now'\n")]);
    world.ok(&["deploy", "f"]);
    world.fails(&["trigger", "dead-letters", "redrive", "in"], 2, "<ID>");
    let one = world.ok(&["trigger", "dead-letters", "redrive", "in", &id]);
    assert_eq!(one, "1 went back to the queue\n");
    until("one is left", || count() == 1, || letters().to_string());
    assert_eq!(
        world.ok(&["trigger", "dead-letters", "purge", "in", "--yes"]),
        "1 removed\n"
    );
    let all = world.ok(&["trigger", "dead-letters", "redrive", "in", "--all"]);
    assert_eq!(all, "0 went back to the queue\n");
}
