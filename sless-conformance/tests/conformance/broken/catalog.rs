use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use sless_conformance::catalog::{CatalogHarness, clauses};
use sless_core::{
    Catalog, DeleteOptions, Ensured, ErrorKind, ListQuery, Namespace, Object, ObjectKey, Page,
    Result, Version, VirtualClock, WatchOptions, WatchStream,
    memory::{MemoryCatalog, MemoryCatalogConfig},
};

use super::{Broken, Expected, expect};
use crate::memory::{HISTORY, fill_history};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    /// The last writer wins, whatever version it read.
    LastWins,
    /// The same for statuses.
    LastStatusWins,
    /// `update` writes the status, too.
    WritesStatus,
    /// `update_status` writes the spec, too.
    WritesSpec,
    /// An update that changes nothing answers a new version.
    BusyVersion,
    /// Objects are found by their names alone.
    ByName,
    /// Finalizers hold nothing.
    NoFinalizers,
    /// A delete does not look at the uid.
    DeletesAny,
    /// The first object of a later page is lost.
    LosesAtBorder,
    /// A page is the whole listing.
    NoPages,
    /// Every third hint is lost.
    LosesHints,
    /// A watch begins now, whatever position it is given.
    WatchesFromNow,
    /// A watch that lost hints goes on.
    NeverExpires,
    /// Creating what exists replaces it.
    Replaces,
    /// A namespace comes by itself.
    NoNamespaces,
    /// `ensure_namespace` always says that it made it.
    AlwaysCreated,
    /// Annotations are dropped.
    NoAnnotations,
}

/// The catalog with the defect.
#[derive(Debug)]
struct Faulty {
    inner: MemoryCatalog,
    defect: Defect,
    count: AtomicU64,
}

impl Faulty {
    /// Takes over what would be checked.
    async fn disguise(&self, object: &mut Object, version: bool) -> Result<()> {
        let current = self.inner.get(&object.key()).await?;
        if version {
            // Others get a turn between look and write.
            tokio::task::yield_now().await;
            object.metadata_mut().version = current.metadata().version.clone();
        } else {
            object.metadata_mut().uid = current.metadata().uid.clone();
        }
        Ok(())
    }
}

#[async_trait]
impl Catalog for Faulty {
    async fn create(&self, mut object: Object) -> Result<Object> {
        match self.defect {
            Defect::NoNamespaces => {
                self.inner
                    .ensure_namespace(&object.metadata().namespace)
                    .await?;
            }
            Defect::NoAnnotations => object.metadata_mut().annotations.clear(),
            _ => {}
        }
        match self.inner.create(object.clone()).await {
            Err(error)
                if error.kind() == ErrorKind::AlreadyExists && self.defect == Defect::Replaces =>
            {
                let current = self.inner.get(&object.key()).await?;
                object.metadata_mut().version = current.metadata().version.clone();
                object.metadata_mut().uid = current.metadata().uid.clone();
                self.inner.update(object).await
            }
            other => other,
        }
    }

