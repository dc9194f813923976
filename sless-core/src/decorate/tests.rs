//! The decorators, on a virtual clock.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};

use super::*;
use crate::{
    Body, CallContext, Catalog, CatalogExt as _, Clock, Error, ErrorKind, Function, FunctionSpec,
    Lease, Metadata, Name, Namespace, PutOptions, Result, Runtime, Storage, StorageKey, Stored,
    VirtualClock, bytes_stream,
    memory::{MemoryCatalog, MemoryLease, MemoryStorage},
};

const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    clock: VirtualClock,
    faults: Faults,
    storage: Arc<MemoryStorage>,
}

impl Bench {
    fn new() -> Self {
        let clock = VirtualClock::default();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let faults = Faults::seeded(1, Arc::clone(&shared));
        Self {
            clock,
            faults,
            storage: Arc::new(MemoryStorage::new(shared)),
        }
    }

    fn shared_clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock.clone())
    }

    fn faulty(&self) -> Fault<Arc<MemoryStorage>> {
        Fault::new(Arc::clone(&self.storage), &self.faults)
    }

    /// Runs a future to its end, letting time pass; answers how long that took.
    async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> (T, Duration) {
        let began = self.clock.elapsed();
        let task = tokio::spawn(future);
        self.clock.settle().await;
        while !task.is_finished() {
            assert!(self.clock.advance_to_next().await, "it waits for nothing");
        }
        (task.await.expect("no panic"), self.clock.elapsed() - began)
    }
}

fn key(text: &str) -> StorageKey {
    StorageKey::new(text).expect("a key")
}

async fn put(storage: &impl Storage, text: &'static str) -> Result<Stored> {
    storage
        .put(&key("a"), bytes_stream(text), &PutOptions::default())
        .await
}

#[tokio::test]
async fn a_passing_error_is_repeated_with_growing_delays() {
    let bench = Bench::new();
    bench.faults.add(
        FaultRule::on("storage.head")
            .first(3)
            .failing(ErrorKind::Unavailable),
    );
    put(&bench.storage, "x").await.expect("stored");
    let config = RetryConfig::default().with_delays(SECOND, 2 * SECOND);
    let storage = Retry::new(bench.faulty(), config.clone(), bench.shared_clock());
    let (head, took) = bench
        .run(async move { storage.head(&key("a")).await })
        .await;
    assert_eq!(head.expect("the fourth attempt").size, 1);
    assert_eq!(bench.faults.calls("storage.head"), 4);
    // One, two and two seconds, each with up to as much again.
    assert!((5 * SECOND..=10 * SECOND).contains(&took), "{took:?}");

    // The same seed waits the same.
    let again = Bench::new();
    again.faults.add(
        FaultRule::on("storage.head")
            .first(3)
            .failing(ErrorKind::Unavailable),
    );
    let storage = Retry::new(again.faulty(), config, again.shared_clock());
    let (_, same) = again
        .run(async move { storage.head(&key("a")).await })
        .await;
    assert_eq!(took, same);
}

#[tokio::test]
async fn attempts_are_counted_and_the_last_error_is_answered() {
    let bench = Bench::new();
    bench
        .faults
        .add(FaultRule::on("*").failing(ErrorKind::Timeout));
    let config = RetryConfig::default().with_attempts(2);
    let storage = Retry::new(bench.faulty(), config, bench.shared_clock());
    let (answer, _) = bench
        .run(async move { storage.delete(&key("a")).await })
        .await;
    assert_eq!(
        answer.expect_err("every attempt").kind(),
        ErrorKind::Timeout
    );
    assert_eq!(bench.faults.calls("storage.delete"), 2);
}

#[tokio::test]
async fn what_cannot_help_is_not_repeated() {
    for kind in [ErrorKind::NotFound, ErrorKind::Invalid, ErrorKind::Conflict] {
        let bench = Bench::new();
        bench.faults.add(FaultRule::on("*").failing(kind));
        let storage = Retry::new(bench.faulty(), RetryConfig::default(), bench.shared_clock());
        let answer = storage.head(&key("a")).now_or_never().expect("no wait");
        assert_eq!(answer.expect_err("it fails").kind(), kind);
        assert_eq!(bench.faults.calls("storage.head"), 1);
    }
}

