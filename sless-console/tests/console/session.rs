//! Who gets in, and what another site cannot do.

use crate::support::{ADDRESS, Ask, World};

#[tokio::test]
async fn nobody_sees_anything_without_signing_in() {
    let world = World::new().await;
    world.hello().await;
    for below in [
        "",
        "/functions/hello",
        "/source/hello",
        "/functions/hello/logs",
        "/functions/hello/calls",
        "/events",
    ] {
        let path = world.path(below);
        let answer = world.ask(Ask::get(&path).html()).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(
            !answer.has("handler.py") && !answer.has("Python"),
            "{path}: {}",
            answer.body
        );
        // The form leads back here.
        assert!(
            answer.has(&format!("name=\"next\" value=\"{path}\"")),
            "{}",
            answer.body
        );
        let plain = world.ask(Ask::get(&path)).await;
        assert_eq!(
            (plain.status, plain.body.as_str()),
            (401, "error: sign in first (session_missing)\n")
        );
    }
    let home = world.ask(Ask::get("/funcs").html()).await;
    assert_eq!(home.status, 401);
    assert!(home.has("type=\"password\""));
}

#[tokio::test]
async fn a_token_gives_a_session_that_does_not_hold_it() {
    let world = World::new().await;
    let answer = world
        .ask(Ask::form("/funcs/_sign-in", "token=%20good:alice%0A").html())
        .await;
    assert_eq!(answer.status, 303);
    assert_eq!(
        answer.value("location"),
        format!("/funcs/{}", world.namespace)
    );
    let field = answer.value("set-cookie").to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/funcs;", "Max-Age=3"] {
        assert!(field.contains(word), "{word} in {field}");
    }
    assert!(
        !field.contains("alice") && !field.contains("good"),
        "{field}"
    );
    assert_eq!(world.page("").await.status, 200);
}

#[tokio::test]
async fn a_wrong_token_is_told_and_repeated_nowhere() {
    let world = World::new().await;
    let form = "token=bad-and-secret&next=%2Ffuncs%2Fx";
    let answer = world.ask(Ask::form("/funcs/_sign-in", form).html()).await;
    assert_eq!(answer.status, 401);
    assert!(
        answer.has("token_signature") && answer.has("value=\"/funcs/x\""),
        "{}",
        answer.body
    );
    assert!(!answer.has("bad-and-secret"));
    assert!(!answer.headers.contains_key("set-cookie"));
    let long = format!("token=good:{}", "a".repeat(20_000));
    let answer = world.ask(Ask::form("/funcs/_sign-in", &long)).await;
    assert_eq!(answer.status, 401);
    assert!(answer.has("token_bytes"), "{}", answer.body);
}

#[tokio::test]
async fn no_token_is_taken_from_an_address() {
    let world = World::new().await;
    for path in [
        "/funcs/_sign-in?token=good:alice",
        "/funcs?token=good:alice",
        "/funcs?access_token=good:alice",
    ] {
        let answer = world.ask(Ask::get(path).html()).await;
        assert!(!answer.headers.contains_key("set-cookie"), "{path}");
        assert!(!answer.headers.contains_key("location"), "{path}");
    }
    let path = format!("{}?token=good:alice", world.path(""));
    assert_eq!(world.ask(Ask::get(&path).html()).await.status, 401);
}

#[tokio::test]
async fn signing_in_leads_nowhere_else() {
    let world = World::new().await;
    for next in [
        "https://evil.example/",
        "//evil.example",
        "/fn/x/y",
        "/funcs\\evil",
    ] {
        let form = format!("token=good:alice&next={next}");
        let answer = world.ask(Ask::form("/funcs/_sign-in", &form).html()).await;
        assert_eq!(
            answer.value("location"),
            format!("/funcs/{}", world.namespace),
            "{next}"
        );
    }
    let form = "token=good:alice&next=/funcs/a/source/b?file=c";
    let answer = world.ask(Ask::form("/funcs/_sign-in", form).html()).await;
    assert_eq!(answer.value("location"), "/funcs/a/source/b?file=c");
}

