//! What outlives the process.

use std::collections::BTreeSet;

use sless_core::{Ensured, ErrorKind, Kind, WatchOptions};

use super::{Case, samples, watch};
use crate::{
    Outcome,
    clause::{While as _, ensure_eq, refused},
};

pub(super) async fn objects_survive_a_reopen(case: &Case<'_>) -> Outcome {
    let mut kept = Vec::new();
    for kind in Kind::ALL {
        let mut object = case
            .create(samples::object(kind, &case.namespace, "kept")?)
            .await?;
        samples::change_spec(&mut object, 2);
        object
            .metadata_mut()
            .finalizers
            .push("sless.io/test".to_owned());
        let mut object = case.update(object).await?;
        samples::change_status(&mut object, 3);
        kept.push(case.update_status(object).await?);
    }
    let marked = case.delete(&kept[0].key()).await?;
    kept[0] = marked;
    let gone = case.create_function("gone").await?;
    case.delete(&gone.key()).await?;
    if !case.harness.reopen().await? {
        return Ok(());
    }
    for object in &kept {
        ensure_eq!(
            case.get(&object.key()).await?,
            *object,
            "an object after a reopen"
        );
    }
    let got = case.catalog().await?.get(&gone.key()).await;
    refused(
        got,
        ErrorKind::NotFound,
        "getting after a reopen what was deleted before",
    )?;
    ensure_eq!(
        case.ensure(&case.namespace.clone()).await?,
        Ensured::Exists,
        "the namespace"
    );
    // The old versions are still the right ones, and new ones are new.
    for mut object in kept {
        let old = object.metadata().version.clone();
        samples::change_spec(&mut object, 4);
        let updated = case.update(object.clone()).await?;
        crate::clause::ensure!(updated.metadata().version != old, "a version came again");
        let stale = case.catalog().await?.update(object).await;
        refused(stale, ErrorKind::Conflict, "a stale update after a reopen")?;
    }
    Ok(())
}

pub(super) async fn a_watch_over_a_reopen_misses_nothing_or_is_expired(case: &Case<'_>) -> Outcome {
    let from = watch::position(case).await?;
    let before = case.create_function("before").await?.key();
    if !case.harness.reopen().await? {
        return Ok(());
    }
    let after = case.create_function("after").await?.key();
    let options = WatchOptions::default().from_position(from);
    match case.catalog().await?.watch(&options).await {
        Ok(mut stream) => {
            let keys = BTreeSet::from([before, after]);
            match watch::hints(case, &mut stream, keys).await {
                Err(violation) if violation.to_string().contains("kind expired") => Ok(()),
                other => other
                    .map(drop)
                    .while_("a watch from a position before the reopen"),
            }
        }
        Err(error) => {
            refused::<()>(
                Err(error),
                ErrorKind::Expired,
                "watching from before the reopen",
            )?;
            Ok(())
        }
    }
}
