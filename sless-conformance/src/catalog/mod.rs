//! The suite of [`Catalog`]; its contract is `docs/contracts/catalog.md`.

mod concurrent;
mod create;
mod delete;
mod list;
mod namespace;
mod restart;
mod samples;
mod update;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sless_core::{
    Catalog, DeleteOptions, ErrorKind, Kind, ListQuery, Namespace, Object, ObjectKey, Result,
};

use crate::{
    Harness, Outcome, Violation,
    clause::{While as _, ensure},
    suite::suite,
    unique,
};

/// What the suite has to know of a catalog.
///
/// [`Volatile`](crate::Volatile) is one for a catalog that keeps nothing over a restart.
#[async_trait]
pub trait CatalogHarness: Harness {
    /// The catalog. The same one at each call, until `reopen`.
    ///
    /// # Errors
    /// Whatever keeps it from being there; the clause then fails with it.
    async fn catalog(&self) -> Result<Arc<dyn Catalog>>;

    /// Ends the catalog as a crash would, and opens another one over the same data, which `catalog`
    /// gives from then on. The clause holds no handle of the old one when it calls this. Answers
    /// `false` where the data ends with the process.
    ///
    /// # Errors
    /// Whatever keeps it from being opened.
    async fn reopen(&self) -> Result<bool>;

    /// Makes the catalog forget its history up to now, so that positions given before are too old
    /// to watch from. Answers `false` where that cannot be brought about.
    ///
    /// # Errors
    /// Whatever goes wrong.
    async fn forget_history(&self) -> Result<bool>;
}

/// One run of one clause: namespaces of its own, emptied at its end.
pub(crate) struct Case<'a> {
    harness: &'a dyn CatalogHarness,
    namespace: Namespace,
    /// All namespaces that this case made.
    namespaces: Mutex<Vec<Namespace>>,
}

impl<'a> Case<'a> {
    async fn open(harness: &'a dyn CatalogHarness) -> Result<Self, Violation> {
        let namespace = unique::namespace()?;
        let case = Self {
            harness,
            namespace: namespace.clone(),
            namespaces: Mutex::default(),
        };
        case.ensure(&namespace).await?;
        Ok(case)
    }

    async fn close(&self) -> Outcome {
        let namespaces = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for namespace in namespaces {
            for kind in Kind::ALL {
                for object in self
                    .all(kind, Some(&namespace))
                    .await
                    .while_("cleaning up")?
                {
                    self.erase(&object.key()).await.while_("cleaning up")?;
                }
            }
        }
        Ok(self.harness.clean_up().await?)
    }