#[tokio::test]
async fn another_ones_namespace_stays_closed() {
    let world = World::new().await;
    world.hello().await;
    let bob = world.session("bob").await;
    let answer = world
        .ask(Ask::get(&world.path("")).html().session(&bob))
        .await;
    assert_eq!(answer.status, 403);
    assert!(!answer.has("hello"));
    let switch = world.path("/functions/hello/switch");
    let answer = world
        .ask(Ask::form(&switch, "enabled=false").session(&bob))
        .await;
    assert_eq!(answer.status, 403);
    let root = world.session("root").await;
    assert_eq!(
        world
            .ask(Ask::get(&world.path("")).html().session(&root))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_token_in_the_field_works_as_for_the_api() {
    let world = World::new().await;
    world.hello().await;
    let path = world.path("");
    assert_eq!(
        world.ask(Ask::get(&path).token("good:alice")).await.status,
        200
    );
    assert_eq!(world.ask(Ask::get(&path).token("bad")).await.status, 401);
    assert_eq!(
        world
            .ask(Ask::get(&path).with("authorization", "Basic x"))
            .await
            .status,
        401
    );
    // A wrong token is not made good by a cookie, nor by an open console.
    let session = world.session("alice").await;
    let both = Ask::get(&path).token("bad").session(&session);
    assert_eq!(world.ask(both).await.status, 401);
    // It comes from no browser by itself, so no origin is asked for.
    let patch = Ask::of(
        "POST",
        &world.path("/functions/hello/switch"),
        "enabled=false",
    )
    .with("content-type", "application/x-www-form-urlencoded")
    .token("good:alice");
    assert_eq!(world.ask(patch).await.status, 303);
}

#[tokio::test]
async fn a_form_of_another_site_changes_nothing() {
    let world = World::new().await;
    world.hello().await;
    let session = world.session("alice").await;
    let switch = world.path("/functions/hello/switch");
    let form = || Ask::form(&switch, "enabled=false").html().session(&session);
    for (what, ask) in [
        (
            "another origin",
            form().with("origin", "https://evil.example"),
        ),
        ("a page in a sandbox", form().with("origin", "null")),
        (
            "another port",
            form().with("origin", "http://console.test:81"),
        ),
        ("no origin", form().without("origin")),
        ("cross-site", form().with("sec-fetch-site", "cross-site")),
        ("same-site", form().with("sec-fetch-site", "same-site")),
        ("from nowhere", form().with("sec-fetch-site", "none")),
        (
            "no origin, cross-site",
            form()
                .without("origin")
                .with("sec-fetch-site", "cross-site"),
        ),
    ] {
        let answer = world.ask(ask).await;
        assert_eq!(answer.status, 403, "{what}");
        assert!(answer.has("cross_site"), "{what}");
    }
    for path in ["/funcs/_sign-in", "/funcs/_sign-out", "/funcs/_language"] {
        let ask = Ask::form(path, "token=good:eve&to=ru").with("origin", "https://evil.example");
        assert_eq!(world.ask(ask).await.status, 403, "{path}");
    }
    let triggers = world.sless.backends().catalog.clone();
    let all: Vec<sless_core::Trigger> =
        sless_core::CatalogExt::read_all(&*triggers, Some(&world.namespace))
            .await
            .unwrap();
    assert!(all.is_empty(), "{all:?}");
    let own = form().with("sec-fetch-site", "same-origin");
    assert_eq!(world.ask(own).await.status, 303);
}

#[tokio::test]
async fn signing_out_takes_the_session_away() {
    let world = World::new().await;
    let session = world.session("alice").await;
    let answer = world
        .ask(Ask::form("/funcs/_sign-out", "").session(&session))
        .await;
    assert_eq!(answer.status, 303);
    assert!(answer.value("set-cookie").starts_with("sless_session=; "));
    assert!(answer.value("set-cookie").contains("Max-Age=0"));
}

#[tokio::test]
async fn an_open_console_shows_everything_and_changes_nothing() {
    let world = World::with(|_| {}, |config| config.public = true).await;
    world.hello().await;
    let page = world.ask(Ask::get(&world.path("")).html()).await;
    assert_eq!(page.status, 200);
    assert!(page.has("Read only"));
    let one = world
        .ask(Ask::get(&world.path("/functions/hello")).html())
        .await;
    assert!(one.has("handler.handle"));
    for control in ["name=\"enabled\"", "data-deploy", "/delete\"", "/call\""] {
        assert!(!one.has(control) && !page.has(control), "{control}");
    }
    for below in [
        "/source/hello",
        "/functions/hello/logs",
        "/functions/hello/calls",
    ] {
        assert_eq!(
            world.ask(Ask::get(&world.path(below)).html()).await.status,
            200
        );
    }
    for below in [
        "/functions/hello/switch",
        "/functions/hello/call",
        "/functions/hello/delete",
        "/triggers/hello",
        "/triggers/hello/dead-letters",
        "/deploy",
    ] {
        let ask = Ask::form(
            &world.path(below),
            "enabled=false&method=GET&confirm=hello&all=true",
        );
        assert_eq!(world.ask(ask).await.status, 401, "{below}");
    }
    let patch = Ask::of(
        "PATCH",
        &world.path("/triggers/hello"),
        r#"{"enabled":false}"#,
    );
    let answer = world.ask(patch.with("origin", ADDRESS)).await;
    assert_eq!(answer.status, 401);
    assert!(answer.has(r#""code":"session_missing""#), "{}", answer.body);
}
