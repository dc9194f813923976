//! What the catalog promises beyond the suite: limits, bounded history, silence at rest.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::StreamExt as _;
use sless_core::{
    Catalog as _, CatalogExt as _, ErrorKind, Function, FunctionSpec, Lease as _, ListQuery,
    Metadata, Name, Namespace, Runtime, SystemClock, WatchEvent, WatchOptions,
};
use sless_local::{CatalogConfig, DataDir, Local, LocalCatalog, LocalConfig};

fn namespace() -> Namespace {
    Namespace::new("ns").expect("a namespace")
}

fn function(name: &str) -> Function {
    let metadata = Metadata::new(namespace(), Name::new(name).expect("a name"));
    Function::new(metadata, FunctionSpec::new(Runtime::Python311))
}

async fn open(folder: &Path, config: &CatalogConfig) -> LocalCatalog {
    let dir = DataDir::open(folder).expect("a data folder");
    let catalog = LocalCatalog::open(&dir, config, Arc::new(SystemClock)).expect("opens");
    catalog
        .ensure_namespace(&namespace())
        .await
        .expect("a namespace");
    catalog
}

/// Every file of the databases, with its size and time.
fn files(folder: &Path) -> Vec<(String, u64, SystemTime)> {
    let mut files: Vec<_> = std::fs::read_dir(folder.join("db"))
        .expect("a folder")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let meta = entry.metadata().expect("a file");
            let modified = meta.modified().expect("a time");
            (
                entry.file_name().to_string_lossy().into_owned(),
                meta.len(),
                modified,
            )
        })
        // Readers mark their places in the file that is shared memory.
        .filter(|(name, ..)| !name.ends_with("-shm"))
        .collect();
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_and_what_changes_nothing_leaves_the_disk_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = Local::open(LocalConfig::new(folder.path()))
        .await
        .expect("opens");
    let catalog = local.catalog();
    catalog
        .ensure_namespace(&namespace())
        .await
        .expect("a namespace");
    let created = catalog.add(function("f")).await.expect("created");
    let ttl = Duration::from_secs(60);
    local
        .lease()
        .acquire("l", "me", ttl)
        .await
        .expect("acquired");
    let before = files(folder.path());
    for _ in 0..20 {
        catalog.ensure_namespace(&namespace()).await.expect("there");
        let same = catalog
            .update(created.clone().into())
            .await
            .expect("nothing to do");
        assert_eq!(same.metadata().version, created.metadata.version);
        catalog
            .update_status(created.clone().into())
            .await
            .expect("nothing to do");
        catalog.read_all::<Function>(None).await.expect("a list");
        local
            .lease()
            .acquire("l", "me", ttl)
            .await
            .expect("renewed")
            .expect("held");
        let missing = Name::new("missing").expect("a name");
        assert!(
            catalog
                .find::<Function>(&namespace(), &missing)
                .await
                .expect("read")
                .is_none()
        );
    }
    assert_eq!(files(folder.path()), before);
    local.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_is_bounded_and_a_watch_that_is_too_slow_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = CatalogConfig {
        watch_history: 10,
        ..CatalogConfig::default()
    };
    let catalog = open(folder.path(), &config).await;
    let mut slow = catalog
        .watch(&WatchOptions::default())
        .await
        .expect("a watch");
    let first = slow.next().await.expect("an item").expect("no error");
    assert!(matches!(first, WatchEvent::Bookmark(_)), "{first:?}");
    let position = catalog
        .list(&ListQuery::all(sless_core::Kind::Function))
        .await
        .expect("a list")
        .position;
    let mut kept = catalog.add(function("f")).await.expect("created");
    for number in 0..200 {
        kept.spec.timeout_seconds = 1 + number;
        let updated = catalog.update(kept.into()).await.expect("updated");
        kept = updated.try_into().expect("a function");
    }
    let mut seen = 0;
    let error = loop {
        match slow.next().await.expect("an error comes first") {
            Ok(_) => seen += 1,
            Err(error) => break error,
        }
    };
    assert!(seen < 200, "it held no more than a chunk");
    assert_eq!(error.kind(), ErrorKind::Expired);
    assert!(slow.next().await.is_none(), "an error is the last item");
    let late = catalog
        .watch(&WatchOptions::default().from_position(position))
        .await
        .map(drop);
    assert_eq!(late.expect_err("too old").kind(), ErrorKind::Expired);
    drop(catalog);
    let file = rusqlite::Connection::open(folder.path().join("db/catalog.db")).expect("a file");
    let rows: u32 = file
        .query_row("SELECT count(*) FROM changes", [], |row| row.get(0))
        .expect("a count");
    assert!(rows <= 10 + 64, "{rows} changes are kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_the_catalog() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = Local::open(LocalConfig::new(folder.path()))
        .await
        .expect("opens");
    let mut watch = local
        .catalog()
        .watch(&WatchOptions::default())
        .await
        .expect("a watch");
    assert!(matches!(
        watch.next().await,
        Some(Ok(WatchEvent::Bookmark(_)))
    ));
    let ended = tokio::spawn(async move { watch.next().await });
    local.shutdown().await;
    assert!(ended.await.expect("no panic").is_none());
    let refused = local
        .catalog()
        .watch(&WatchOptions::default())
        .await
        .map(drop);
    assert_eq!(refused.expect_err("shut down").reason(), "closed");
    let refused = local.catalog().add(function("f")).await;
    assert_eq!(refused.expect_err("shut down").reason(), "closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_above_the_limit_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = CatalogConfig {
        object_bytes: 2_000,
        ..CatalogConfig::default()
    };
    let catalog = open(folder.path(), &config).await;
    let small = catalog.add(function("f")).await.expect("created");
    let mut large = small.clone();
    large
        .metadata
        .annotations
        .insert("note".to_owned(), "x".repeat(2_000));
    let error = catalog.update(large.into()).await.expect_err("too large");
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::LimitExceeded, "limit_object_bytes")
    );
    let name = Name::new("f").expect("a name");
    assert_eq!(
        catalog
            .read::<Function>(&namespace(), &name)
            .await
            .expect("there"),
        small
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_row_is_told_and_the_others_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = open(folder.path(), &CatalogConfig::default()).await;
    for name in ["a", "b"] {
        catalog.add(function(name)).await.expect("created");
    }
    let file = rusqlite::Connection::open(folder.path().join("db/catalog.db")).expect("a file");
    file.execute(
        "UPDATE objects SET body = substr(body, 1, 40) WHERE name = 'a'",
        [],
    )
    .expect("damaged");
    let read = async |name: &str| {
        let name = Name::new(name).expect("a name");
        catalog.read::<Function>(&namespace(), &name).await
    };
    let error = read("a").await.expect_err("damaged");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("Function ns/a"), "{error}");
    read("b").await.expect("whole");
}
