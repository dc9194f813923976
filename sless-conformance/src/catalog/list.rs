//! Listing.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use sless_core::{Kind, ListQuery, Namespace, Object};

use super::{Case, samples};
use crate::{
    Outcome, Violation,
    clause::{While as _, ensure, ensure_eq},
    unique,
};

fn keys(objects: &[Object]) -> Vec<(String, String)> {
    let key = |object: &Object| {
        let metadata = object.metadata();
        (metadata.namespace.to_string(), metadata.name.to_string())
    };
    objects.iter().map(key).collect()
}

/// Creates functions, several at once.
async fn create_all(case: &Case<'_>, names: impl Iterator<Item = String>) -> Outcome {
    futures::stream::iter(names)
        .map(Ok::<_, Violation>)
        .try_for_each_concurrent(16, |name| async move {
            case.create_function(&name).await.map(drop)
        })
        .await
}

pub(super) async fn objects_are_listed_by_name(case: &Case<'_>) -> Outcome {
    // One namespace's name begins with the other's, and `-` comes before letters and digits.
    let longer = Namespace::new(format!("{}-0", case.namespace))?;
    case.ensure(&longer).await?;
    let namespaces = [&case.namespace, &longer];
    for name in ["b", "a", "a-b", "ab", "a0", "0", "z"] {
        for namespace in namespaces {
            for kind in Kind::ALL {
                case.create(samples::object(kind, namespace, name)?).await?;
            }
        }
    }
    // Other clauses may run beside this one, in namespaces of their own.
    let own = |objects: Vec<Object>| {
        let here = |object: &Object| namespaces.contains(&&object.metadata().namespace);
        objects.into_iter().filter(here).collect::<Vec<_>>()
    };
    for kind in Kind::ALL {
        let all = own(case.all(kind, None).await?);
        ensure_eq!(
            all.len(),
            14,
            "how many of kind {kind} are listed among all"
        );
        for namespace in namespaces {
            let one = case.all(kind, Some(namespace)).await?;
            ensure_eq!(one.len(), 7, "how many of kind {kind} {namespace} has");
            ensure!(
                one.iter().all(|object| object.kind() == kind),
                "another kind is listed"
            );
            ensure!(
                keys(&one).is_sorted(),
                "not ordered by name: {:?}",
                keys(&one)
            );
            for object in &one {
                ensure_eq!(
                    case.get(&object.key()).await?,
                    *object,
                    "what is listed of an object"
                );
            }
            let among: Vec<_> = all
                .iter()
                .filter(|object| object.metadata().namespace == *namespace)
                .collect();
            ensure_eq!(
                among,
                one.iter().collect::<Vec<_>>(),
                "{namespace} among all"
            );
        }
        let paged = own(case.pages(kind, None, 5).await?);
        ensure_eq!(keys(&paged), keys(&all), "the order of all in pages of 5");
    }
    Ok(())
}

pub(super) async fn pages_give_every_object_once(case: &Case<'_>) -> Outcome {
    create_all(case, (0..30).map(|index| format!("f-{index}"))).await?;
    let all = keys(&case.all(Kind::Function, Some(&case.namespace)).await?);
    ensure_eq!(all.len(), 30, "how many are on one page");
    for limit in [1, 7, 10, 15, 29, 30, 31] {
        let paged = keys(
            &case
                .pages(Kind::Function, Some(&case.namespace), limit)
                .await?,
        );
        ensure_eq!(paged, all, "what pages of {limit} give");
    }
    let query = ListQuery::all(Kind::Function)
        .in_namespace(case.namespace.clone())
        .with_limit(10);
    let catalog = case.catalog().await?;
    let first = catalog.list(&query).await?;
    let second = query.clone().from_cursor(first.next.clone());
    let (once, again) = (catalog.list(&second).await?, catalog.list(&second).await?);
    ensure_eq!(
        keys(&again.items),
        keys(&once.items),
        "a page that is read again"
    );
    Ok(())
}

pub(super) async fn a_listing_of_no_objects_is_one_empty_page(case: &Case<'_>) -> Outcome {
    case.create_function("a").await?;
    let catalog = case.catalog().await?;
    for (kind, namespace) in [
        (Kind::Trigger, case.namespace.clone()),
        (Kind::Function, unique::namespace()?),
    ] {
        let page = catalog
            .list(&ListQuery::all(kind).in_namespace(namespace))
            .await?;
        ensure_eq!(page.items, [], "the items of an empty listing");
        ensure_eq!(page.next, None, "what follows an empty listing");
    }
    Ok(())
}

pub(super) async fn more_than_a_thousand_objects_are_listed(case: &Case<'_>) -> Outcome {
    const OBJECTS: usize = ListQuery::LIMIT_MAX + 50;
    create_all(case, (0..OBJECTS).map(|index| format!("f-{index:05}"))).await?;
    let query = ListQuery::all(Kind::Function).in_namespace(case.namespace.clone());
    let page = case.catalog().await?.list(&query).await?;
    ensure!(
        page.items.len() <= ListQuery::LIMIT_MAX,
        "a page of {} items",
        page.items.len()
    );
    ensure!(
        page.next.is_some(),
        "a page of {} items says that it is all",
        page.items.len()
    );
    let found = keys(&case.all(Kind::Function, Some(&case.namespace)).await?);
    let expected = (0..OBJECTS).map(|at| (case.namespace.to_string(), format!("f-{at:05}")));
    ensure!(
        found == expected.collect::<Vec<_>>(),
        "{} of {OBJECTS} are listed",
        found.len()
    );
    Ok(())
}

pub(super) async fn paging_misses_nothing_while_others_write(case: &Case<'_>) -> Outcome {
    const STAYING: usize = 60;
    create_all(
        case,
        (0..STAYING).map(|index| format!("s-{index:02}-stays")),
    )
    .await?;
    let (done, over) = tokio::sync::watch::channel(false);
    let writer = async {
        // Objects come and go all over the order, and some of those that stay are changed.
        let mut round = 0;
        while !*over.borrow() {
            let name = format!("s-{:02}-goes", round % STAYING);
            let came = case.create_function(&name).await?;
            let key = case
                .function(&format!("s-{:02}-stays", (round * 7) % STAYING))?
                .key();
            let mut changed = case.get(&key).await?;
            samples::change_spec(&mut changed, round as u32);
            case.update(changed).await?;
            case.delete(&came.key()).await?;
            round += 1;
            tokio::task::yield_now().await;
        }
        Ok::<_, Violation>(())
    };
    let reader = async {
        let mut outcome = Ok(());
        for limit in [1, 3, 10, 3, 1] {
            outcome = read_around(case, limit, STAYING).await;
            if outcome.is_err() {
                break;
            }
        }
        // The writer may have failed already, and says so itself.
        let _ = done.send(true);
        outcome
    };
    let (written, read) = futures::join!(writer, reader);
    written.while_("writing while another pages").and(read)
}

async fn read_around(case: &Case<'_>, limit: usize, staying: usize) -> Outcome {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for object in case
        .pages(Kind::Function, Some(&case.namespace), limit)
        .await?
    {
        *seen.entry(object.metadata().name.to_string()).or_default() += 1;
    }
    let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
    ensure!(
        twice.is_empty(),
        "pages of {limit} gave some objects twice: {twice:?}"
    );
    let stayed = seen.keys().filter(|name| name.ends_with("-stays")).count();
    ensure_eq!(
        stayed,
        staying,
        "how many of those that were always there pages of {limit} gave"
    );
    Ok(())
}
