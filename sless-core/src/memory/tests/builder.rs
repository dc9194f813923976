use std::sync::Arc;

use super::*;
use crate::{
    BuildId, BuildRequest, BuildStatus, Builder, ContextRef, ErrorKind, PutOptions,
    RuntimeVersions, Storage, StorageKey, bytes_stream, reason,
    source::{SourceTree, context},
};

/// Stores the context of a small source, and answers the request to build it.
async fn request(storage: &Arc<MemoryStorage>) -> BuildRequest {
    let tree = SourceTree::from_files([("handler.py", "def handle(e): return e")]).expect("a tree");
    let info = RuntimeVersions::default()
        .info(Runtime::Python311, Entrypoint::default())
        .expect("the defaults");
    let mut packed = Vec::new();
    context::write(&tree, &info, &mut packed).expect("a context");
    let key = StorageKey::new("contexts/n/f/1.tar.gz").expect("a key");
    storage
        .put(&key, bytes_stream(packed), &PutOptions::default())
        .await
        .expect("stored");
    let id = BuildId {
        function: workload(1, 1).function,
        code: tree.digest(),
        runtime_version: info.version.clone(),
        attempt: 0,
    };
    let storage: Arc<dyn Storage> = storage.clone();
    BuildRequest::new(id, info, false, ContextRef { storage, key })
}

#[tokio::test]
async fn a_build_reads_its_context_and_takes_its_time() {
    let (time, clock) = clocks();
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    let request = request(&storage).await;
    let plan = |_: &BuildRequest| BuildPlan::default().taking(10 * SECOND);
    let builder = MemoryBuilder::with_config(clock, MemoryBuilderConfig::default(), plan);
    builder.ensure(&request).await.expect("begun");
    time.advance(9 * SECOND).await;
    let status = builder.ensure(&request).await.expect("under way");
    assert_eq!(
        status,
        BuildStatus::Running {
            step: "build".to_owned()
        }
    );
    time.advance(SECOND).await;
    let BuildStatus::Succeeded { artifact, .. } = builder.ensure(&request).await.expect("done")
    else {
        panic!("not built")
    };
    assert_eq!(
        crate::memory::builder::code_of(&artifact),
        Some(request.id.code)
    );
    assert_eq!(builder.builds_begun(), 1);

    let receipt = builder
        .prune(&request.id.function, &[])
        .await
        .expect("pruned");
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| removed.kind.as_str())
        .collect();
    assert_eq!(kinds, ["build", "artifact"]);
    let again = builder
        .prune(&request.id.function, &[])
        .await
        .expect("pruned");
    assert_eq!(again.removed, []);
}

#[tokio::test]
async fn a_broken_context_fails_for_good_and_a_store_that_is_away_for_now() {
    use crate::decorate::{Fault, FaultRule, Faults};

    let (time, clock) = clocks();
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    let mut request = request(&storage).await;
    let body = bytes_stream("no tar");
    storage
        .put(&request.context.key, body, &PutOptions::default())
        .await
        .expect("stored");
    let faults = Faults::seeded(0, Arc::clone(&clock));
    faults.add(
        FaultRule::on("storage.get")
            .first(1)
            .failing(ErrorKind::Unavailable),
    );
    request.context.storage = Arc::new(Fault::new(storage, &faults));
    let builder = MemoryBuilder::new(clock);
    for (word, passing) in [
        (reason::BACKEND_UNAVAILABLE, true),
        (reason::CONTEXT_UNREADABLE, false),
    ] {
        builder.ensure(&request).await.expect("begun");
        time.settle().await;
        let status = builder.status(&request.id).expect("it was begun");
        let BuildStatus::Failed { failure, transient } = status else {
            panic!("{status:?}")
        };
        assert_eq!((&*failure.reason, transient), (word, passing));
    }
    builder.ensure(&request).await.expect("failed for good");
    assert_eq!(builder.builds_begun(), 2);
}

#[tokio::test]
async fn a_restarted_builder_knows_what_was_done_and_builds_the_rest_anew() {
    let (time, clock) = clocks();
    let storage = Arc::new(MemoryStorage::new(Arc::clone(&clock)));
    let done = request(&storage).await;
    let mut cut = done.clone();
    cut.id.attempt = 1;
    let plan = |request: &BuildRequest| {
        BuildPlan::default().taking(SECOND * if request.id.attempt == 0 { 1 } else { 60 })
    };
    let builder = MemoryBuilder::with_config(clock, MemoryBuilderConfig::default(), plan);
    builder.ensure(&done).await.expect("begun");
    builder.ensure(&cut).await.expect("begun");
    time.advance(2 * SECOND).await;
    let builder = builder.restarted(|_| BuildPlan::default()).await;
    let status = builder.ensure(&done).await.expect("there");
    assert!(matches!(status, BuildStatus::Succeeded { .. }));
    assert_eq!(builder.builds_begun(), 0);
    assert_eq!(
        builder.ensure(&cut).await.expect("begun"),
        BuildStatus::Queued
    );
}
