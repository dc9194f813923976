//! Creating and getting.

use jiff::Timestamp;
use sless_core::{
    ErrorKind, Kind, NAME_MAX, Namespace, ObjectKey, Uid, Version, resource::Metadata,
};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{ensure, ensure_eq, refused},
    unique,
};

pub(super) async fn a_created_object_is_read_back(case: &Case<'_>) -> Outcome {
    for kind in Kind::ALL {
        let mut wanted = samples::object(kind, &case.namespace, "a")?;
        samples::change_spec(&mut wanted, 7);
        let metadata = wanted.metadata_mut();
        metadata
            .labels
            .insert("label".to_owned(), "one-two.3".to_owned());
        metadata
            .annotations
            .insert("note".to_owned(), "línea\n\"2\"".to_owned());
        metadata.finalizers = vec!["sless.io/b".to_owned(), "sless.io/a".to_owned()];
        let created = case.create(wanted.clone()).await?;
        ensure!(
            created.same_spec(&wanted),
            "another spec was created: {created:?}"
        );
        let Metadata {
            labels,
            annotations,
            finalizers,
            ..
        } = created.metadata();
        ensure_eq!(
            *labels,
            wanted.metadata().labels,
            "labels of a created {kind}"
        );
        ensure_eq!(
            *annotations,
            wanted.metadata().annotations,
            "annotations of a created {kind}"
        );
        ensure_eq!(
            *finalizers,
            wanted.metadata().finalizers,
            "finalizers of a created {kind}"
        );
        ensure_eq!(
            case.get(&created.key()).await?,
            created,
            "what is read of a created {kind}"
        );
    }
    Ok(())
}

pub(super) async fn the_catalog_writes_identity_and_status_itself(case: &Case<'_>) -> Outcome {
    for kind in Kind::ALL {
        let plain = samples::object(kind, &case.namespace, "a")?;
        let mut wanted = plain.clone();
        samples::change_status(&mut wanted, 7);
        let metadata = wanted.metadata_mut();
        metadata.uid = Uid::new("mine");
        metadata.version = Version::new("mine");
        metadata.generation = 77;
        metadata.created_at = Timestamp::MIN;
        metadata.deleted_at = Some(Timestamp::MIN);
        let now = case.harness.clock().now();
        let created = case.create(wanted.clone()).await?;
        let metadata = created.metadata();
        ensure!(
            !metadata.uid.is_empty() && metadata.uid.as_str() != "mine",
            "no uid was given"
        );
        ensure!(
            metadata.version != Version::new("mine"),
            "no version was given"
        );
        ensure!(
            metadata.version != Version::default(),
            "the version is empty"
        );
        ensure_eq!(metadata.generation, 1, "the generation of a created {kind}");
        let age = metadata.created_at.duration_since(now).abs().as_secs();
        ensure!(
            age < 600,
            "it says that it was created {}, and it is {now}",
            metadata.created_at
        );
        ensure!(
            !metadata.is_deleting(),
            "it is being deleted as soon as it is created"
        );
        ensure!(
            created.same_status(&plain),
            "the status of the input was kept: {created:?}"
        );
    }
    Ok(())
}

pub(super) async fn an_invalid_object_is_not_created(case: &Case<'_>) -> Outcome {
    for kind in Kind::ALL {
        let mut object = samples::object(kind, &case.namespace, "a")?;
        samples::break_spec(&mut object);
        let key = object.key();
        let catalog = case.catalog().await?;
        refused(
            catalog.create(object).await,
            ErrorKind::Invalid,
            format_args!("creating {key}"),
        )?;
        refused(
            catalog.get(&key).await,
            ErrorKind::NotFound,
            "getting what was refused",
        )?;
        ensure_eq!(
            case.all(kind, Some(&case.namespace)).await?,
            [],
            "the objects after a refusal"
        );
    }
    Ok(())
}

pub(super) async fn nothing_is_created_in_a_namespace_that_is_not_there(
    case: &Case<'_>,
) -> Outcome {
    let missing = unique::namespace()?;
    let catalog = case.catalog().await?;
    for kind in Kind::ALL {
        let object = samples::object(kind, &missing, "a")?;
        let key = object.key();
        refused(
            catalog.create(object).await,
            ErrorKind::NotFound,
            format_args!("creating {key}"),
        )?;
        refused(
            catalog.get(&key).await,
            ErrorKind::NotFound,
            "getting what was refused",
        )?;
    }
    Ok(())
}

