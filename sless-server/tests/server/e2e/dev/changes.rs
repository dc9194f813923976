//! A folder and its manifest change.

use std::{fs, time::Instant};

use futures::StreamExt;
use sless_api::{
    ListQuery,
    client::{Client, ClientConfig},
};

use super::{DEADLINE, Desk, Dev, HELLO, LOOK, shell};
use crate::e2e::machine::json;

#[tokio::test]
async fn a_change_is_deployed_once_however_it_is_saved() {
    let desk = Desk::new();
    let folder = desk.folder("hello", &[("handler.py", HELLO)]);
    let dev = Dev::start(&desk.data(), &[&folder]).await;
    dev.ready("hello").await;
    assert_eq!(dev.answers("hello").await, "one");

    // The same content, and files that are no code: nothing to deploy.
    fs::write(folder.join("handler.py"), HELLO).unwrap();
    fs::write(folder.join(".handler.py.swp"), "x").unwrap();
    fs::create_dir(folder.join("__pycache__")).unwrap();
    fs::write(folder.join("__pycache__/x.pyc"), "x").unwrap();

    fs::write(folder.join("handler.py"), HELLO.replace("one", "two")).unwrap();
    dev.is_ready("hello", 2).await;
    assert_eq!(dev.answers("hello").await, "two");

    fs::write(folder.join(".new"), HELLO.replace("one", "three")).unwrap();
    fs::rename(folder.join(".new"), folder.join("handler.py")).unwrap();
    dev.is_ready("hello", 3).await;
    assert_eq!(dev.answers("hello").await, "three");

    fs::create_dir(folder.join("lib")).unwrap();
    fs::write(folder.join("lib/word.py"), "WORD = 'four'\n").unwrap();
    fs::write(
        folder.join("handler.py"),
        "from lib.word import WORD\ndef handle(e):\n    return WORD\n",
    )
    .unwrap();
    dev.is_ready("hello", 4).await;
    let began = Instant::now();
    while dev.call("hello").await != (200, "four".to_owned()) {
        assert!(began.elapsed() < DEADLINE, "{}", dev.process.out.text());
        tokio::time::sleep(LOOK).await;
    }
    fs::write(folder.join("lib/word.py"), "WORD = 'five'\n").unwrap();
    let began = Instant::now();
    while dev.call("hello").await != (200, "five".to_owned()) {
        assert!(began.elapsed() < DEADLINE, "{}", dev.process.out.text());
        tokio::time::sleep(LOOK).await;
    }
    // The three changes in a row may have been seen as one, two or three.
    let rebuilt = dev.process.out.count("rebuilding hello");
    assert!((4..=6).contains(&rebuilt), "{}", dev.process.out.text());
    dev.stop().await;
}

#[tokio::test]
async fn what_cannot_be_deployed_is_told_and_the_version_before_serves_on() {
    let desk = Desk::new();
    let folder = desk.folder("hello", &[("handler.py", HELLO)]);
    let dev = Dev::start(&desk.data(), &[&folder]).await;
    dev.ready("hello").await;
    let out = &dev.process.out;
    for (text, told) in [
        ("def handle(event:\n", "SyntaxError"),
        ("import nothing_of_this_name\n", "ModuleNotFoundError"),
        ("def handle(a, b, c):\n    pass\n", "handler_signature"),
    ] {
        fs::write(folder.join("handler.py"), text).unwrap();
        out.until_there(told, 1).await;
        out.until_there("the version before serves on", 1).await;
        assert_eq!(dev.answers("hello").await, "one");
    }
    fs::write(
        folder.join("sless.toml"),
        "name = 'hello'\nruntime = 'python3.11'\ncpus = 2\n",
    )
    .unwrap();
    out.until_there("sless.toml:3:1: unknown field `cpus`", 1)
        .await;
    assert_eq!(dev.answers("hello").await, "one");
    fs::remove_file(folder.join("sless.toml")).unwrap();
    fs::rename(&folder, desk.root.path().join("away")).unwrap();
    out.until_there("cannot be read", 1).await;
    assert_eq!(dev.answers("hello").await, "one");
    desk.folder("hello", &[("handler.py", &HELLO.replace("one", "two"))]);
    dev.is_ready("hello", 2).await;
    assert_eq!(dev.answers("hello").await, "two");
    dev.stop().await;
}

