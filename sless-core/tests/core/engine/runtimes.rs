use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sless_core::{
    FunctionPhase, Options, Runtime,
    memory::{BuildPlan, MemoryBuilder, MemoryBuilderConfig},
};

use super::{world, world_with};

/// How many functions there are, and how many are built at once.
const FUNCTIONS: usize = 6;
const AT_ONCE: usize = 2;
/// How long a build takes.
const BUILD: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_new_version_of_a_runtime_rebuilds_its_functions_a_few_at_a_time() {
    let before = world();
    let functions: Vec<String> = (0..FUNCTIONS).map(|at| format!("f{at}")).collect();
    for function in &functions {
        let deployed = before.deploy(function, "main.echo", function).await;
        assert_eq!(
            deployed.expect("deployed").status.phase,
            FunctionPhase::Ready
        );
    }
    before.sless.shutdown().await;

    let mut options = Options::default();
    let versions = &mut options.runtimes.versions;
    versions.insert(Runtime::Python311, "v9.9.9".to_owned());
    let clock = before.clock.clone();
    let mut config = MemoryBuilderConfig::default();
    config.builds_at_once = AT_ONCE;
    // Asked when a build gets its place.
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let builder = MemoryBuilder::with_config(Arc::new(clock.clone()), config, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        BuildPlan::default().taking(BUILD)
    });
    let builder = Arc::new(builder);
    let mut after = world_with(options, |backends| {
        let old = before.sless.backends();
        backends.catalog = old.catalog.clone();
        backends.storage = old.storage.clone();
        backends.scheduler = old.scheduler.clone();
        backends.clock = old.clock.clone();
        backends.builders = vec![builder.clone()];
    });
    after.clock = clock;
    after.builder = builder;

    for round in 1..=FUNCTIONS / AT_ONCE {
        after.rest().await;
        let begun = begun.load(Ordering::Relaxed);
        assert_eq!(begun, round * AT_ONCE, "builds that were begun");
        for function in &functions {
            // The old version answers until the new one does.
            assert_eq!(after.call(function, "hi").await.expect("answers").0, 200);
        }
        after.clock.advance(BUILD).await;
    }
    for function in &functions {
        let built = after.until(function, FunctionPhase::Ready).await;
        let artifact = built.status.artifact.expect("an artifact");
        assert!(artifact.reference.ends_with("/v9.9.9"), "{artifact:?}");
    }
    assert_eq!(begun.load(Ordering::Relaxed), FUNCTIONS, "none twice");
    after.sless.shutdown().await;
}
