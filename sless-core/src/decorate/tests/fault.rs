use futures::{StreamExt as _, TryStreamExt as _};

use super::*;
use crate::{Body, CallContext, Error, Lease, Name, Namespace, memory::MemoryLease};

#[tokio::test]
async fn a_fault_before_the_effect_leaves_none_and_one_after_it_leaves_all() {
    let bench = Bench::new();
    let storage = bench.faulty();
    bench.faults.add(
        FaultRule::on("storage.put")
            .nth(1)
            .failing(ErrorKind::Unavailable),
    );
    bench.faults.add(
        FaultRule::on("storage.put")
            .nth(2)
            .failing_after(ErrorKind::Timeout),
    );
    let error = put(&storage, "x").await.expect_err("before");
    assert_eq!(
        (error.reason(), error.backend()),
        ("fault_injected", "fault")
    );
    assert!(bench.storage.head(&key("a")).await.is_err());
    assert_eq!(
        put(&storage, "x").await.expect_err("after").kind(),
        ErrorKind::Timeout
    );
    assert!(bench.storage.head(&key("a")).await.is_ok());
    put(&storage, "x").await.expect("the third one");
    assert_eq!(
        (
            bench.faults.calls("storage.put"),
            bench.faults.injected("storage.put")
        ),
        (3, 2)
    );
}

#[tokio::test]
async fn a_crash_between_effect_and_answer_can_be_staged() {
    let bench = Bench::new();
    bench
        .faults
        .add(FaultRule::on("storage.put").about("a").hanging_after());
    let storage = bench.faulty();
    let crashing = tokio::spawn(async move { put(&storage, "x").await });
    bench.clock.settle().await;
    assert!(!crashing.is_finished());
    crashing.abort();
    assert_eq!(
        bench
            .storage
            .head(&key("a"))
            .await
            .expect("it was carried out")
            .size,
        1
    );
}

#[tokio::test]
async fn the_same_seed_gives_the_same_faults() {
    async fn outcomes(seed: u64) -> Vec<bool> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::default());
        let faults = Faults::seeded(seed, Arc::clone(&clock));
        let rule = FaultRule::on("lease.*").with_probability(0.5);
        faults.add(rule.failing(ErrorKind::Unavailable));
        let lease = Fault::new(MemoryLease::new(clock), &faults);
        let mut outcomes = Vec::new();
        for _ in 0..64 {
            outcomes.push(lease.acquire("l", "h", SECOND).await.is_ok());
        }
        outcomes
    }
    let first = outcomes(3).await;
    assert_eq!(first, outcomes(3).await);
    assert_ne!(first, outcomes(4).await);
    assert!(first.contains(&true) && first.contains(&false));
}

#[tokio::test]
async fn a_body_can_be_cut() {
    let bench = Bench::new();
    let body = bytes_stream(vec![7; 200_000]);
    bench
        .storage
        .put(&key("a"), body, &PutOptions::default())
        .await
        .expect("stored");
    bench
        .faults
        .add(FaultRule::on("storage.get.body").cutting(1));
    let fetched = bench
        .faulty()
        .get(&key("a"), &Default::default())
        .await
        .expect("it begins");
    let error = fetched
        .body
        .try_collect::<Vec<_>>()
        .await
        .expect_err("it is cut");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[tokio::test]
async fn hints_can_be_lost() {
    use crate::{Change, Changes, Kind, ObjectKey};

    let bench = Bench::new();
    bench
        .faults
        .add(FaultRule::on("scheduler.changes").nth(1).losing());
    let changes = Changes::default();
    let key = |name| {
        let namespace = Namespace::new("n").expect("a label");
        ObjectKey::new(Kind::Function, namespace, Name::new(name).expect("a label"))
    };
    let operation = Operation::new(
        "scheduler.changes",
        &"all",
        crate::decorate::operation::Repeat::Never,
    );
    let hints = Arc::new(bench.faults.clone()).hints(operation, changes.subscribe());
    changes.notify(key("a"));
    changes.notify(key("b"));
    drop(changes);
    assert_eq!(hints.collect::<Vec<_>>().await, [Change::Object(key("b"))]);
}

#[tokio::test]
async fn a_stream_of_hints_that_lags_is_told_to_look_at_everything() {
    use crate::{Change, Changes, Kind, ObjectKey};

    let changes = Changes::default();
    let mut hints = changes.subscribe();
    let namespace = Namespace::new("n").expect("a label");
    let last = Changes::CAPACITY + 9;
    for number in 0..=last {
        let name = Name::new(format!("f-{number}")).expect("a label");
        changes.notify(ObjectKey::new(Kind::Function, namespace.clone(), name));
    }
    assert_eq!(hints.next().await, Some(Change::All));
    // What is still there follows, up to the newest.
    drop(changes);
    let rest: Vec<_> = hints.collect().await;
    assert_eq!(rest.len(), Changes::CAPACITY);
    let Some(Change::Object(newest)) = rest.last() else {
        panic!("no hint")
    };
    assert_eq!(newest.name.as_str(), format!("f-{last}"));
}

#[tokio::test]
async fn calls_of_functions_meet_faults_and_neither_time_outs_nor_retries() {
    use crate::{Scheduler, memory::MemoryScheduler};

    let bench = Bench::new();
    let scheduler = MemoryScheduler::new(bench.shared_clock()).with_handler(
        "handler.handle",
        |_, context| async move {
            context.clock().sleep(5 * SECOND).await;
            Ok(http::Response::new(Body::empty()))
        },
    );
    let scheduler = Fault::new(scheduler, &bench.faults);
    let config = TimeoutConfig::new(SECOND);
    let scheduler = Timeout::new(scheduler, config, bench.shared_clock());
    let scheduler = Retry::new(scheduler, RetryConfig::default(), bench.shared_clock());
    let workload = crate::memory::test_workload(1, 1);
    scheduler.apply(&workload).await.expect("applied");
    let invoker = scheduler.invoker(&workload.function).await.expect("there");
    let call = |invoker: Arc<dyn crate::Invoke>| async move {
        let context = CallContext::new("r", 60 * SECOND);
        invoker
            .invoke(http::Request::new(Body::empty()), &context)
            .await
    };
    let (answer, took) = bench.run(call(Arc::clone(&invoker))).await;
    assert_eq!(
        (answer.expect("an answer").status().as_u16(), took),
        (200, 5 * SECOND)
    );
    bench
        .faults
        .add(FaultRule::on("scheduler.invoke").failing(ErrorKind::Unavailable));
    let error: Error = call(invoker).await.expect_err("injected");
    assert_eq!(
        (error.operation(), bench.faults.calls("scheduler.invoke")),
        ("scheduler.invoke", 2)
    );
}
