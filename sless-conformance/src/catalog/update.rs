//! Updating.

use jiff::Timestamp;
use sless_core::{ErrorKind, Kind, Object, Uid};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{ensure, ensure_eq, refused},
};

/// One object of each kind, with a status.
async fn one_of_each(case: &Case<'_>) -> Result<Vec<Object>, Violation> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let mut created = case
            .create(samples::object(kind, &case.namespace, "a")?)
            .await?;
        samples::change_status(&mut created, 1);
        all.push(case.update_status(created).await?);
    }
    Ok(all)
}

pub(super) async fn an_update_writes_spec_labels_annotations_and_finalizers(
    case: &Case<'_>,
) -> Outcome {
    for mut object in one_of_each(case).await? {
        samples::change_spec(&mut object, 2);
        let metadata = object.metadata_mut();
        metadata.labels.insert("a".to_owned(), "b".to_owned());
        metadata.annotations.insert("c".to_owned(), String::new());
        metadata.finalizers.push("sless.io/test".to_owned());
        let updated = case.update(object.clone()).await?;
        ensure!(
            updated.same_spec(&object),
            "another spec was written: {updated:?}"
        );
        ensure_eq!(
            updated.metadata().labels,
            object.metadata().labels,
            "the labels"
        );
        ensure_eq!(
            updated.metadata().annotations,
            object.metadata().annotations,
            "annotations"
        );
        ensure_eq!(
            updated.metadata().finalizers,
            object.metadata().finalizers,
            "finalizers"
        );
        ensure_eq!(
            case.get(&object.key()).await?,
            updated,
            "what is read after an update"
        );
        // What is left out is taken away.
        let mut less = updated.clone();
        less.metadata_mut().labels.clear();
        less.metadata_mut().finalizers.clear();
        let updated = case.update(less).await?;
        ensure!(
            updated.metadata().labels.is_empty(),
            "labels stayed that were taken away"
        );
        ensure!(
            updated.metadata().finalizers.is_empty(),
            "a finalizer stayed"
        );
    }
    Ok(())
}

pub(super) async fn an_update_leaves_identity_and_status_alone(case: &Case<'_>) -> Outcome {
    for before in one_of_each(case).await? {
        let mut object = before.clone();
        samples::change_spec(&mut object, 2);
        samples::change_status(&mut object, 99);
        let metadata = object.metadata_mut();
        metadata.generation = 77;
        metadata.created_at = Timestamp::MIN;
        metadata.deleted_at = Some(Timestamp::MIN);
        let updated = case.update(object).await?;
        ensure!(
            updated.same_status(&before),
            "an update wrote the status: {updated:?}"
        );
        let (old, new) = (before.metadata(), updated.metadata());
        ensure_eq!(new.uid, old.uid, "the uid after an update");
        ensure_eq!(
            new.created_at,
            old.created_at,
            "the time of creation after an update"
        );
        ensure_eq!(
            new.generation,
            old.generation + 1,
            "the generation after an update"
        );
        ensure!(!new.is_deleting(), "an update began a deletion");
        ensure_eq!(
            case.get(&updated.key()).await?,
            updated,
            "what is read after an update"
        );
    }
    Ok(())
}

pub(super) async fn only_a_change_of_the_spec_raises_the_generation(case: &Case<'_>) -> Outcome {
    for object in one_of_each(case).await? {
        let generation = |object: &Object| object.metadata().generation;
        ensure_eq!(
            generation(&object),
            1,
            "the generation after a status update"
        );
        let mut labelled = object.clone();
        labelled
            .metadata_mut()
            .labels
            .insert("a".to_owned(), "b".to_owned());
        labelled
            .metadata_mut()
            .finalizers
            .push("sless.io/test".to_owned());
        let mut changed = case.update(labelled).await?;
        ensure_eq!(
            generation(&changed),
            1,
            "the generation after a change of labels"
        );
        samples::change_spec(&mut changed, 2);
        let same = case.update(changed).await?;
        ensure_eq!(
            generation(&same),
            2,
            "the generation after a change of the spec"
        );
        let mut again = case.update(same).await?;
        ensure_eq!(
            generation(&again),
            2,
            "the generation after an update without a change"
        );
        samples::change_spec(&mut again, 3);
        again = case.update(again).await?;
        ensure_eq!(
            generation(&again),
            3,
            "the generation after a second change"
        );
        samples::change_status(&mut again, 4);
        let last = case.update_status(again).await?;
        ensure_eq!(generation(&last), 3, "the generation after a status update");
    }
    Ok(())
}