    async fn get(&self, key: &ObjectKey) -> Result<Object> {
        self.inner.get(key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Object>> {
        let mut page = self.inner.list(query).await?;
        if self.defect == Defect::LosesAtBorder && query.cursor.is_some() {
            page.items.remove(0);
        }
        if self.defect == Defect::NoPages {
            while let Some(next) = page.next.take() {
                let more = self
                    .inner
                    .list(&query.clone().from_cursor(Some(next)))
                    .await?;
                page.items.extend(more.items);
                page.next = more.next;
            }
        }
        Ok(page)
    }

    async fn update(&self, mut object: Object) -> Result<Object> {
        match self.defect {
            Defect::LastWins => self.disguise(&mut object, true).await?,
            Defect::ByName => self.disguise(&mut object, false).await?,
            Defect::NoAnnotations => object.metadata_mut().annotations.clear(),
            _ => {}
        }
        let given = object.clone();
        let mut updated = self.inner.update(object).await?;
        match self.defect {
            Defect::WritesStatus if !updated.same_status(&given) => {
                updated.take_status_of(given)?;
                self.inner.update_status(updated).await
            }
            Defect::BusyVersion if updated.metadata().version == given.metadata().version => {
                updated.metadata_mut().version = Version::new("busy");
                Ok(updated)
            }
            _ => Ok(updated),
        }
    }

    async fn update_status(&self, mut object: Object) -> Result<Object> {
        match self.defect {
            Defect::LastStatusWins => self.disguise(&mut object, true).await?,
            Defect::WritesSpec => {
                let given = object.clone();
                object = self.inner.update(object).await?;
                object.take_status_of(given)?;
            }
            _ => {}
        }
        self.inner.update_status(object).await
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object> {
        match self.defect {
            Defect::NoFinalizers => {
                let mut object = self.inner.get(key).await?;
                object.metadata_mut().finalizers.clear();
                self.inner.update(object).await?;
                self.inner.delete(key, options).await
            }
            Defect::DeletesAny => self.inner.delete(key, &DeleteOptions::default()).await,
            _ => self.inner.delete(key, options).await,
        }
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
        match self.defect {
            Defect::WatchesFromNow => self.inner.watch(&WatchOptions::default()).await,
            Defect::NeverExpires => match self.inner.watch(options).await {
                Err(_) => self.inner.watch(&WatchOptions::default()).await,
                other => other,
            },
            Defect::LosesHints => {
                let counted = self.count.fetch_add(1, Ordering::Relaxed);
                let events = self.inner.watch(options).await?.enumerate();
                let kept = events.filter_map(move |(at, event)| async move {
                    (!(at as u64 + counted).is_multiple_of(3)).then_some(event)
                });
                Ok(kept.boxed())
            }
            _ => self.inner.watch(options).await,
        }
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let ensured = self.inner.ensure_namespace(namespace).await?;
        Ok(if self.defect == Defect::AlwaysCreated {
            Ensured::Created
        } else {
            ensured
        })
    }
}

#[async_trait]
impl CatalogHarness for Broken<Arc<Faulty>, Defect> {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        Ok(self.backend.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        Ok(false)
    }

    async fn forget_history(&self) -> Result<bool> {
        fill_history(&self.backend.inner).await
    }
}

fn find(defects: Expected<'_, Defect>) {
    let make = |defect| -> Box<dyn CatalogHarness> {
        let clock = VirtualClock::default();
        let mut config = MemoryCatalogConfig::default();
        config.history = HISTORY;
        let inner = MemoryCatalog::with_config(Arc::new(clock.clone()), config);
        let backend = Arc::new(Faulty {
            inner,
            defect,
            count: AtomicU64::new(0),
        });
        Box::new(Broken {
            clock,
            backend,
            defect,
        })
    };
    expect(defects, clauses(), make);
}

#[test]
fn a_catalog_that_loses_updates_is_found() {
    find(&[
        (
            Defect::LastWins,
            &[
                "a_stale_update_conflicts_and_changes_nothing",
                "parallel_updates_lose_nothing",
                "spec_and_status_writers_lose_nothing",
            ],
        ),
        (
            Defect::LastStatusWins,
            &[
                "a_stale_status_update_conflicts_and_changes_nothing",
                "spec_and_status_writers_lose_nothing",
            ],
        ),
    ]);
}

#[test]
fn a_catalog_that_writes_too_much_is_found() {
    find(&[
        (
            Defect::WritesStatus,
            &["an_update_leaves_identity_and_status_alone"],
        ),
        (
            Defect::WritesSpec,
            &["a_status_update_leaves_all_else_alone"],
        ),
        (
            Defect::BusyVersion,
            &[
                "an_update_that_changes_nothing_keeps_the_version",
                "only_a_change_of_the_spec_raises_the_generation",
            ],
        ),
        (
            Defect::NoAnnotations,
            &[
                "a_created_object_is_read_back",
                "an_update_writes_spec_labels_annotations_and_finalizers",
            ],
        ),
    ]);
}

#[test]
fn a_catalog_that_mixes_up_objects_is_found() {
    find(&[
        (Defect::ByName, &["a_recreated_object_is_another_one"]),
        (
            Defect::DeletesAny,
            &["only_the_object_with_the_uid_is_deleted"],
        ),
        (
            Defect::Replaces,
            &[
                "one_of_parallel_creates_wins",
                "what_exists_is_not_created_again",
                "with_a_finalizer_a_deleted_object_is_marked",
            ],
        ),
        (
            Defect::NoFinalizers,
            &[
                "a_watch_from_a_listing_misses_nothing",
                "deleting_twice_is_fine_while_it_is_there",
                "the_last_finalizer_lets_an_object_go",
                "with_a_finalizer_a_deleted_object_is_marked",
            ],
        ),
    ]);
}

#[test]
fn a_catalog_that_lists_wrongly_is_found() {
    find(&[
        (
            Defect::LosesAtBorder,
            &[
                "more_than_a_thousand_objects_are_listed",
                "objects_are_listed_by_name",
                "pages_give_every_object_once",
                "paging_misses_nothing_while_others_write",
                "the_shortest_and_the_longest_names_work",
            ],
        ),
        (
            Defect::NoPages,
            &[
                "more_than_a_thousand_objects_are_listed",
                "objects_are_listed_by_name",
                "pages_give_every_object_once",
                "paging_misses_nothing_while_others_write",
                "the_shortest_and_the_longest_names_work",
            ],
        ),
    ]);
}

#[test]
fn a_catalog_that_watches_badly_is_found() {
    let watching = [
        "a_watch_from_a_listing_misses_nothing",
        "a_watch_goes_on_where_another_stopped",
        "a_watch_without_a_position_begins_now",
        "every_watcher_is_told",
        "a_forgotten_position_is_expired",
    ];
    find(&[
        (Defect::NeverExpires, &["a_forgotten_position_is_expired"]),
        (Defect::LosesHints, &watching),
        (
            Defect::WatchesFromNow,
            &[
                "a_forgotten_position_is_expired",
                "a_watch_from_a_listing_misses_nothing",
                "a_watch_goes_on_where_another_stopped",
            ],
        ),
    ]);
}

#[test]
fn a_catalog_that_takes_namespaces_lightly_is_found() {
    find(&[
        (
            Defect::NoNamespaces,
            &["nothing_is_created_in_a_namespace_that_is_not_there"],
        ),
        (
            Defect::AlwaysCreated,
            &[
                "a_namespace_is_ensured_once",
                "one_of_parallel_ensures_creates",
            ],
        ),
    ]);
}