#[tokio::test]
async fn the_manifest_s_triggers_and_name_are_followed_and_the_api_takes_the_token() {
    let desk = Desk::new();
    let manifest = "name = 'nightly'\nruntime = 'python3.11'\n[[trigger]]\nname = 'night'\n\
                    type = 'cron'\nschedule = '0 3 * * *'\n";
    let folder = desk.folder("hello", &[("handler.py", HELLO), ("sless.toml", manifest)]);
    let dev = Dev::start(&desk.data(), &[&folder]).await;
    dev.ready("nightly").await;
    dev.process
        .out
        .until_there("trigger night: schedule `0 3 * * *` in UTC, next at 20", 1)
        .await;

    let line = dev
        .process
        .out
        .all()
        .into_iter()
        .find(|line| line.contains("authorization: Bearer"))
        .unwrap();
    assert!(!line.contains("eyJ"), "no token on the screen: {line}");
    let answer = shell(&line, desk.root.path());
    let page: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(page["items"][0]["name"], "nightly", "{page}");

    let token = fs::read_to_string(desk.data().join("token")).unwrap();
    let client = Client::new(ClientConfig::new(&dev.url).with_token(token.trim())).unwrap();
    let triggers = async || {
        let page = client.triggers("dev", &ListQuery::default()).await.unwrap();
        let triggers = page.items.into_iter();
        triggers
            .map(|t| (t.name, t.function_ref, t.schedule))
            .collect::<Vec<_>>()
    };
    let expected = |function: &str, schedule: &str| {
        vec![(
            "night".to_owned(),
            function.to_owned(),
            Some(schedule.to_owned()),
        )]
    };
    assert_eq!(triggers().await, expected("nightly", "0 3 * * *"));

    fs::write(folder.join("sless.toml"), manifest.replace("0 3", "0 4")).unwrap();
    dev.is_ready("nightly", 2).await;
    assert_eq!(triggers().await, expected("nightly", "0 4 * * *"));

    fs::write(
        folder.join("sless.toml"),
        manifest.replace("nightly", "daily"),
    )
    .unwrap();
    dev.is_ready("daily", 1).await;
    assert_eq!(triggers().await, expected("daily", "0 3 * * *"));
    assert_eq!(dev.answers("daily").await, "one");
    assert_eq!(dev.call("nightly").await.0, 404);
    dev.stop().await;
}

#[tokio::test]
async fn an_event_of_the_manifest_s_queue_reaches_the_function() {
    let desk = Desk::new();
    let code = "def handle(event):\n    print('got', event['n'])\n";
    let manifest = "name = 'hello'\nruntime = 'python3.11'\n[[trigger]]\nname = 'mail'\ntype = 'event'\nqueue = 'mail'\n";
    let folder = desk.folder("hello", &[("handler.py", code), ("sless.toml", manifest)]);
    let dev = Dev::start(&desk.data(), &[&folder]).await;
    dev.ready("hello").await;
    let token = fs::read_to_string(desk.data().join("token")).unwrap();
    let line = format!(
        "curl -s -X POST {}/v1/namespaces/dev/queues/mail/messages -H 'authorization: Bearer {}' \
         -H 'content-type: application/json' -d '{{\"n\":7}}'",
        dev.url,
        token.trim()
    );
    let answer = shell(&line, desk.root.path());
    assert!(answer.status.success(), "{answer:?}");
    dev.process.out.until_there("hello | got 7", 1).await;
    // Calls by hand are not in the way of the queue.
    let mut answer = dev
        .client()
        .call("dev", "hello", json("{\"n\":8}"))
        .await
        .unwrap();
    assert_eq!(answer.status, 200);
    while answer.body.next().await.is_some() {}
    dev.stop().await;
}
