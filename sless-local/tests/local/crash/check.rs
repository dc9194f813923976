//! What the next process has to find.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use sless_core::{
    CatalogExt as _, DeadLetterSelection, Dispatcher as _, Function, GetOptions,
    InvocationLog as _, InvocationQuery, Lease as _, Storage as _, collect_bytes,
};
use sless_local::{Local, LocalConfig};

use super::*;

/// Looks at the folder as the next process finds it.
pub(super) async fn check(folder: &Path) {
    let acknowledged = Notes::read(&folder.join("notes"));
    let of = |what: &str| acknowledged.get(what).cloned().unwrap_or_default();
    let local = Local::open(LocalConfig::new(folder.join("data")))
        .await
        .expect("opens");

    let functions: Vec<Function> = local.catalog().read_all(None).await.expect("a list");
    let mut found = BTreeMap::new();
    for function in functions {
        let number: u64 = function.spec.env["N"].parse().expect("a number");
        assert_eq!(
            function.metadata.name,
            name(&format!("f{number}")),
            "an object is whole"
        );
        found.insert(number, function.metadata.labels.contains_key("l"));
    }
    for number in of("catalog") {
        assert!(
            found.contains_key(&number),
            "f{number} was acknowledged and is gone"
        );
    }
    for number in of("labelled") {
        assert!(
            found[&number],
            "the change of f{number} was acknowledged and is gone"
        );
    }
    let grant = local
        .lease()
        .acquire("l", "check", Duration::ZERO)
        .await
        .expect("acquired");
    let last = of("lease").last().copied().unwrap_or(0);
    assert!(grant.expect("free").token > last, "a token came again");

    let listed: Vec<_> = local
        .storage()
        .list("")
        .try_collect()
        .await
        .expect("a list");
    for info in &listed {
        let fetched = local
            .storage()
            .get(&info.key, &GetOptions::default())
            .await
            .expect("there");
        let bytes = collect_bytes(fetched.body, "test", usize::MAX)
            .await
            .expect("whole");
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert!(bytes == body(number), "{} holds a mix", info.key);
        let mine = of("storage")
            .into_iter()
            .filter(|n| key(*n) == info.key)
            .max();
        assert!(
            number >= mine.unwrap_or(0),
            "{} holds {number}, not {mine:?}",
            info.key
        );
    }
    for number in of("storage") {
        assert!(
            listed.iter().any(|info| info.key == key(number)),
            "{number} is gone"
        );
    }
    let leftovers = files(&folder.join("data/storage"));
    assert_eq!(
        leftovers.len(),
        listed.len(),
        "beside the objects: {leftovers:?}"
    );

    let mut query = InvocationQuery::of_function(namespace(), name("f"), 1000);
    let mut records = BTreeSet::new();
    loop {
        let page = local.invocations().query(&query).await.expect("a page");
        records.extend(
            page.items
                .iter()
                .map(|r| r.id.as_str().parse::<u64>().expect("a number")),
        );
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert!(records.is_superset(&of("invocations")), "a record is gone");
    local.shutdown().await;
}

/// Delivers all that waits, and compares with what was published.
pub(super) async fn check_queue(folder: &Path) {
    let path = folder.join("notes");
    let local = Local::open(LocalConfig::new(folder.join("data")))
        .await
        .expect("opens");
    let redriven = local
        .dispatcher()
        .redrive(&trigger(), &DeadLetterSelection::All)
        .await
        .expect("redriven");
    assert!(redriven > 0, "some were dead");
    let sink = Arc::new(Last(Notes::open(&path)));
    local
        .dispatcher()
        .apply(&subscription(), sink)
        .await
        .expect("applied");
    // What is held and not called yet neither waits nor is in flight, so the notes decide.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let notes = Notes::read(&path);
        let lost: Vec<_> = notes["queue"].difference(&notes["delivered"]).collect();
        if lost.is_empty() {
            break;
        }
        let status = local.dispatcher().status(&trigger()).await;
        assert!(
            Instant::now() < deadline,
            "published and never delivered: {lost:?}, {status:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    local.shutdown().await;
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path)
            } else {
                found.push(path)
            }
        }
    }
    found
}