    /// Takes an object away, whatever holds it.
    async fn erase(&self, key: &ObjectKey) -> Outcome {
        let catalog = self.catalog().await?;
        loop {
            let mut object = match catalog.delete(key, &DeleteOptions::default()).await {
                Ok(object) => object,
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            object.metadata_mut().finalizers.clear();
            match catalog.update(object).await {
                Err(error) if !error.is_conflict() && !error.is_not_found() => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
    }

    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        self.harness.catalog().await
    }

    /// Ensures a namespace, and remembers to empty it.
    async fn ensure(&self, namespace: &Namespace) -> Result<sless_core::Ensured> {
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(namespace.clone());
        self.catalog().await?.ensure_namespace(namespace).await
    }

    /// Another namespace.
    async fn another_namespace(&self) -> Result<Namespace> {
        let namespace = unique::namespace()?;
        self.ensure(&namespace).await?;
        Ok(namespace)
    }

    /// A function that is to be created.
    fn function(&self, name: &str) -> Result<Object> {
        samples::function(&self.namespace, name)
    }

    async fn create(&self, object: Object) -> Result<Object, Violation> {
        let key = object.key();
        self.catalog()
            .await?
            .create(object)
            .await
            .while_(format_args!("creating {key}"))
    }

    async fn create_function(&self, name: &str) -> Result<Object, Violation> {
        self.create(self.function(name)?).await
    }

    async fn get(&self, key: &ObjectKey) -> Result<Object, Violation> {
        self.catalog()
            .await?
            .get(key)
            .await
            .while_(format_args!("getting {key}"))
    }

    async fn update(&self, object: Object) -> Result<Object, Violation> {
        let key = object.key();
        self.catalog()
            .await?
            .update(object)
            .await
            .while_(format_args!("updating {key}"))
    }

    async fn update_status(&self, object: Object) -> Result<Object, Violation> {
        let key = object.key();
        let catalog = self.catalog().await?;
        catalog
            .update_status(object)
            .await
            .while_(format_args!("updating the status of {key}"))
    }

    async fn delete(&self, key: &ObjectKey) -> Result<Object, Violation> {
        let catalog = self.catalog().await?;
        catalog
            .delete(key, &DeleteOptions::default())
            .await
            .while_(format_args!("deleting {key}"))
    }

    /// Lists all pages.
    async fn all(
        &self,
        kind: Kind,
        namespace: Option<&Namespace>,
    ) -> Result<Vec<Object>, Violation> {
        self.pages(kind, namespace, ListQuery::LIMIT_MAX).await
    }

    /// Lists all pages of this size; anew where a cursor became too old on the way.
    async fn pages(
        &self,
        kind: Kind,
        namespace: Option<&Namespace>,
        limit: usize,
    ) -> Result<Vec<Object>, Violation> {
        let catalog = self.catalog().await?;
        let mut query = ListQuery::all(kind).with_limit(limit);
        query.namespace = namespace.cloned();
        let mut all = Vec::new();
        loop {
            let page = match catalog.list(&query).await {
                Err(error) if error.kind() == ErrorKind::Expired && query.cursor.is_some() => {
                    all.clear();
                    query.cursor = None;
                    continue;
                }
                page => page.while_("listing")?,
            };
            let count = page.items.len();
            ensure!(
                count <= limit,
                "a page of at most {limit} has {count} items"
            );
            all.extend(page.items);
            // Others may write between two pages.
            tokio::task::yield_now().await;
            match page.next {
                Some(next) => query.cursor = Some(next),
                None => return Ok(all),
            }
        }
    }
}

suite! {
    ($)
    /// Makes a test of each clause of [`Catalog`](sless_core::Catalog)'s contract.
    ///
    /// Takes an expression that makes a [`CatalogHarness`](crate::catalog::CatalogHarness); it may
    /// `await`. Attributes in front go to every test.
    catalog, "catalog", CatalogHarness, Case<'_>;
    1 create::a_created_object_is_read_back,
    2 create::the_catalog_writes_identity_and_status_itself,
    3 create::an_invalid_object_is_not_created,
    4 create::nothing_is_created_in_a_namespace_that_is_not_there,
    5 create::what_exists_is_not_created_again,
    6 create::one_of_parallel_creates_wins,
    7 create::the_shortest_and_the_longest_names_work,
    8 create::kinds_and_namespaces_are_apart,
    9 create::an_object_that_is_not_there_is_not_found,
    10 update::an_update_writes_spec_labels_annotations_and_finalizers,
    11 update::an_update_leaves_identity_and_status_alone,
    12 update::only_a_change_of_the_spec_raises_the_generation,
    13 update::every_change_gives_a_new_version,
    14 update::an_update_that_changes_nothing_keeps_the_version,
    15 update::a_stale_update_conflicts_and_changes_nothing,
    16 update::a_status_update_leaves_all_else_alone,
    17 update::a_stale_status_update_conflicts_and_changes_nothing,
    18 update::an_invalid_update_changes_nothing,
    19 update::what_is_not_there_is_not_updated,
    20 update::a_recreated_object_is_another_one,
    21 delete::without_a_finalizer_a_deleted_object_is_gone,
    22 delete::with_a_finalizer_a_deleted_object_is_marked,
    23 delete::deleting_twice_is_fine_while_it_is_there,
    24 delete::the_last_finalizer_lets_an_object_go,
    25 delete::deleting_what_is_not_there_is_not_found,
    26 delete::only_the_object_with_the_uid_is_deleted,
    27 list::objects_are_listed_by_name,
    28 list::pages_give_every_object_once,
    29 list::a_listing_of_no_objects_is_one_empty_page,
    30 list::more_than_a_thousand_objects_are_listed,
    31 list::paging_misses_nothing_while_others_write,
    32 concurrent::parallel_updates_lose_nothing,
    33 concurrent::spec_and_status_writers_lose_nothing,
    34 concurrent::objects_are_read_whole,
    35 concurrent::a_dropped_update_is_done_or_not,
    36 watch::a_watch_from_a_listing_misses_nothing,
    37 watch::a_watch_goes_on_where_another_stopped,
    38 watch::a_watch_without_a_position_begins_now,
    39 watch::every_watcher_is_told,
    40 watch::a_forgotten_position_is_expired,
    41 namespace::a_namespace_is_ensured_once,
    42 namespace::one_of_parallel_ensures_creates,
    43 restart::objects_survive_a_reopen,
    44 restart::a_watch_over_a_reopen_misses_nothing_or_is_expired,
}
