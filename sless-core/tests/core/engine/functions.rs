use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_core::{
    Backends, BuildId, BuildRequest, BuildStatus, Builder, BuilderCapabilities, CatalogExt as _,
    ChangeStream, Error, ErrorKind, Function, FunctionId, FunctionPhase, HeldStream,
    InvocationQuery, Kind, LogOptions, LogStream, Metadata, ObjectKey, Options, Origin, Receipt,
    Resource as _, Result, Trigger, TriggerSpec, reason,
};

use super::{World, deploy, name, ns, spec, world, world_with};

#[tokio::test]
async fn a_function_is_deployed_called_and_deleted() {
    let world = world();
    let function = world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    assert_eq!(function.status.phase, FunctionPhase::Ready);
    assert_eq!(function.status.ready_replicas, 1);
    assert_eq!(
        world.call("hello", "hi").await.expect("answers"),
        (200, "hi".to_owned())
    );

    let receipt = world.sless.delete(&function.key()).await.expect("deleted");
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| removed.kind.as_str())
        .collect();
    assert!(
        kinds.contains(&"stored_source") && kinds.contains(&"stored_context"),
        "{kinds:?}"
    );
    let error = world.call("hello", "hi").await.expect_err("gone");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let left = world.sless.backends().storage.list("").count().await;
    assert_eq!(left, 0, "objects are left in storage");
    world.sless.shutdown().await;
}

#[tokio::test]
async fn a_handler_that_raises_is_a_response() {
    let world = world();
    world
        .deploy("bad", "main.fail", "code")
        .await
        .expect("deployed");
    let (status, body) = world.call("bad", "").await.expect("answers");
    assert_eq!(status, 500);
    assert!(
        body.contains("ValueError") && body.contains("no good"),
        "{body}"
    );
}

#[tokio::test]
async fn what_cannot_start_says_why_and_the_old_version_serves_on() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let error = world
        .deploy("hello", "main.nothing", "other")
        .await
        .expect_err("no such handler");
    assert_eq!(error.reason(), reason::HANDLER_MISSING);
    let function = world.function("hello").await;
    assert_eq!(function.status.phase, FunctionPhase::Failed);
    assert_eq!(world.call("hello", "hi").await.expect("serves on").0, 200);
}

#[tokio::test]
async fn a_function_without_code_says_so() {
    let world = world();
    world
        .sless
        .ensure_namespace(&ns())
        .await
        .expect("a namespace");
    world
        .sless
        .put_function(&ns(), &name("empty"), &spec("main.echo"))
        .await
        .expect("created");
    world.rest().await;
    let error = world.call("empty", "").await.expect_err("no code");
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Unavailable, reason::NO_CODE)
    );
}

/// Case 8: the same function put five times with `env` in other orders is no rollout, new code is
/// exactly one.
#[tokio::test]
async fn only_what_differs_is_rolled_out() {
    let world = world();
    let first = world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let mut wanted = spec("main.echo");
    for order in [["A", "B"], ["B", "A"], ["A", "B"], ["B", "A"], ["A", "B"]] {
        wanted.env = order.map(|key| (key.to_owned(), "1".to_owned())).into();
        world
            .sless
            .put_function(&ns(), &name("hello"), &wanted)
            .await
            .expect("put");
        world.rest().await;
    }
    let second = world.function("hello").await;
    assert_eq!(
        second.metadata.generation,
        first.metadata.generation + 1 + 1 - 1,
        "one change"
    );
    assert_ne!(second.status.serving, first.status.serving);
    assert_eq!(world.builder.builds_begun(), 1);

    let mut next = deploy("hello", "main.echo", "new code");
    next.spec = wanted;
    world.sless.deploy(next.clone()).await.expect("deployed");
    let third = world.function("hello").await;
    assert_ne!(third.status.serving, second.status.serving);
    assert_eq!(world.builder.builds_begun(), 2);
    world.sless.deploy(next).await.expect("the same again");
    assert_eq!(world.builder.builds_begun(), 2);
    assert_eq!(world.function("hello").await, third, "nothing was written");
}

