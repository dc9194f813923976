use std::{
    io::Cursor,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use sless_core::{
    Backends, Error, ErrorKind, Options, Runtime, Upload, ValidationAction, ValidationFailure,
    Validator, Verdict, bytes_stream,
    memory::MemoryValidator,
    source::{SourceTree, pack},
};

use super::{World, name, ns, spec, world, world_with};

async fn stored(world: &World) -> usize {
    world.sless.backends().storage.list("").count().await
}

fn unsafe_validator(backends: &mut Backends) {
    let verdict = Verdict::Unsafe {
        reason: "it mines coins".to_owned(),
    };
    backends.validator = Arc::new(MemoryValidator::fixed(verdict));
}

#[tokio::test]
async fn unsafe_code_is_refused_and_nothing_is_stored() {
    let world = world_with(Options::default(), unsafe_validator);
    let error = world
        .deploy("miner", "main.echo", "mine()")
        .await
        .expect_err("refused");
    assert_eq!(error.message(), "code validation failed: it mines coins");
    assert_eq!(
        (error.kind(), stored(&world).await),
        (ErrorKind::Invalid, 0)
    );
    assert_eq!(world.function("miner").await.spec.code_sha256, None);
}

#[tokio::test]
async fn with_a_warning_policy_it_is_accepted_and_the_verdict_is_kept() {
    let mut options = Options::default();
    options.validation.action = ValidationAction::Warn;
    let world = world_with(options, unsafe_validator);
    let function = world
        .deploy("miner", "main.echo", "mine()")
        .await
        .expect("accepted");
    let kept = function.status.verification.expect("a verdict");
    assert_eq!(
        (kept.verdict.as_str(), kept.reason.as_str()),
        ("unsafe", "it mines coins")
    );
}

#[tokio::test]
async fn a_validator_that_is_away_lets_it_pass_with_a_warning_or_refuses_it_for_now() {
    for (on_failure, passes) in [
        (ValidationFailure::Soft, true),
        (ValidationFailure::Hard, false),
    ] {
        let mut options = Options::default();
        options.validation.on_failure = on_failure;
        let world = world_with(options, |backends| {
            let away = |_: &_, _| Err(Error::unavailable("the model is away"));
            backends.validator = Arc::new(MemoryValidator::new(away));
        });
        let deployed = world.deploy("hello", "main.echo", "code").await;
        assert_eq!(deployed.is_ok(), passes);
        if let Err(error) = deployed {
            assert_eq!(error.reason(), "validation_unavailable");
            assert_eq!(stored(&world).await, 0);
        }
    }
}

/// Says what it is told to say, under a name that can change, and counts how often it was asked.
#[derive(Debug, Default)]
struct Reviewer {
    name: Mutex<String>,
    says: Mutex<Option<Verdict>>,
    asked: AtomicUsize,
}

impl Reviewer {
    fn set(&self, name: &str, says: Option<Verdict>) {
        *self.name.lock().expect("no panic") = name.to_owned();
        *self.says.lock().expect("no panic") = says;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Validator for Reviewer {
    fn identity(&self) -> String {
        self.name.lock().expect("no panic").clone()
    }

    async fn validate(&self, _: &SourceTree, _: Runtime) -> sless_core::Result<Verdict> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let says = self.says.lock().expect("no panic").clone();
        says.ok_or_else(|| Error::unavailable("the model is away"))
    }
}

fn reviewed(action: ValidationAction, name: &str, says: Option<Verdict>) -> (World, Arc<Reviewer>) {
    let reviewer = Arc::new(Reviewer::default());
    reviewer.set(name, says);
    let mut options = Options::default();
    options.validation.action = action;
    let world = world_with(options, |backends| backends.validator = reviewer.clone());
    (world, reviewer)
}

fn found() -> Verdict {
    Verdict::Unsafe {
        reason: "it mines coins".to_owned(),
    }
}

async fn again(world: &World) -> sless_core::Result<Upload> {
    let source = SourceTree::from_files([("main.py", "code")])?;
    let zip = pack::write_zip(&source, Cursor::new(Vec::new()))?.into_inner();
    world
        .sless
        .upload(&ns(), &name("hello"), bytes_stream(zip))
        .await
}

#[tokio::test]
async fn a_verdict_is_kept_for_the_same_code_and_the_same_validator() {
    let (world, reviewer) = reviewed(ValidationAction::Block, "one", Some(Verdict::Safe));
    let first = world.deploy("hello", "main.echo", "code").await;
    let kept = first.expect("deployed").status.verification.expect("kept");
    assert_eq!((kept.verdict.as_str(), kept.by.as_str()), ("safe", "one"));
    world.clock.advance(Duration::from_secs(1)).await;
    let upload = again(&world).await.expect("the same again");
    assert!(upload.unchanged);
    assert_eq!(upload.verification, Some(kept));
    assert_eq!(reviewer.asked(), 1);

    world
        .deploy("hello", "main.echo", "other")
        .await
        .expect("deployed");
    assert_eq!(reviewer.asked(), 2, "other code is looked at");
}

#[tokio::test]
async fn a_verdict_of_another_validator_does_not_stand() {
    let (world, reviewer) = reviewed(ValidationAction::Block, "one", Some(Verdict::Safe));
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    reviewer.set("two", Some(found()));
    let error = again(&world).await.expect_err("refused");
    assert_eq!(error.reason(), "code_validation_failed");
    reviewer.set("two", Some(Verdict::Safe));
    let upload = again(&world).await.expect("accepted");
    assert_eq!((upload.unchanged, reviewer.asked()), (true, 3));
    let kept = world
        .function("hello")
        .await
        .status
        .verification
        .expect("kept");
    assert_eq!(kept.by, "two");
}

#[tokio::test]
async fn that_nobody_looked_is_stored_and_asked_again() {
    let (world, reviewer) = reviewed(ValidationAction::Block, "one", None);
    let function = world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("soft");
    let kept = function.status.verification.expect("kept");
    assert_eq!(
        (kept.verdict.as_str(), kept.reason.as_str()),
        ("skipped", "the code was not validated: the model is away")
    );
    let version = world.function("hello").await.metadata.version;
    let upload = again(&world).await.expect("accepted");
    assert_eq!(*upload.warnings, *std::slice::from_ref(&kept.reason));
    assert_eq!(
        world.function("hello").await.metadata.version,
        version,
        "nothing new, no write"
    );
    reviewer.set("one", Some(Verdict::Safe));
    let upload = again(&world).await.expect("accepted");
    assert_eq!(upload.verification.expect("a verdict").verdict, "safe");
    assert_eq!(reviewer.asked(), 3);
}

#[tokio::test]
async fn what_passed_with_a_warning_is_warned_of_again() {
    let (world, reviewer) = reviewed(ValidationAction::Warn, "one", Some(found()));
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("warned");
    let upload = again(&world).await.expect("warned");
    assert_eq!(
        upload.warnings,
        ["the code was found unsafe: it mines coins"]
    );
    assert_eq!(reviewer.asked(), 1);
}

#[tokio::test]
async fn where_validation_is_off_nobody_is_asked() {
    let (world, reviewer) = reviewed(ValidationAction::Off, "one", Some(found()));
    let function = world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("accepted");
    assert_eq!((function.status.verification, reviewer.asked()), (None, 0));
}

#[tokio::test]
async fn an_upload_that_is_no_zip_changes_nothing() {
    let world = world();
    let before = world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    let objects = stored(&world).await;
    let broken = world
        .sless
        .upload(&ns(), &name("hello"), bytes_stream("no zip"))
        .await;
    assert_eq!(broken.expect_err("no zip").kind(), ErrorKind::Invalid);
    let missing = world
        .sless
        .upload(&ns(), &name("nobody"), bytes_stream("no zip"))
        .await;
    assert_eq!(
        missing.expect_err("no function").kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        (world.function("hello").await, stored(&world).await),
        (before, objects)
    );
}

#[tokio::test]
async fn a_body_that_breaks_off_or_is_too_long_changes_nothing() {
    let mut options = Options::default();
    options.source_limits.zip_bytes = 100;
    let world = world_with(options, |_| {});
    world
        .sless
        .ensure_namespace(&ns())
        .await
        .expect("a namespace");
    world
        .sless
        .put_function(&ns(), &name("f"), &spec("main.echo"))
        .await
        .expect("created");
    let long = world
        .sless
        .upload(&ns(), &name("f"), bytes_stream(vec![0; 101]))
        .await;
    assert_eq!(long.expect_err("too long").reason(), "limit_zip_bytes");
    let parts = [
        Ok("PK".into()),
        Err(Error::new(ErrorKind::Interrupted, "left")),
    ];
    let cut = world
        .sless
        .upload(&ns(), &name("f"), futures::stream::iter(parts).boxed())
        .await;
    assert_eq!(cut.expect_err("cut").kind(), ErrorKind::Interrupted);
    assert_eq!(stored(&world).await, 0);
}

#[tokio::test]
async fn old_sources_go_and_the_current_one_is_read_back() {
    let world = world();
    for version in 0..6 {
        let code = format!("version = {version}");
        world
            .deploy("hello", "main.echo", &code)
            .await
            .expect("deployed");
        world.clock.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(stored(&world).await, 2 * Options::default().sources_kept);
    let source = world
        .sless
        .source(&ns(), &name("hello"))
        .await
        .expect("a source");
    assert_eq!(source.read("main.py").expect("a file"), "version = 5");
    let zip = world
        .sless
        .source_zip(&ns(), &name("hello"))
        .await
        .expect("a zip");
    assert!(
        zip.map(|chunk| chunk.expect("bytes").len())
            .collect::<Vec<_>>()
            .await[0]
            > 0
    );
}
