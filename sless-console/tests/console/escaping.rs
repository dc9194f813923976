//! What somebody has written is shown, and never obeyed.

use std::sync::Arc;

use sless_core::{
    FunctionSpec, Name, Runtime, TriggerSpec,
    memory::{BuildPlan, MemoryBuilder},
};

use crate::support::{Ask, World, until};

const MARKUP: &str = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

/// Whether text that was meant to be shown has become markup.
fn is_obeyed(page: &str) -> bool {
    [
        "<script>alert",
        "<img src=x",
        "onerror=alert(2)>\"",
        "<b>called",
        "<i>",
    ]
    .iter()
    .any(|markup| page.contains(markup))
}

#[tokio::test]
async fn source_and_its_names_are_text() {
    let world = World::new().await;
    // What is left of such names once the engine has refused `<`, `>` and `"`.
    let hostile = "a&lt' autofocus onfocus='alert(2).py";
    let source = format!("def handle(event): # {MARKUP}\n    return '{MARKUP}'\n");
    world
        .deploy("hello", &[("handler.py", &source), (hostile, &source)])
        .await;
    let page = world.page("/source/hello").await;
    assert_eq!(page.status, 200);
    assert!(
        page.has("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{}",
        page.body
    );
    assert!(!is_obeyed(&page.body), "{}", page.body);
    let other = "/source/hello?file=a%26lt%27%20autofocus%20onfocus%3D%27alert(2).py";
    let other = world.page(other).await;
    assert_eq!(other.status, 200, "{}", other.body);
    assert!(other.has("a&amp;lt' autofocus"), "{}", other.body);
    assert!(!is_obeyed(&other.body), "{}", other.body);
    let none = world
        .page("/source/hello?file=%3Cscript%3Ealert(1)%3C/script%3E")
        .await;
    assert_eq!(none.status, 404);
    assert!(!is_obeyed(&none.body), "{}", none.body);
}

#[tokio::test]
async fn answers_logs_and_calls_are_text() {
    let world = World::new().await;
    world.hello().await;
    let form = "method=POST&path=/%3Fa%3D%253Ci%253E&content_type=text/html&body=%3Cscript%3Ealert(1)%3C/script%3E";
    let answer = world.send("/functions/hello/call", form).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.has("201 Created") && answer.has("&lt;script&gt;alert(1)"),
        "{}",
        answer.body
    );
    assert!(answer.has("x-markup: &lt;i&gt;"), "{}", answer.body);
    assert!(!is_obeyed(&answer.body), "{}", answer.body);
    let log = world.page("/functions/hello/logs").await;
    assert!(log.has("&lt;b&gt;called&lt;/b&gt;"), "{}", log.body);
    assert!(!is_obeyed(&log.body), "{}", log.body);
    until("recorded", async || {
        world
            .page("/functions/hello/calls")
            .await
            .has("console: alice")
    })
    .await;
    let calls = world.page("/functions/hello/calls").await;
    assert!(calls.has("&lt;b&gt;called"), "{}", calls.body);
    assert!(!is_obeyed(&calls.body), "{}", calls.body);
}

#[tokio::test]
async fn reasons_queues_and_searches_are_text() {
    let builder = |backends: &mut sless_core::Backends| {
        let plan = |_: &sless_core::BuildRequest| {
            BuildPlan::default().failing(sless_core::Failure::new("install_failed", MARKUP))
        };
        let builder = MemoryBuilder::with_config(backends.clock.clone(), Default::default(), plan);
        backends.builders = vec![Arc::new(builder)];
    };
    let world = World::with(builder, |_| {}).await;
    let name = Name::new("hello").unwrap();
    let spec = FunctionSpec::new(Runtime::Python311);
    let code = [("handler.py", "def handle(event): pass\n")];
    let deploy =
        sless_core::Deploy::files(world.namespace.clone(), name.clone(), spec, code).unwrap();
    world.sless.deploy(deploy).await.unwrap_err();
    world
        .trigger("events", TriggerSpec::event(name, MARKUP))
        .await;
    for below in ["", "/functions/hello"] {
        let page = world.page(below).await;
        assert!(page.has("install_failed"), "{}", page.body);
        assert!(page.has("&lt;script&gt;alert(1)"), "{}", page.body);
        assert!(!is_obeyed(&page.body), "{}", page.body);
    }
    let page = world
        .page("?find=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
        .await;
    assert_eq!(page.status, 200);
    assert!(!is_obeyed(&page.body), "{}", page.body);
    let token = "token=%3Cscript%3Ealert(1)%3C/script%3E&next=/funcs/%22%3E%3Cscript%3Ealert(1)";
    let page = world.ask(Ask::form("/funcs/_sign-in", token).html()).await;
    assert_eq!(page.status, 401);
    assert!(!is_obeyed(&page.body), "{}", page.body);
    let page = world
        .ask(Ask::get("/funcs/%3Cscript%3Ealert(1)%3C%2Fscript%3E").html())
        .await;
    assert!(page.status == 401 || page.status == 404);
    assert!(!is_obeyed(&page.body), "{}", page.body);
}

#[tokio::test]
async fn a_page_runs_and_styles_only_what_it_brings() {
    let world = World::new().await;
    world.hello().await;
    let mut nonces = Vec::new();
    for below in [
        "",
        "/functions/hello",
        "/source/hello",
        "/functions/hello/calls",
        "/x/y/z",
    ] {
        let page = world.page(below).await;
        let policy = page.value("content-security-policy").to_owned();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        let nonce = policy
            .split("script-src 'nonce-")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        let nonce = nonce.unwrap().to_owned();
        for script in page.body.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap();
            assert!(tag.contains("src=\"/funcs/_assets/"), "{tag}");
            assert!(tag.contains(&format!("nonce=\"{nonce}\"")), "{tag}");
            assert!(
                script.split('>').nth(1).unwrap().starts_with("</script"),
                "no inline script"
            );
        }
        for inline in [
            " style=",
            "<style",
            " onclick=",
            " onload=",
            "javascript:",
            "src=\"http",
        ] {
            assert!(!page.has(inline), "{inline} in {}", page.body);
        }
        assert_eq!(page.value("x-content-type-options"), "nosniff");
        assert_eq!(page.value("cache-control"), "no-store");
        nonces.push(nonce);
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 5, "a nonce is for one page");
}

#[tokio::test]
async fn style_and_scripts_are_kept_by_browsers_under_names_of_their_content() {
    let world = World::new().await;
    let page = world.page("").await;
    let paths: Vec<_> = page
        .body
        .split('"')
        .filter(|text| text.starts_with("/funcs/_assets/"))
        .collect();
    assert!(paths.len() >= 3, "{paths:?}");
    for path in &paths {
        let file = world.ask(Ask::get(path)).await;
        assert_eq!(file.status, 200, "{path}");
        assert_eq!(
            file.value("cache-control"),
            "public, max-age=31536000, immutable"
        );
        assert_ne!(
            file.value("content-type"),
            "text/plain; charset=utf-8",
            "{path}"
        );
    }
    let other = paths[0].replace("/funcs/_assets/", "/funcs/_assets/0");
    assert_eq!(world.ask(Ask::get(&other)).await.status, 404);
}
