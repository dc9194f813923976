//! Watching.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use sless_core::{
    ErrorKind, Kind, ListQuery, ObjectKey, Version, WatchEvent, WatchOptions, WatchStream,
};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq, refused},
    harness::eventually,
};

/// The position of a listing.
pub(super) async fn position(case: &Case<'_>) -> Result<Version, Violation> {
    let query = ListQuery::all(Kind::Function)
        .in_namespace(case.namespace.clone())
        .with_limit(1);
    Ok(case
        .catalog()
        .await?
        .list(&query)
        .await
        .while_("listing")?
        .position)
}

pub(super) async fn watch(
    case: &Case<'_>,
    from: Option<Version>,
) -> Result<WatchStream, Violation> {
    let mut options = WatchOptions::default();
    options.from = from;
    case.catalog()
        .await?
        .watch(&options)
        .await
        .while_("watching")
}

/// Reads the stream until all of these were hinted at. Answers the positions that came with each
/// hint of this case, in order.
pub(super) async fn hints(
    case: &Case<'_>,
    stream: &mut WatchStream,
    mut keys: BTreeSet<ObjectKey>,
) -> Result<Vec<(ObjectKey, Version)>, Violation> {
    let mut seen = Vec::new();
    while !keys.is_empty() {
        let event = eventually!(case.harness, format!("a hint at {keys:?}"), {
            let next = futures::poll!(stream.next());
            match next {
                std::task::Poll::Ready(event) => Ok(event),
                std::task::Poll::Pending => Err("no further hint"),
            }
        });
        match event {
            Some(Ok(WatchEvent::Changed { key, position })) => {
                keys.remove(&key);
                if key.namespace == case.namespace {
                    seen.push((key, position));
                }
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Err(error)) => return Err(Violation::from(error).while_("watching")),
            None => return Err(Violation::new(format!("the watch ended before {keys:?}"))),
        }
    }
    Ok(seen)
}

/// One change after the other: of each kind, and of each way to change. Answers the keys.
async fn changes(case: &Case<'_>) -> Result<BTreeSet<ObjectKey>, Violation> {
    let mut keys = BTreeSet::new();
    for kind in Kind::ALL {
        let created = case
            .create(samples::object(kind, &case.namespace, "created")?)
            .await?;
        keys.insert(created.key());
    }
    Ok(keys)
}

pub(super) async fn a_watch_from_a_listing_misses_nothing(case: &Case<'_>) -> Outcome {
    let mut held = case.function("changed")?;
    held.metadata_mut()
        .finalizers
        .push("sless.io/test".to_owned());
    let mut object = case.create(held).await?;
    let key = object.key();
    // Each kind of change alone, from a listing just before it.
    for step in ["spec", "labels", "status", "mark", "go"] {
        let from = position(case).await?;
        match step {
            "spec" => {
                samples::change_spec(&mut object, 2);
                object = case.update(object).await?;
            }
            "labels" => {
                object
                    .metadata_mut()
                    .labels
                    .insert("a".to_owned(), "b".to_owned());
                object = case.update(object).await?;
            }
            "status" => {
                samples::change_status(&mut object, 2);
                object = case.update_status(object).await?;
            }
            "mark" => object = case.delete(&key).await?,
            _ => {
                object.metadata_mut().finalizers.clear();
                object = case.update(object).await?;
            }
        }
        let mut stream = watch(case, Some(from)).await?;
        hints(case, &mut stream, BTreeSet::from([key.clone()]))
            .await
            .while_(step)?;
    }
    let from = position(case).await?;
    let mut stream = watch(case, Some(from.clone())).await?;
    let mut keys = changes(case).await?;
    for at in 0..100 {
        keys.insert(
            case.create_function(&format!("one-of-many-{at}"))
                .await?
                .key(),
        );
    }
    case.delete(&case.function("one-of-many-7")?.key()).await?;
    hints(case, &mut stream, keys.clone())
        .await
        .while_("watching before the changes")?;
    let mut late = watch(case, Some(from)).await?;
    hints(case, &mut late, keys)
        .await
        .while_("watching after the changes")?;
    Ok(())
}

pub(super) async fn a_watch_goes_on_where_another_stopped(case: &Case<'_>) -> Outcome {
    let from = position(case).await?;
    let mut created = Vec::new();
    for at in 0..10 {
        created.push(case.create_function(&format!("f-{at}")).await?.key());
    }
    let mut stream = watch(case, Some(from)).await?;
    let seen = hints(case, &mut stream, created.iter().cloned().collect()).await?;
    drop(stream);
    ensure!(!seen.is_empty(), "no hint came with a position");
    for (at, (_, position)) in seen.iter().enumerate() {
        let told: BTreeSet<_> = seen[..=at].iter().map(|(key, _)| key.clone()).collect();
        let rest = created
            .iter()
            .filter(|key| !told.contains(key))
            .cloned()
            .collect();
        let mut stream = watch(case, Some(position.clone())).await?;
        hints(case, &mut stream, rest)
            .await
            .while_(format_args!("from position {at}"))?;
    }
    Ok(())
}

pub(super) async fn a_watch_without_a_position_begins_now(case: &Case<'_>) -> Outcome {
    case.create_function("before").await?;
    let mut stream = watch(case, None).await?;
    let keys = changes(case).await?;
    let seen = hints(case, &mut stream, keys).await?;
    // A hint too many is no fault, but this one would mean that the whole history is told.
    let before = case.function("before")?.key();
    ensure!(
        seen.iter().all(|(key, _)| *key != before),
        "a change from before the watch was told"
    );
    Ok(())
}

pub(super) async fn every_watcher_is_told(case: &Case<'_>) -> Outcome {
    let from = position(case).await?;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(watch(case, Some(from.clone())).await?);
        streams.push(watch(case, None).await?);
    }
    // One that is not read holds nobody up.
    let _unread = watch(case, None).await?;
    let keys = changes(case).await?;
    for (at, stream) in streams.iter_mut().enumerate() {
        hints(case, stream, keys.clone())
            .await
            .while_(format_args!("watcher {at}"))?;
    }
    Ok(())
}

pub(super) async fn a_forgotten_position_is_expired(case: &Case<'_>) -> Outcome {
    let from = position(case).await?;
    case.create_function("forgotten").await?;
    if !case.harness.forget_history().await? {
        return Ok(());
    }
    let options = WatchOptions::default().from_position(from);
    match case.catalog().await?.watch(&options).await {
        Err(error) => {
            refused::<()>(
                Err(error),
                ErrorKind::Expired,
                "watching from a forgotten position",
            )?;
        }
        Ok(mut stream) => {
            let last = eventually!(case.harness, "a watch from a forgotten position ends", {
                match futures::poll!(stream.next()) {
                    std::task::Poll::Ready(Some(Err(error))) => Ok(error),
                    std::task::Poll::Ready(None) => {
                        return Err(Violation::new(
                            "a watch that lost hints ended without an error",
                        ));
                    }
                    other => Err(format!("{other:?}")),
                }
            });
            refused::<()>(Err(last), ErrorKind::Expired, "the last item of the watch")?;
        }
    }
    // From a new listing all is well.
    let from = position(case).await?;
    ensure_eq!(
        case.all(Kind::Function, Some(&case.namespace)).await?.len(),
        1,
        "what is listed"
    );
    let mut stream = watch(case, Some(from)).await?;
    let keys = changes(case).await?;
    hints(case, &mut stream, keys).await?;
    Ok(())
}