#[tokio::test]
async fn nothing_is_written_at_rest() {
    let world = world();
    for number in 0..20 {
        world
            .deploy(&format!("f{number}"), "main.echo", "code")
            .await
            .expect("deployed");
    }
    let catalog = world.sless.backends().catalog.clone();
    let before: Vec<Function> = catalog.read_all(None).await.expect("listed");
    // Several resyncs.
    world.clock.advance(Duration::from_secs(3600)).await;
    world.rest().await;
    let after: Vec<Function> = catalog.read_all(None).await.expect("listed");
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_disabled_http_trigger_stops_its_function_and_an_enabled_one_starts_it() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let catalog = world.sless.backends().catalog.clone();
    let trigger = Trigger::new(
        Metadata::new(ns(), name("web")),
        TriggerSpec::http(name("hello")),
    );
    catalog.add(trigger).await.expect("created");
    world.rest().await;
    let seen: Trigger = catalog.read(&ns(), &name("web")).await.expect("there");
    assert!(seen.status.active);
    assert!(seen.status.url.expect("a URL").ends_with("/fn/test/hello"));

    for _ in 0..2 {
        set_enabled(&world, false).await;
        let function = world.until("hello", FunctionPhase::Stopped).await;
        assert_eq!(function.status.reason, reason::TRIGGER_DISABLED);
        let error = world.call("hello", "hi").await.expect_err("stopped");
        assert_eq!(
            (error.kind(), error.reason()),
            (ErrorKind::Unavailable, reason::TRIGGER_DISABLED)
        );
        set_enabled(&world, true).await;
        world.until("hello", FunctionPhase::Ready).await;
        assert_eq!(world.call("hello", "hi").await.expect("answers").0, 200);
    }
    // Without any trigger it has its URL by itself.
    set_enabled(&world, false).await;
    world.until("hello", FunctionPhase::Stopped).await;
    let key = ObjectKey::new(Kind::Trigger, ns(), name("web"));
    world.sless.delete(&key).await.expect("deleted");
    world.until("hello", FunctionPhase::Ready).await;
}

async fn set_enabled(world: &World, enabled: bool) {
    let catalog = &world.sless.backends().catalog;
    let (ns, name) = (ns(), name("web"));
    let changed = catalog.modify(&ns, &name, |trigger: &mut Trigger| {
        trigger.spec.enabled = enabled;
        Ok(())
    });
    changed.await.expect("changed");
}

#[tokio::test]
async fn replicas_zero_is_off() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let mut wanted = spec("main.echo");
    wanted.replicas = Some(0);
    world
        .sless
        .put_function(&ns(), &name("hello"), &wanted)
        .await
        .expect("put");
    let function = world.until("hello", FunctionPhase::Stopped).await;
    assert_eq!(function.status.ready_replicas, 0);
    let error = world.call("hello", "").await.expect_err("off");
    assert_eq!(error.reason(), reason::SCALED_TO_ZERO);
}

