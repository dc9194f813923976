use std::time::Duration;

use futures::TryStreamExt as _;
use sless_core::{
    Builder as _, CatalogExt as _, FunctionJob, InvocationQuery, JobPhase, JobSpec, Metadata,
    Origin, Resource as _, reason,
};

use super::{World, name, ns, world};

pub(super) async fn until(world: &World, job: &str, phase: JobPhase, run_id: i64) -> FunctionJob {
    let catalog = &world.sless.backends().catalog;
    for _ in 0..1_000 {
        let now: FunctionJob = catalog.read(&ns(), &name(job)).await.expect("a job");
        if now.status.phase == phase && now.status.run_id == run_id {
            return now;
        }
        world.clock.settle().await;
    }
    let now: FunctionJob = catalog.read(&ns(), &name(job)).await.expect("a job");
    panic!("{job} is not {phase:?}: {:?}", now.status);
}

pub(super) async fn create(world: &World, job: &str, function: &str, run_id: i64) {
    let mut spec = JobSpec::new(name(function));
    spec.run_id = run_id;
    spec.event_json = Some(r#"{"a":1}"#.to_owned());
    let job = FunctionJob::new(Metadata::new(ns(), name(job)), spec);
    world
        .sless
        .backends()
        .catalog
        .add(job)
        .await
        .expect("created");
}

async fn set_run_id(world: &World, job: &str, run_id: i64) {
    let (ns, name) = (ns(), name(job));
    let changed = world
        .sless
        .backends()
        .catalog
        .modify(&ns, &name, |job: &mut FunctionJob| {
            job.spec.run_id = run_id;
            Ok(())
        });
    changed.await.expect("changed");
}

#[tokio::test]
async fn a_run_id_of_0_runs_nothing_and_each_higher_one_runs_once() {
    let world = world();
    world
        .deploy("hello", "main.echo", "code")
        .await
        .expect("deployed");
    create(&world, "job", "hello", 0).await;
    let job = until(&world, "job", JobPhase::Skipped, 0).await;
    assert_eq!(job.status.started_at, None);

    for run_id in [1, 2, 7] {
        set_run_id(&world, "job", run_id).await;
        let job = until(&world, "job", JobPhase::Succeeded, run_id).await;
        assert!(job.status.started_at.is_some() && job.status.finished_at.is_some());
        assert!(job.status.result.expect("a result").contains('a'));
    }
    set_run_id(&world, "job", 3).await;
    world.rest().await;
    until(&world, "job", JobPhase::Succeeded, 7).await;

    world.sless.shutdown().await;
    let log = world.sless.backends().invocations.clone().expect("a log");
    let page = log
        .query(&InvocationQuery::of_function(ns(), name("hello"), 10))
        .await;
    let runs = page.expect("a page").items;
    assert_eq!(
        runs.iter().filter(|run| run.origin == Origin::Job).count(),
        3
    );
}

#[tokio::test]
async fn a_job_waits_for_its_function() {
    let world = world();
    world
        .sless
        .ensure_namespace(&ns())
        .await
        .expect("a namespace");
    create(&world, "job", "late", 1).await;
    world.rest().await;
    let job = until(&world, "job", JobPhase::Pending, 1).await;
    assert_eq!(job.status.reason, reason::FUNCTION_MISSING);
    world
        .deploy("late", "main.echo", "code")
        .await
        .expect("deployed");
    until(&world, "job", JobPhase::Succeeded, 1).await;
}

#[tokio::test]
async fn a_handler_that_raises_fails_its_run() {
    let world = world();
    world
        .deploy("bad", "main.fail", "code")
        .await
        .expect("deployed");
    create(&world, "job", "bad", 1).await;
    let job = until(&world, "job", JobPhase::Failed, 1).await;
    assert!(job.status.message.contains("no good"), "{:?}", job.status);
    let receipt = world.sless.delete(&job.key()).await.expect("deleted");
    assert!(!receipt.removed.is_empty());
}

#[tokio::test]
async fn a_run_keeps_the_build_that_it_is_of() {
    let world = world();
    world
        .deploy("slow", "main.slow", "one")
        .await
        .expect("deployed");
    create(&world, "job", "slow", 1).await;
    until(&world, "job", JobPhase::Running, 1).await;
    world
        .deploy("slow", "main.slow", "two")
        .await
        .expect("deployed");
    world.rest().await;
    let builds = async || {
        let held: Vec<_> = world.builder.held().try_collect().await.expect("a list");
        held.into_iter().filter(|held| held.kind == "build").count()
    };
    assert_eq!(builds().await, 2, "the run may still need its build");
    world.clock.advance(Duration::from_secs(10)).await;
    until(&world, "job", JobPhase::Succeeded, 1).await;
    world.clock.advance(Duration::from_secs(30)).await;
    world.rest().await;
    assert_eq!(builds().await, 1, "nobody needs the first any more");
}
