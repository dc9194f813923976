//! Lists: for people, for pipes, in two languages, and of many functions.

use std::time::{Duration, Instant};

use sless_core::{CatalogExt, Function, FunctionSpec, Metadata, Name, Runtime, TriggerSpec};

use crate::support::{Ask, World};

#[tokio::test]
async fn pipes_get_a_compact_listing() {
    let world = World::new().await;
    world.hello().await;
    let ask = |accept: &'static str| {
        Ask::get(&world.path(""))
            .token("good:alice")
            .with("accept", accept)
    };
    for accept in ["*/*", "text/plain", "application/json;q=0.5, */*;q=0.1"] {
        let answer = world.ask(ask(accept)).await;
        assert_eq!(answer.value("content-type"), "text/plain; charset=utf-8");
        let lines: Vec<_> = answer.body.lines().collect();
        assert_eq!(lines.len(), 2, "{}", answer.body);
        let words: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(words[..4], ["hello", "Ready", "python3.11", "1/1"]);
        assert!(words[5].ends_with("/hello"), "{words:?}");
    }
    assert!(world.ask(ask("text/html")).await.has("<!DOCTYPE html>"));
    let source = world
        .ask(Ask::get(&world.path("/source/hello")).token("good:alice"))
        .await;
    assert_eq!(
        source.body,
        "==> handler.py <==\ndef handle(event):\n    return 1\n\n"
    );
    let file = world.path("/source/hello?file=handler.py");
    let file = world.ask(Ask::get(&file).token("good:alice")).await;
    assert_eq!(file.body, "def handle(event):\n    return 1\n");
}

#[tokio::test]
async fn the_language_is_that_of_the_browser_or_the_one_chosen() {
    let world = World::new().await;
    let session = world.session("alice").await;
    let ask = |language: &str| {
        Ask::get(&world.path(""))
            .html()
            .with("accept-language", language)
    };
    let russian = world.ask(ask("ru-RU,ru;q=0.9").session(&session)).await;
    assert!(
        russian.has("<html lang=\"ru\">") && russian.has("Функции"),
        "{}",
        russian.body
    );
    let english = world.ask(ask("en").session(&session)).await;
    assert!(english.has("<html lang=\"en\">") && english.has("Functions"));
    let next = world.path("?find=a");
    let choice = Ask::form("/funcs/_language", &format!("to=ru&next={next}"));
    let chosen = world.ask(choice).await;
    assert_eq!(chosen.status, 303);
    assert_eq!(chosen.value("location"), next);
    let cookie = chosen
        .value("set-cookie")
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let both = format!("{session}; {cookie}");
    assert!(
        world
            .ask(ask("en").session(&both))
            .await
            .has("<html lang=\"ru\">")
    );
    let unknown = world.ask(Ask::form("/funcs/_language", "to=xx")).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test]
async fn an_entry_tells_what_a_look_needs_without_scripts() {
    let world = World::new().await;
    world.hello().await;
    world
        .trigger("hello", TriggerSpec::http(Name::new("hello").unwrap()))
        .await;
    let mut cron = TriggerSpec::cron(Name::new("hello").unwrap(), "0 9 * * 1-5");
    cron.time_zone = Some("Europe/Moscow".to_owned());
    world.trigger("mornings", cron).await;
    let page = world.page("").await;
    for text in [
        "<details class=\"function\" id=\"f-hello\"",
        "data-phase=\"ready\">Ready<",
        "python3.11",
        "1/1",
        "handler.handle",
        "■",
        "0 9 * * 1-5",
        "Europe/Moscow",
        "<ol class=\"fires\">",
        "method=\"post\"",
        "/triggers/hello\"",
    ] {
        assert!(page.has(text), "{text} in {}", page.body);
    }
    let fires = page
        .body
        .split("<ol class=\"fires\">")
        .nth(1)
        .unwrap()
        .split("</ol>")
        .next()
        .unwrap();
    assert_eq!(fires.matches("06:00:00 UTC").count(), 5, "{fires}");
    let one = world.page("/functions/hello").await;
    for link in [
        "/source/hello\"",
        "/functions/hello/logs\"",
        "/functions/hello/calls\"",
    ] {
        assert!(
            one.has(&format!("<a href=\"/funcs/{}{link}", world.namespace)),
            "{link}"
        );
    }
}

#[tokio::test]
async fn names_can_be_searched_and_paged() {
    let world = World::with(|_| {}, |config| config.page_functions = 2).await;
    for name in ["alpha", "alps", "beta", "gamma"] {
        world
            .deploy(name, &[("handler.py", "def handle(event): pass\n")])
            .await;
    }
    let token = |path: &str| Ask::get(&world.path(path)).token("good:alice");
    let first = world.ask(token("")).await;
    let next = first
        .body
        .lines()
        .find_map(|line| line.strip_prefix("next: "))
        .unwrap();
    assert!(first.has("alpha") && first.has("alps") && !first.has("beta"));
    let second = world.ask(token(&format!("?cursor={next}"))).await;
    assert!(
        second.has("beta") && second.has("gamma") && !second.has("next: "),
        "{}",
        second.body
    );
    let found = world.ask(token("?find=gam")).await;
    assert!(found.has("gamma") && !found.has("alpha"), "{}", found.body);
    let page = world.page("").await;
    assert!(page.has("name=\"cursor\""));
}

#[tokio::test]
async fn values_of_the_environment_are_never_shown() {
    let world = World::with(|_| {}, |config| config.public = true).await;
    let mut spec = FunctionSpec::new(Runtime::Python311);
    spec.env
        .insert("API_KEY".to_owned(), "very-secret".to_owned());
    let metadata = Metadata::new(world.namespace.clone(), Name::new("hello").unwrap());
    world
        .sless
        .backends()
        .catalog
        .add(Function::new(metadata, spec))
        .await
        .unwrap();
    for below in ["", "/functions/hello"] {
        let page = world.page(below).await;
        assert!(page.has("API_KEY") && !page.has("very-secret"));
    }
}

#[tokio::test]
async fn five_hundred_functions_render_within_a_fifth_of_a_second() {
    let world = World::new().await;
    let catalog = &world.sless.backends().catalog;
    for number in 0..500 {
        let name = Name::new(format!("function-{number:03}")).unwrap();
        let metadata = Metadata::new(world.namespace.clone(), name.clone());
        let spec = FunctionSpec::new(Runtime::Python311);
        catalog.add(Function::new(metadata, spec)).await.unwrap();
        world
            .trigger(name.as_str(), TriggerSpec::http(name.clone()))
            .await;
    }
    let session = world.session("alice").await;
    // The best of several, since other work of the machine is not what is measured.
    let mut best = Duration::MAX;
    let mut bytes = 0;
    for _ in 0..10 {
        let ask = Ask::get(&world.path("")).html().session(&session);
        let begun = Instant::now();
        let page = world.ask(ask).await;
        best = best.min(begun.elapsed());
        bytes = page.body.len();
        assert_eq!(
            page.body.matches("<details class=\"function\"").count(),
            500
        );
    }
    assert!(
        best < Duration::from_millis(200),
        "{best:?} for {bytes} bytes"
    );
}
