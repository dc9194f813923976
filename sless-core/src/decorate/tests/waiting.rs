use futures::StreamExt as _;

use super::*;
use crate::{Catalog, memory::MemoryCatalog};

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