#[tokio::test]
async fn the_wait_that_an_error_asks_for_is_kept() {
    let bench = Bench::new();
    let rule = FaultRule::on("*").first(1).failing(ErrorKind::Overloaded);
    bench
        .faults
        .add(rule.with_retry(crate::Retry::After(4 * SECOND)));
    let config = RetryConfig::default().with_delays(Duration::from_millis(1), 5 * SECOND);
    let storage = Retry::new(bench.faulty(), config, bench.shared_clock());
    let (answer, took) = bench
        .run(async move { storage.delete(&key("a")).await })
        .await;
    answer.expect("the second attempt");
    assert_eq!(took, 4 * SECOND);
}

#[tokio::test]
async fn a_longer_wait_than_allowed_is_left_to_the_caller() {
    let bench = Bench::new();
    let rule = FaultRule::on("*").first(1).failing(ErrorKind::Overloaded);
    bench
        .faults
        .add(rule.with_retry(crate::Retry::After(60 * SECOND)));
    let storage = Retry::new(bench.faulty(), RetryConfig::default(), bench.shared_clock());
    let answer = storage.delete(&key("a")).now_or_never().expect("no wait");
    assert_eq!(
        answer.expect_err("as it came").retry(),
        crate::Retry::After(60 * SECOND)
    );
}