pub(super) async fn every_change_gives_a_new_version(case: &Case<'_>) -> Outcome {
    for mut object in one_of_each(case).await? {
        let mut seen = vec![object.metadata().version.clone()];
        for step in 0..4 {
            object = match step {
                0 => {
                    object
                        .metadata_mut()
                        .labels
                        .insert("a".to_owned(), "b".to_owned());
                    case.update(object).await?
                }
                1 => {
                    samples::change_spec(&mut object, 2);
                    case.update(object).await?
                }
                2 => {
                    samples::change_status(&mut object, 2);
                    case.update_status(object).await?
                }
                _ => {
                    // Back to what it was: the state is old, the version is not.
                    samples::change_status(&mut object, 1);
                    case.update_status(object).await?
                }
            };
            let version = object.metadata().version.clone();
            ensure!(
                !seen.contains(&version),
                "version {version} came again after a change"
            );
            seen.push(version);
        }
    }
    Ok(())
}

pub(super) async fn an_update_that_changes_nothing_keeps_the_version(case: &Case<'_>) -> Outcome {
    for object in one_of_each(case).await? {
        for _ in 0..3 {
            ensure_eq!(
                case.update(object.clone()).await?,
                object,
                "an update without a change"
            );
            let answer = case.update_status(object.clone()).await?;
            ensure_eq!(answer, object, "a status update without a change");
        }
        ensure_eq!(
            case.get(&object.key()).await?,
            object,
            "what is read after those"
        );
    }
    Ok(())
}

pub(super) async fn a_stale_update_conflicts_and_changes_nothing(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    for stale in one_of_each(case).await? {
        let mut changed = stale.clone();
        samples::change_spec(&mut changed, 2);
        let changed = case.update(changed).await?;
        let mut late = stale.clone();
        samples::change_spec(&mut late, 3);
        late.metadata_mut()
            .finalizers
            .push("sless.io/late".to_owned());
        refused(
            catalog.update(late).await,
            ErrorKind::Conflict,
            "a stale update",
        )?;
        // It is stale even where it would change nothing, and after a mere change of status.
        let mut same = changed.clone();
        same.metadata_mut().version = stale.metadata().version.clone();
        refused(
            catalog.update(same).await,
            ErrorKind::Conflict,
            "a stale update of the same",
        )?;
        let mut status = changed.clone();
        samples::change_status(&mut status, 4);
        let last = case.update_status(status).await?;
        let mut late = changed;
        samples::change_spec(&mut late, 5);
        refused(
            catalog.update(late).await,
            ErrorKind::Conflict,
            "an update with a stale status",
        )?;
        ensure_eq!(
            case.get(&last.key()).await?,
            last,
            "the object after stale updates"
        );
    }
    Ok(())
}

