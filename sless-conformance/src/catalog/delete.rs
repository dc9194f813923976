//! Deleting.

use sless_core::{DeleteOptions, ErrorKind, Kind, Object, Uid};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{ensure, ensure_eq, refused},
};

const FINALIZERS: [&str; 2] = ["sless.io/one", "sless.io/two"];

/// An object that cannot go before somebody has cleaned up.
async fn held(case: &Case<'_>, kind: Kind, finalizers: usize) -> Result<Object, Violation> {
    let mut object = samples::object(kind, &case.namespace, "a")?;
    object.metadata_mut().finalizers = FINALIZERS[..finalizers].iter().map(|&f| f.into()).collect();
    case.create(object).await
}

pub(super) async fn without_a_finalizer_a_deleted_object_is_gone(case: &Case<'_>) -> Outcome {
    for kind in Kind::ALL {
        let object = held(case, kind, 0).await?;
        let last = case.delete(&object.key()).await?;
        ensure_eq!(
            last.metadata().uid,
            object.metadata().uid,
            "the uid in the answer"
        );
        ensure!(
            last.same_spec(&object),
            "the answer has another spec: {last:?}"
        );
        let got = case.catalog().await?.get(&object.key()).await;
        refused(got, ErrorKind::NotFound, "getting a deleted object")?;
        ensure_eq!(
            case.all(kind, Some(&case.namespace)).await?,
            [],
            "what is listed after that"
        );
    }
    Ok(())
}

pub(super) async fn with_a_finalizer_a_deleted_object_is_marked(case: &Case<'_>) -> Outcome {
    for kind in Kind::ALL {
        let object = held(case, kind, 1).await?;
        let marked = case.delete(&object.key()).await?;
        ensure!(
            marked.metadata().is_deleting(),
            "it is not marked: {marked:?}"
        );
        ensure!(
            marked.metadata().version != object.metadata().version,
            "the mark gave it no new version"
        );
        ensure_eq!(
            case.get(&object.key()).await?,
            marked,
            "what is read of a marked object"
        );
        let listed = case.all(kind, Some(&case.namespace)).await?;
        ensure_eq!(listed, std::slice::from_ref(&marked), "what is listed");
        // Whoever cleans up can say how far it is.
        let mut status = marked.clone();
        samples::change_status(&mut status, 2);
        let said = case.update_status(status).await?;
        ensure_eq!(
            said.metadata().deleted_at,
            marked.metadata().deleted_at,
            "the mark"
        );
        let again = case
            .catalog()
            .await?
            .create(samples::object(kind, &case.namespace, "a")?)
            .await;
        refused(
            again,
            ErrorKind::AlreadyExists,
            "creating while the old one is there",
        )?;
    }
    Ok(())
}

pub(super) async fn deleting_twice_is_fine_while_it_is_there(case: &Case<'_>) -> Outcome {
    let object = held(case, Kind::Function, 1).await?;
    let marked = case.delete(&object.key()).await?;
    for _ in 0..3 {
        let again = case.delete(&object.key()).await?;
        ensure_eq!(again, marked, "the answer to another delete");
    }
    Ok(())
}

pub(super) async fn the_last_finalizer_lets_an_object_go(case: &Case<'_>) -> Outcome {
    for kind in Kind::ALL {
        let object = held(case, kind, 2).await?;
        let mut marked = case.delete(&object.key()).await?;
        ensure_eq!(
            marked.metadata().finalizers,
            FINALIZERS,
            "the finalizers of a marked object"
        );
        marked.metadata_mut().finalizers.remove(0);
        let mut less = case.update(marked).await?;
        ensure_eq!(
            case.get(&object.key()).await?,
            less,
            "the object with one finalizer left"
        );
        less.metadata_mut().finalizers.clear();
        let last = case.update(less).await?;
        ensure_eq!(
            last.metadata().uid,
            object.metadata().uid,
            "the uid in the answer"
        );
        ensure!(
            last.metadata().is_deleting(),
            "the answer is not what was there last: {last:?}"
        );
        let got = case.catalog().await?.get(&object.key()).await;
        refused(got, ErrorKind::NotFound, "getting what was let go")?;
        ensure_eq!(
            case.all(kind, Some(&case.namespace)).await?,
            [],
            "what is listed after that"
        );
    }
    Ok(())
}

pub(super) async fn deleting_what_is_not_there_is_not_found(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    let object = case.create_function("a").await?;
    case.delete(&object.key()).await?;
    for key in [object.key(), case.function("never")?.key()] {
        let deleted = catalog.delete(&key, &DeleteOptions::default()).await;
        refused(deleted, ErrorKind::NotFound, format_args!("deleting {key}"))?;
    }
    Ok(())
}

pub(super) async fn only_the_object_with_the_uid_is_deleted(case: &Case<'_>) -> Outcome {
    let catalog = case.catalog().await?;
    let old = case.create_function("a").await?;
    case.delete(&old.key()).await?;
    let new = case.create_function("a").await?;
    for uid in [old.metadata().uid.clone(), Uid::random()] {
        let options = DeleteOptions::default().with_uid(uid);
        let deleted = catalog.delete(&new.key(), &options).await;
        refused(
            deleted,
            ErrorKind::Conflict,
            "deleting the object of another uid",
        )?;
        ensure_eq!(case.get(&new.key()).await?, new, "the object after that");
    }
    let options = DeleteOptions::default().with_uid(new.metadata().uid.clone());
    catalog.delete(&new.key(), &options).await?;
    refused(
        catalog.get(&new.key()).await,
        ErrorKind::NotFound,
        "getting a deleted object",
    )?;
    Ok(())
}
