//! Forms and what they do.

use std::sync::Arc;

use sless_core::{
    CatalogExt, Message, Name, Trigger, TriggerSpec,
    memory::MemoryValidator,
    source::{SourceTree, pack},
};

use crate::support::{ADDRESS, Ask, World, multipart, until};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let files = files
        .iter()
        .map(|(path, text)| (path.to_string(), text.to_string()));
    let tree = SourceTree::from_files(files).unwrap();
    pack::write_zip(&tree, std::io::Cursor::new(Vec::new()))
        .unwrap()
        .into_inner()
}

async fn upload(world: &World, fields: &[(&str, &str)], zip: &[u8]) -> crate::support::Answer {
    let (kind, body) = multipart(fields, zip);
    let session = world.session("alice").await;
    let ask = Ask::of("POST", &world.path("/deploy"), body)
        .with("content-type", &kind)
        .with("origin", ADDRESS);
    world.ask(ask.html().session(&session)).await
}

#[tokio::test]
async fn a_trigger_is_patched() {
    let world = World::new().await;
    world.hello().await;
    world.trigger("web", TriggerSpec::http(name("hello"))).await;
    let session = world.session("alice").await;
    let patch = |body: &str| {
        Ask::of("PATCH", &world.path("/triggers/web"), body.to_owned())
            .with("origin", ADDRESS)
            .session(&session)
    };
    let answer = world.ask(patch(r#"{"enabled": false}"#)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(told["enabled"], false);
    assert_eq!(
        (told["name"].as_str(), told["type"].as_str()),
        (Some("web"), Some("http"))
    );
    until("stopped", async || {
        world
            .page("/functions/hello")
            .await
            .has("data-phase=\"stopped\"")
    })
    .await;
    for (body, named) in [
        ("{}", "enabled"),
        (r#"{"enabled": 1}"#, "enabled"),
        ("", "enabled"),
        (r#"{"enabled": true, "queue": "x"}"#, "queue"),
    ] {
        let answer = world.ask(patch(body)).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(
            answer.has(named) && answer.has("invalid_json"),
            "{}",
            answer.body
        );
    }
    let missing = Ask::of(
        "PATCH",
        &world.path("/triggers/other"),
        r#"{"enabled": false}"#,
    );
    let answer = world
        .ask(missing.with("origin", ADDRESS).session(&session))
        .await;
    assert_eq!(answer.status, 404);
    // The same by a form, without scripts.
    let answer = world.send("/triggers/web", "enabled=true").await;
    assert_eq!(answer.status, 303);
    assert_eq!(answer.value("location"), world.path("/functions/hello"));
    until("ready", async || {
        world
            .page("/functions/hello")
            .await
            .has("data-phase=\"ready\"")
    })
    .await;
}

#[tokio::test]
async fn a_function_without_a_trigger_gets_one_to_stop_it() {
    let world = World::new().await;
    world.hello().await;
    let answer = world.send("/functions/hello/switch", "enabled=false").await;
    assert_eq!(answer.status, 303);
    let catalog = &world.sless.backends().catalog;
    let trigger: Trigger = catalog
        .read(&world.namespace, &name("hello"))
        .await
        .unwrap();
    assert!(!trigger.spec.enabled);
    assert_eq!(
        world
            .send("/functions/other/switch", "enabled=false")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_call_shows_status_time_and_answer() {
    let world = World::new().await;
    world.hello().await;
    let form = "method=PUT&path=/a/b%3Fc=d&content_type=text/plain&body=some+text";
    let answer = world.send("/functions/hello/call", form).await;
    assert_eq!(answer.status, 200);
    for text in ["201 Created", "PUT /a/b?c=d\nsome text", " ms<"] {
        assert!(answer.has(text), "{text} in {}", answer.body);
    }
    for (form, field) in [
        ("method=P%20T", "method"),
        ("method=GET&path=a", "path"),
        ("method=GET&path=/%20x", "path"),
        ("method=POST&body=x&content_type=a%0Ab", "content_type"),
    ] {
        let answer = world.send("/functions/hello/call", form).await;
        assert_eq!(answer.status, 400, "{form}");
        assert!(answer.has(field), "{}", answer.body);
    }
    let none = world
        .send("/functions/other/call", "method=GET&path=/")
        .await;
    assert_eq!(none.status, 404);
}

#[tokio::test]
async fn what_a_call_sends_and_shows_is_bounded() {
    let world = World::with(
        |_| {},
        |config| {
            config.call_bytes = 5000;
            config.answer_bytes = 1000;
        },
    )
    .await;
    world.hello().await;
    let body = |count: usize| format!("method=POST&path=/&body={}", "x".repeat(count));
    let answer = world.send("/functions/hello/call", &body(4000)).await;
    assert!(answer.has("cut at 1000 B"), "{}", answer.body);
    assert!(!answer.has(&"x".repeat(1000)));
    let answer = world.send("/functions/hello/call", &body(5001)).await;
    assert_eq!(answer.status, 413);
    assert!(answer.has("call_bytes"), "{}", answer.body);
    let answer = world.send("/functions/hello/call", &body(200_000)).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn a_zip_becomes_a_function_that_answers() {
    let world = World::new().await;
    let code = zip(&[("handler.py", "def handle(event): return 1\n")]);
    let fields = [
        ("name", "fresh"),
        ("runtime", "python3.11"),
        ("entrypoint", "handler.handle"),
    ];
    let answer = upload(&world, &fields, &code).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.has("data-deployed=\"fresh\""));
    until("ready", async || {
        world
            .page("/functions/fresh")
            .await
            .has("data-phase=\"ready\"")
    })
    .await;
    let answer = world
        .send("/functions/fresh/call", "method=GET&path=/x")
        .await;
    assert!(answer.has("GET /x"), "{}", answer.body);
    // New code of the same function; its runtime stays, and its trigger.
    let code = zip(&[("handler.py", "def handle(event): return 2\n")]);
    let answer = upload(&world, &[("name", "fresh")], &code).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let again = upload(&world, &[("name", "fresh")], &code).await;
    assert!(again.has("was there already"), "{}", again.body);
}

#[tokio::test]
async fn a_large_zip_is_held_to_the_engines_limit_alone() {
    let world = World::new().await;
    // More than what the form's reader would take by default, of bytes that do not shrink.
    let mut seed = 1u64;
    let noise: String = (0..3_000_000)
        .map(|_| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            char::from(b'!' + (seed >> 32) as u8 % 90)
        })
        .collect();
    let code = zip(&[
        ("handler.py", "def handle(event): return 1\n"),
        ("noise.txt", &noise),
    ]);
    assert!(code.len() > 2_100_000, "{}", code.len());
    let answer = upload(
        &world,
        &[("name", "large"), ("runtime", "python3.11")],
        &code,
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[tokio::test]
async fn code_that_is_refused_leaves_nothing() {
    let refusing = |backends: &mut sless_core::Backends| {
        backends.validator = Arc::new(MemoryValidator::refusing("evil"));
    };
    let world = World::with(refusing, |_| {}).await;
    let code = zip(&[("handler.py", "# evil <b>\ndef handle(event): return 1\n")]);
    let fields = [("name", "bad"), ("runtime", "python3.11")];
    let answer = upload(&world, &fields, &code).await;
    assert_eq!(answer.status, 400);
    assert!(answer.has("code validation failed"), "{}", answer.body);
    until("gone", async || {
        world.page("/functions/bad").await.status == 404
    })
    .await;
    for (fields, word) in [
        (&[("name", "UPPER"), ("runtime", "python3.11")][..], "name"),
        (&[("name", "ok"), ("runtime", "cobol")], "runtime"),
        (&[("name", "ok")], "runtime"),
        (
            &[
                ("name", "ok"),
                ("runtime", "python3.11"),
                ("entrypoint", "a b"),
            ],
            "entrypoint",
        ),
    ] {
        let answer = upload(&world, fields, &code).await;
        assert_eq!(answer.status, 400, "{fields:?}");
        assert!(answer.has(word), "{word}: {}", answer.body);
    }
    let answer = upload(&world, &fields, b"no zip").await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn verdicts_are_shown_with_their_reason() {
    let reviewing = |backends: &mut sless_core::Backends| {
        backends.validator = Arc::new(MemoryValidator::fixed(sless_core::Verdict::Skipped {
            reason: "too large to review".to_owned(),
        }));
    };
    let world = World::with(reviewing, |_| {}).await;
    world.hello().await;
    let page = world.page("/functions/hello").await;
    assert!(
        page.has("Not reviewed") && page.has("too large to review"),
        "{}",
        page.body
    );
}

#[tokio::test]
async fn a_deletion_is_confirmed_and_answered_with_a_receipt() {
    let world = World::new().await;
    world.hello().await;
    let answer = world.send("/functions/hello/delete", "confirm=hell").await;
    assert_eq!(answer.status, 400);
    let answer = world.send("/functions/hello/delete", "confirm=hello").await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.has("Receipt: hello") && answer.has("Removed"),
        "{}",
        answer.body
    );
    assert_eq!(world.page("/functions/hello").await.status, 404);
    assert_eq!(
        world
            .send("/functions/hello/delete", "confirm=hello")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn dead_letters_are_shown_and_redriven() {
    let world = World::new().await;
    world.hello().await;
    world
        .deploy(
            "failing",
            &[("handler.py", "def fail(event): raise ValueError\n")],
        )
        .await;
    let mut spec = TriggerSpec::event(name("failing"), "orders");
    spec.delivery = Some(sless_core::DeliveryOptions {
        max_attempts: 1,
        min_backoff_ms: 1,
        max_backoff_ms: 1,
        ..Default::default()
    });
    world.trigger("orders", spec).await;
    let publisher = world.sless.backends().publisher.clone().unwrap();
    for number in 0..3 {
        let message = Message {
            id: format!("m-{number}"),
            body: format!("{{\"n\": \"<script>alert(1)</script>{number}\"}}").into(),
            ..Message::default()
        };
        publisher
            .publish(&world.namespace, "orders", message)
            .await
            .unwrap();
    }
    let letters = "/triggers/orders/dead-letters";
    until("dead", async || {
        world.page(letters).await.body.matches("m-").count() >= 6
    })
    .await;
    let page = world.page(letters).await;
    assert!(
        page.has("&lt;script&gt;alert(1)") && !page.has("<script>alert"),
        "{}",
        page.body
    );
    let answer = world.send(letters, "all=true").await;
    assert_eq!(answer.status, 200);
    assert!(answer.has("Put back into the queue: 3"), "{}", answer.body);
    for form in ["", "all=false", "all=true&id=x"] {
        assert_eq!(world.send(letters, form).await.status, 400, "{form}");
    }
    world.trigger("web", TriggerSpec::http(name("hello"))).await;
    assert_eq!(world.page("/triggers/web/dead-letters").await.status, 400);
}

#[tokio::test]
async fn calls_are_filtered_paged_and_plotted() {
    let world = World::with(|_| {}, |config| config.page_items = 2).await;
    world.hello().await;
    for _ in 0..5 {
        world
            .send("/functions/hello/call", "method=GET&path=/")
            .await;
    }
    let calls = "/functions/hello/calls";
    until("recorded", async || {
        world.page(calls).await.has("Calls: total 5, peak")
    })
    .await;
    let page = world.page(calls).await;
    assert_eq!(page.body.matches("<tr><td>").count(), 2, "{}", page.body);
    assert_eq!(page.body.matches("<svg").count(), 3);
    assert!(page.has("name=\"cursor\""));
    let none = world
        .page(&format!("{calls}?failed=1&origin=direct&since=1h"))
        .await;
    assert!(
        none.has("No calls match") && none.has("Failed calls: total 0"),
        "{}",
        none.body
    );
    let none = world.page(&format!("{calls}?origin=cron")).await;
    assert!(none.has("No calls match"));
    for query in ["since=2h", "origin=x", "failed=yes", "x=y"] {
        assert_eq!(
            world.page(&format!("{calls}?{query}")).await.status,
            400,
            "{query}"
        );
    }
    let lines = world
        .ask(Ask::get(&world.path(calls)).token("good:alice"))
        .await;
    assert!(
        lines.has("  201  ") && lines.has("next: "),
        "{}",
        lines.body
    );
}