pub(super) async fn what_exists_is_not_created_again(case: &Case<'_>) -> Outcome {
    let first = case.create_function("a").await?;
    let mut again = case.function("a")?;
    samples::change_spec(&mut again, 7);
    for object in [again, case.function("a")?, first.clone()] {
        let created = case.catalog().await?.create(object).await;
        refused(
            created,
            ErrorKind::AlreadyExists,
            "creating a function again",
        )?;
        ensure_eq!(
            case.get(&first.key()).await?,
            first,
            "the function after that"
        );
    }
    Ok(())
}

pub(super) async fn one_of_parallel_creates_wins(case: &Case<'_>) -> Outcome {
    const CREATORS: u32 = 16;
    let mut tasks = Vec::new();
    for number in 0..CREATORS {
        let catalog = case.catalog().await?;
        let mut object = case.function("a")?;
        samples::change_spec(&mut object, number);
        tasks.push(tokio::spawn(async move { catalog.create(object).await }));
    }
    let mut winners = Vec::new();
    for task in tasks {
        match task
            .await
            .map_err(|error| Violation::new(error.to_string()))?
        {
            Ok(object) => winners.push(object),
            refusal => {
                refused(refusal, ErrorKind::AlreadyExists, "a create that lost")?;
            }
        }
    }
    ensure!(
        winners.len() == 1,
        "{} of {CREATORS} were told that they created it",
        winners.len()
    );
    ensure_eq!(
        case.get(&winners[0].key()).await?,
        winners[0],
        "what the winner created"
    );
    Ok(())
}

pub(super) async fn the_shortest_and_the_longest_names_work(case: &Case<'_>) -> Outcome {
    let tag = unique::tag();
    let long_namespace = Namespace::new(format!("c{}{tag}", "n".repeat(NAME_MAX - 1 - tag.len())))?;
    case.ensure(&long_namespace).await?;
    let longest = "z".repeat(NAME_MAX);
    for kind in Kind::ALL {
        for name in ["a", "0", "a-b", "a--b", &longest] {
            let created = case
                .create(samples::object(kind, &long_namespace, name)?)
                .await?;
            let mut changed = created.clone();
            samples::change_spec(&mut changed, 3);
            let updated = case.update(changed).await?;
            ensure_eq!(
                case.get(&created.key()).await?,
                updated,
                "the {kind} {name}"
            );
        }
        let listed = case.pages(kind, Some(&long_namespace), 2).await?;
        ensure_eq!(listed.len(), 5, "how many of kind {kind} are listed");
        for object in listed {
            case.delete(&object.key()).await?;
        }
        ensure_eq!(
            case.all(kind, Some(&long_namespace)).await?,
            [],
            "what is left"
        );
    }
    Ok(())
}

pub(super) async fn kinds_and_namespaces_are_apart(case: &Case<'_>) -> Outcome {
    let other = case.another_namespace().await?;
    let mut created = Vec::new();
    for (number, namespace) in [&case.namespace, &other].into_iter().enumerate() {
        for kind in Kind::ALL {
            let mut object = samples::object(kind, namespace, "same")?;
            samples::change_spec(&mut object, number as u32);
            created.push(case.create(object).await?);
        }
    }
    for object in &created {
        ensure_eq!(
            case.get(&object.key()).await?,
            *object,
            "one of several of the same name"
        );
    }
    case.delete(&created[0].key()).await?;
    for object in &created[1..] {
        ensure_eq!(
            case.get(&object.key()).await?,
            *object,
            "one whose namesake was deleted"
        );
    }
    Ok(())
}

pub(super) async fn an_object_that_is_not_there_is_not_found(case: &Case<'_>) -> Outcome {
    let created = case.create_function("a").await?;
    let catalog = case.catalog().await?;
    for (kind, namespace, name) in [
        (Kind::Function, case.namespace.clone(), "b"),
        (Kind::Trigger, case.namespace.clone(), "a"),
        (Kind::FunctionJob, case.namespace.clone(), "a"),
        (Kind::Function, unique::namespace()?, "a"),
    ] {
        let key = ObjectKey::new(kind, namespace, unique::name(name)?);
        refused(
            catalog.get(&key).await,
            ErrorKind::NotFound,
            format_args!("getting {key}"),
        )?;
    }
    ensure_eq!(
        case.get(&created.key()).await?,
        created,
        "the one that is there"
    );
    Ok(())
}
