use std::sync::Arc;

use futures::StreamExt as _;

use super::*;
use crate::{Catalog, CatalogExt as _, ErrorKind, Kind, ListQuery, WatchEvent, WatchOptions};

#[tokio::test]
async fn watchers_behind_the_kept_history_are_expired() {
    let (_, clock) = clocks();
    let config = MemoryCatalogConfig {
        history: 2,
        ..MemoryCatalogConfig::default()
    };
    let catalog = MemoryCatalog::with_config(clock, config);
    catalog.ensure_namespace(&namespace()).await.expect("made");
    let from = catalog
        .list(&ListQuery::all(Kind::Function))
        .await
        .expect("a page")
        .position;
    let options = WatchOptions::default().from_position(from);
    let mut early = catalog.watch(&options).await.expect("a watch");
    for text in ["a", "b", "c"] {
        catalog.add(function(text)).await.expect("created");
    }
    let late = catalog
        .watch(&options)
        .await
        .map(drop)
        .expect_err("too old");
    assert_eq!(late.kind(), ErrorKind::Expired);
    let last = early
        .next()
        .await
        .expect("an item")
        .expect_err("it lost hints");
    assert_eq!(last.kind(), ErrorKind::Expired);
    assert!(early.next().await.is_none());
}

#[tokio::test]
async fn a_catalog_with_a_seed_repeats_itself_and_a_watch_ends_with_it() {
    let (_, clock) = clocks();
    let mut uids = Vec::new();
    for _ in 0..2 {
        let config = MemoryCatalogConfig {
            uid_seed: Some(7),
            ..MemoryCatalogConfig::default()
        };
        let catalog = MemoryCatalog::with_config(Arc::clone(&clock), config);
        catalog.ensure_namespace(&namespace()).await.expect("made");
        let watch = catalog
            .watch(&WatchOptions::default())
            .await
            .expect("a watch");
        uids.push(
            catalog
                .add(function("f"))
                .await
                .expect("created")
                .metadata
                .uid,
        );
        drop(catalog);
        let events: Vec<_> = watch.map(|event| event.expect("no error")).collect().await;
        assert!(matches!(
            events[..],
            [WatchEvent::Changed { .. }, WatchEvent::Bookmark(_)]
        ));
    }
    assert_eq!(uids[0], uids[1]);
}

#[tokio::test]
async fn the_position_of_now_outlives_a_forgotten_history() {
    let (_, clock) = clocks();
    let catalog = MemoryCatalog::new(clock);
    catalog.ensure_namespace(&namespace()).await.expect("made");
    catalog.add(function("f")).await.expect("created");
    catalog.forget_history();
    // The position of now is still good: nothing before it is left to tell.
    let from = catalog
        .list(&ListQuery::all(Kind::Function))
        .await
        .expect("a page")
        .position;
    let mut watch = catalog
        .watch(&WatchOptions::default().from_position(from.clone()))
        .await
        .expect("a watch");
    assert_eq!(
        watch.next().await.expect("an item").expect("no error"),
        WatchEvent::Bookmark(from)
    );
}