pub(super) async fn a_status_update_leaves_all_else_alone(case: &Case<'_>) -> Outcome {
    for before in one_of_each(case).await? {
        let mut object = before.clone();
        samples::change_status(&mut object, 2);
        let status = object.clone();
        samples::change_spec(&mut object, 3);
        let metadata = object.metadata_mut();
        metadata.labels.insert("a".to_owned(), "b".to_owned());
        metadata.annotations.insert("a".to_owned(), "b".to_owned());
        metadata.finalizers.push("sless.io/test".to_owned());
        metadata.generation = 77;
        let updated = case.update_status(object).await?;
        ensure!(
            updated.same_status(&status),
            "another status was written: {updated:?}"
        );
        ensure!(
            updated.same_spec(&before),
            "a status update wrote the spec: {updated:?}"
        );
        let mut expected = before.metadata().clone();
        expected.version = updated.metadata().version.clone();
        ensure_eq!(
            *updated.metadata(),
            expected,
            "the metadata after a status update"
        );
        ensure_eq!(
            case.get(&updated.key()).await?,
            updated,
            "what is read after that"
        );
    }
    Ok(())
}

pub(super) async fn a_stale_status_update_conflicts_and_changes_nothing(
    case: &Case<'_>,
) -> Outcome {
    let catalog = case.catalog().await?;
    for stale in one_of_each(case).await? {
        let mut changed = stale.clone();
        samples::change_spec(&mut changed, 2);
        let changed = case.update(changed).await?;
        let mut late = stale;
        samples::change_status(&mut late, 3);
        let late = catalog.update_status(late).await;
        refused(late, ErrorKind::Conflict, "a stale status update")?;
        ensure_eq!(
            case.get(&changed.key()).await?,
            changed,
            "the object after that"
        );
    }
    Ok(())
}

pub(super) async fn an_invalid_update_changes_nothing(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    for before in one_of_each(case).await? {
        let mut broken = before.clone();
        samples::break_spec(&mut broken);
        refused(
            catalog.update(broken).await,
            ErrorKind::Invalid,
            "an invalid update",
        )?;
        ensure_eq!(
            case.get(&before.key()).await?,
            before,
            "the object after that"
        );
    }
    Ok(())
}

pub(super) async fn what_is_not_there_is_not_updated(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    for object in one_of_each(case).await? {
        case.delete(&object.key()).await?;
        let updated = catalog.update(object.clone()).await;
        refused(updated, ErrorKind::NotFound, "updating what was deleted")?;
        let updated = catalog.update_status(object.clone()).await;
        refused(
            updated,
            ErrorKind::NotFound,
            "updating the status of what was deleted",
        )?;
        let got = catalog.get(&object.key()).await;
        refused(
            got,
            ErrorKind::NotFound,
            "getting what was deleted and updated",
        )?;
    }
    let mut never = case.function("never")?;
    never.metadata_mut().uid = Uid::random();
    refused(
        catalog.update(never).await,
        ErrorKind::NotFound,
        "updating what never was",
    )?;
    Ok(())
}

pub(super) async fn a_recreated_object_is_another_one(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    for old in one_of_each(case).await? {
        case.delete(&old.key()).await?;
        let new = case
            .create(samples::object(old.kind(), &case.namespace, "a")?)
            .await?;
        ensure!(
            new.metadata().uid != old.metadata().uid,
            "the uid came again"
        );
        ensure_eq!(
            new.metadata().generation,
            1,
            "the generation of a new object"
        );
        ensure!(
            !new.same_status(&old),
            "a new object has the old one's status"
        );
        let mut late = old.clone();
        samples::change_spec(&mut late, 2);
        samples::change_status(&mut late, 2);
        let updated = catalog.update(late.clone()).await;
        refused(updated, ErrorKind::NotFound, "updating the old one")?;
        let updated = catalog.update_status(late.clone()).await;
        refused(
            updated,
            ErrorKind::NotFound,
            "updating the status of the old one",
        )?;
        // The right version does not make up for the wrong uid.
        late.metadata_mut().version = new.metadata().version.clone();
        let updated = catalog.update(late).await;
        refused(
            updated,
            ErrorKind::NotFound,
            "updating the old one with the new one's version",
        )?;
        ensure_eq!(
            case.get(&new.key()).await?,
            new,
            "the new object after that"
        );
    }
    Ok(())
}