#[tokio::test]
async fn calls_are_recorded_with_what_became_of_them() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    world.call("hello", "four").await.expect("answers");
    world.call("missing", "").await.expect_err("not there");
    world.sless.shutdown().await;
    let log = world.sless.backends().invocations.clone().expect("a log");
    let query = InvocationQuery::of_function(ns(), name("hello"), 10);
    let page = log.query(&query).await.expect("a page");
    let [record] = page.items.as_slice() else {
        panic!("{page:?}")
    };
    assert_eq!(
        (record.status, record.response_bytes, record.origin),
        (200, 4, Origin::Direct)
    );
    let query = InvocationQuery::of_function(ns(), name("missing"), 10);
    let page = log.query(&query).await.expect("a page");
    assert_eq!(page.items[0].error.as_deref(), Some("not_found"));
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended() {
    let world = world();
    let mut slow = deploy("slow", "main.slow", "code");
    slow.spec.timeout_seconds = 5;
    world.sless.deploy(slow).await.expect("deployed");
    let call = tokio::spawn({
        let sless = world.sless.clone();
        async move {
            let request = http::Request::new(sless_core::Body::empty());
            sless.invoke(&ns(), &name("slow"), request).await.map(drop)
        }
    });
    world.clock.advance(Duration::from_secs(5)).await;
    let error = call.await.expect("no panic").expect_err("too slow");
    assert_eq!(error.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_namespace_is_ensured_and_nothing_goes_into_one_that_is_not_there() {
    let world = world();
    let error = world
        .sless
        .put_function(&ns(), &name("f"), &spec("main.echo"))
        .await;
    assert_eq!(error.expect_err("no namespace").kind(), ErrorKind::NotFound);
    world.sless.ensure_namespace(&ns()).await.expect("made");
    world
        .sless
        .put_function(&ns(), &name("f"), &spec("main.echo"))
        .await
        .expect("created");
}

/// A builder whose `prune` fails a few times, once with `NotFound` and once with `Conflict`.
#[derive(Debug)]
struct Reluctant {
    inner: Arc<dyn Builder>,
    errors: Mutex<Vec<ErrorKind>>,
    pruned: AtomicUsize,
}

#[async_trait]
impl Builder for Reluctant {
    fn capabilities(&self) -> BuilderCapabilities {
        self.inner.capabilities()
    }

    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        self.inner.ensure(request).await
    }

    async fn cancel(&self, id: &BuildId) -> Result<()> {
        self.inner.cancel(id).await
    }

    async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream> {
        self.inner.logs(id, options).await
    }

    async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt> {
        if keep.is_empty() {
            self.pruned.fetch_add(1, Ordering::Relaxed);
            if let Some(kind) = self.errors.lock().expect("no panic").pop() {
                return Err(Error::new(kind, "a child of another mind"));
            }
        }
        self.inner.prune(function, keep).await
    }

    fn held(&self) -> HeldStream {
        self.inner.held()
    }

    fn changes(&self) -> ChangeStream {
        self.inner.changes()
    }
}

/// Case 8, the end: a delete during which one child answers 404 and one 409 goes on and leaves
/// nothing.
#[tokio::test]
async fn a_delete_goes_on_past_what_is_gone_and_what_conflicts() {
    let mut reluctant = None;
    let world = world_with(Options::default(), |backends: &mut Backends| {
        let builder = Arc::new(Reluctant {
            inner: backends.builders[0].clone(),
            errors: Mutex::new(vec![ErrorKind::NotFound, ErrorKind::Conflict]),
            pruned: AtomicUsize::new(0),
        });
        reluctant = Some(builder.clone());
        backends.builders = vec![builder];
    });
    let reluctant = reluctant.expect("made");
    let function = world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let receipt = world.sless.delete(&function.key()).await.expect("deleted");
    assert!(
        reluctant.pruned.load(Ordering::Relaxed) >= 2,
        "tried again after the conflict"
    );
    assert!(!receipt.removed.is_empty());
    assert_eq!(world.sless.backends().storage.list("").count().await, 0);
    let gone = world.sless.backends().catalog.get(&function.key()).await;
    assert!(gone.expect_err("gone").is_not_found());
}

#[tokio::test]
async fn copies_by_load_are_refused_where_the_scheduler_makes_none() {
    let world = world();
    let mut deploy = super::deploy("hello", "main.echo", "code");
    deploy.spec.max_replicas = Some(3);
    let refused = world.sless.deploy(deploy).await.expect_err("not here");
    assert_eq!(refused.reason(), "scaling_unsupported");
    let mut deploy = super::deploy("hello", "main.echo", "code");
    // No more than are wanted anyway.
    (deploy.spec.replicas, deploy.spec.max_replicas) = (Some(2), Some(1));
    world.sless.deploy(deploy).await.expect("deployed");
}
