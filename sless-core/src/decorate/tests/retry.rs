use futures::FutureExt as _;

use super::*;
use crate::{
    CatalogExt as _, Function, FunctionSpec, Metadata, Name, Namespace, Runtime,
    memory::MemoryCatalog,
};

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
