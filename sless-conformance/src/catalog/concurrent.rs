//! Several writers and readers at once.

use futures::FutureExt as _;
use sless_core::{Catalog, Error, Object, ObjectKey, Result, resource::FunctionStatus};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq},
};

const WRITERS: u32 = 8;
const ROUNDS: u32 = 12;

fn number(object: &Object, of: &str) -> u32 {
    let Object::Function(function) = object else {
        return 0;
    };
    function
        .spec
        .env
        .get(of)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

fn status_of(object: &Object) -> FunctionStatus {
    match object {
        Object::Function(function) => function.status.clone(),
        _ => FunctionStatus::default(),
    }
}

/// Adds one to the number in the spec, as often as it takes.
async fn add_to_spec(catalog: &dyn Catalog, key: &ObjectKey) -> Result<()> {
    loop {
        let mut object = catalog.get(key).await?;
        let next = number(&object, "NUMBER") + 1;
        // Others read the same before this is written.
        tokio::task::yield_now().await;
        samples::change_spec(&mut object, next);
        match catalog.update(object).await {
            Err(error) if error.is_conflict() => tokio::task::yield_now().await,
            other => return other.map(drop),
        }
    }
}

/// Adds one to the number in the status, as often as it takes.
async fn add_to_status(catalog: &dyn Catalog, key: &ObjectKey) -> Result<()> {
    loop {
        let mut object = catalog.get(key).await?;
        let next = status_of(&object).ready_replicas + 1;
        tokio::task::yield_now().await;
        samples::change_status(&mut object, next);
        match catalog.update_status(object).await {
            Err(error) if error.is_conflict() => tokio::task::yield_now().await,
            other => return other.map(drop),
        }
    }
}

async fn joined(tasks: Vec<tokio::task::JoinHandle<Result<(), Error>>>) -> Outcome {
    for task in tasks {
        task.await
            .map_err(|error| Violation::new(error.to_string()))?
            .while_("writing")?;
    }
    Ok(())
}

pub(super) async fn parallel_updates_lose_nothing(case: &Case<'_>) -> Outcome {
    let key = case.create_function("a").await?.key();
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        let (catalog, key) = (case.catalog().await?, key.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                add_to_spec(&*catalog, &key).await?;
            }
            Ok(())
        }));
    }
    joined(tasks).await?;
    let last = case.get(&key).await?;
    ensure_eq!(
        number(&last, "NUMBER"),
        WRITERS * ROUNDS,
        "the sum of all updates"
    );
    let generation = i64::from(1 + WRITERS * ROUNDS);
    ensure_eq!(
        last.metadata().generation,
        generation,
        "the generation after all updates"
    );
    Ok(())
}

pub(super) async fn spec_and_status_writers_lose_nothing(case: &Case<'_>) -> Outcome {
    let key = case.create_function("a").await?.key();
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let (catalog, key) = (case.catalog().await?, key.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                if writer % 2 == 0 {
                    add_to_spec(&*catalog, &key).await?;
                } else {
                    add_to_status(&*catalog, &key).await?;
                }
            }
            Ok(())
        }));
    }
    joined(tasks).await?;
    let last = case.get(&key).await?;
    let half = WRITERS / 2 * ROUNDS;
    ensure_eq!(
        number(&last, "NUMBER"),
        half,
        "the sum of all updates of the spec"
    );
    ensure_eq!(
        status_of(&last).ready_replicas,
        half,
        "the sum of all updates of the status"
    );
    ensure_eq!(
        last.metadata().generation,
        i64::from(1 + half),
        "the generation after all"
    );
    Ok(())
}

pub(super) async fn objects_are_read_whole(case: &Case<'_>) -> Outcome {
    let key = case.create_function("a").await?.key();
    let (done, over) = tokio::sync::watch::channel(false);
    let writer = tokio::spawn({
        let (catalog, key) = (case.catalog().await?, key.clone());
        async move {
            let mut written = Ok(());
            for _ in 0..WRITERS * ROUNDS {
                written = add_to_spec(&*catalog, &key).await;
                if written.is_err() {
                    break;
                }
            }
            // The reader may have ended already, with what it found.
            let _ = done.send(true);
            written
        }
    });
    while !*over.borrow() {
        let listed = case
            .all(sless_core::Kind::Function, Some(&case.namespace))
            .await?;
        for object in listed.into_iter().chain([case.get(&key).await?]) {
            let (one, other) = (number(&object, "NUMBER"), number(&object, "AGAIN"));
            ensure_eq!(one, other, "two numbers that are always written together");
            let generation = object.metadata().generation;
            ensure_eq!(
                generation,
                i64::from(1 + one),
                "the generation that goes with them"
            );
        }
        tokio::task::yield_now().await;
    }
    joined(vec![writer]).await
}

pub(super) async fn a_dropped_update_is_done_or_not(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    let mut before = case.create_function("a").await?;
    let mut asked: Vec<Object> = Vec::new();
    for polls in 0..20 {
        let mut wanted = before.clone();
        samples::change_spec(&mut wanted, 100 + polls);
        wanted
            .metadata_mut()
            .labels
            .insert("polls".to_owned(), polls.to_string());
        {
            let update = catalog.update(wanted.clone());
            futures::pin_mut!(update);
            for _ in 0..polls {
                if (&mut update).now_or_never().is_some() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        asked.push(wanted);
        // What was under way when it was dropped may end a little later, whole; it may be an update
        // of an earlier round.
        let mut after = case.get(&before.key()).await?;
        for _ in 0..50 {
            if after != before {
                break;
            }
            tokio::task::yield_now().await;
            after = case.get(&before.key()).await?;
        }
        if after != before {
            let Some(done) = asked.iter().find(|asked| after.same_spec(asked)) else {
                return Err(Violation::new(format!(
                    "a dropped update left another spec: {after:?}"
                )));
            };
            let (old, new) = (before.metadata(), after.metadata());
            ensure_eq!(
                new.labels,
                done.metadata().labels,
                "the labels after a dropped update"
            );
            ensure_eq!(
                new.generation,
                old.generation + 1,
                "the generation after it"
            );
            ensure!(new.version != old.version, "the version is the old one");
        }
        before = after;
    }
    // Nothing that was dropped stands in the way. One that ends late makes this one stale.
    loop {
        let mut last = case.get(&before.key()).await?;
        samples::change_spec(&mut last, 500);
        match catalog.update(last).await {
            Err(error) if error.is_conflict() => tokio::task::yield_now().await,
            other => return Ok(other.map(drop)?),
        }
    }
}