#[tokio::test]
async fn a_body_is_offered_again_only_while_it_is_unread() {
    let bench = Bench::new();
    bench.faults.add(
        FaultRule::on("storage.put")
            .first(1)
            .failing(ErrorKind::Unavailable),
    );
    let storage = Retry::new(bench.faulty(), RetryConfig::default(), bench.shared_clock());
    let (stored, _) = bench.run(async move { put(&storage, "whole").await }).await;
    assert_eq!(stored.expect("the second attempt").size, 5);

    bench.faults.clear();
    bench.faults.add(
        FaultRule::on("storage.put")
            .first(1)
            .failing_after(ErrorKind::Unavailable),
    );
    let storage = Retry::new(bench.faulty(), RetryConfig::default(), bench.shared_clock());
    let answer = put(&storage, "other").now_or_never().expect("no wait");
    assert_eq!(
        answer.expect_err("the body is read").kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(bench.faults.calls("storage.put"), 3);
}

#[tokio::test]
async fn what_must_not_happen_twice_is_not_repeated() {
    let bench = Bench::new();
    bench
        .faults
        .add(FaultRule::on("*").failing(ErrorKind::Timeout));
    let storage = Retry::new(bench.faulty(), RetryConfig::default(), bench.shared_clock());
    let options = PutOptions::default().if_absent();
    let answer = storage
        .put(&key("a"), bytes_stream("x"), &options)
        .now_or_never();
    answer.expect("no wait").expect_err("it fails");
    assert_eq!(bench.faults.calls("storage.put"), 1);

    let catalog = MemoryCatalog::new(bench.shared_clock());
    let catalog = Fault::new(catalog, &bench.faults);
    let catalog = Retry::new(catalog, RetryConfig::default(), bench.shared_clock());
    catalog
        .add(function())
        .now_or_never()
        .expect("no wait")
        .expect_err("it fails");
    assert_eq!(bench.faults.calls("catalog.create"), 1);
}

fn function() -> Function {
    let namespace = Namespace::new("n").expect("a label");
    let metadata = Metadata::new(namespace, Name::new("f").expect("a label"));
    Function::new(metadata, FunctionSpec::new(Runtime::Python311))
}

#[tokio::test]
async fn a_call_that_hangs_ends_in_time_and_names_itself() {
    let bench = Bench::new();
    bench.faults.add(FaultRule::on("storage.head").hanging());
    let config = TimeoutConfig::new(9 * SECOND).with_operation("storage.head", 2 * SECOND);
    let storage = Timeout::new(bench.faulty(), config, bench.shared_clock());
    let (answer, took) = bench
        .run(async move { storage.head(&key("a")).await })
        .await;
    let error = answer.expect_err("too late");
    assert_eq!((error.kind(), took), (ErrorKind::Timeout, 2 * SECOND));
    assert_eq!((error.operation(), error.subject()), ("storage.head", "a"));
}

#[tokio::test]
async fn each_item_of_a_stream_has_its_time() {
    let bench = Bench::new();
    put(&bench.storage, "x").await.expect("stored");
    bench
        .faults
        .add(FaultRule::on("storage.list").hanging_after());
    let config = TimeoutConfig::new(SECOND);
    let storage = Timeout::new(bench.faulty(), config, bench.shared_clock());
    let (items, took) = bench.run(storage.list("").collect::<Vec<_>>()).await;
    assert_eq!(took, SECOND);
    let [Ok(first), Err(error)] = &items[..] else {
        panic!("{items:?}")
    };
    assert_eq!(first.key, key("a"));
    assert_eq!(
        (error.kind(), error.operation()),
        (ErrorKind::Timeout, "storage.list")
    );
}

#[tokio::test]
async fn a_watch_may_rest() {
    let bench = Bench::new();
    let catalog = MemoryCatalog::new(bench.shared_clock());
    let catalog = Timeout::new(catalog, TimeoutConfig::new(SECOND), bench.shared_clock());
    let mut watch = catalog.watch(&Default::default()).await.expect("a watch");
    watch.next().await.expect("the bookmark").expect("no error");
    let next = tokio::spawn(async move { watch.next().await });
    bench.clock.advance(60 * SECOND).await;
    assert!(!next.is_finished());
    drop(catalog);
    assert!(next.await.expect("no panic").is_none());
}

#[tokio::test]
async fn calls_over_the_limit_wait_and_too_many_are_refused() {
    let bench = Bench::new();
    bench
        .faults
        .add(FaultRule::on("storage.delete").delayed(SECOND));
    let config = LimitConfig::new(1).with_waiting(1, 60 * SECOND);
    let storage = Arc::new(Limit::new(bench.faulty(), config, bench.shared_clock()));
    let delete = |storage: Arc<_>| async move { Storage::delete(&*storage, &key("a")).await };
    let first = tokio::spawn(delete(Arc::clone(&storage) as Arc<dyn Storage>));
    let second = tokio::spawn(delete(Arc::clone(&storage) as Arc<dyn Storage>));
    bench.clock.settle().await;
    let error = storage.delete(&key("a")).await.expect_err("one too many");
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::Overloaded, "limit_calls_waiting")
    );
    assert_eq!(error.operation(), "storage.delete");
    bench.clock.advance(SECOND).await;
    assert!(first.is_finished() && !second.is_finished());
    bench.clock.advance(SECOND).await;
    assert!(second.is_finished());
    assert_eq!(bench.faults.calls("storage.delete"), 2);
}

#[tokio::test]
async fn a_wait_for_a_place_has_an_end_and_leaving_frees_it() {
    let bench = Bench::new();
    bench
        .faults
        .add(FaultRule::on("storage.delete").first(1).hanging());
    let config = LimitConfig::new(1).with_waiting(1, SECOND);
    let storage = Arc::new(Limit::new(bench.faulty(), config, bench.shared_clock()));
    let hanging = tokio::spawn({
        let storage = Arc::clone(&storage);
        async move { storage.delete(&key("a")).await }
    });
    bench.clock.settle().await;
    let waiting = Arc::clone(&storage);
    let (answer, took) = bench
        .run(async move { waiting.delete(&key("a")).await })
        .await;
    assert_eq!(answer.expect_err("too long").reason(), "limit_longest_wait");
    assert_eq!(took, SECOND);
    hanging.abort();
    bench.clock.settle().await;
    storage
        .delete(&key("a"))
        .await
        .expect("the place is free again");
}

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
    let operation = Operation::new("scheduler.changes", &"all", super::operation::Repeat::Never);
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
async fn calls_of_functions_are_surrounded_only_by_faults_and_traces() {
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
    let scheduler = Trace::new(scheduler, "memory", bench.shared_clock());
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
