//! [`LocalCatalog`]: objects in SQLite.

mod rows;
mod watch;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension as _, params};
use sless_core::{
    Catalog, Clock, DeleteOptions, Ensured, Error, ErrorKind, Function, FunctionJob, ListQuery,
    Namespace, Object, ObjectKey, Page, Result, Trigger, Uid, Version, WatchOptions, WatchStream,
    catalog::object_not_found,
};
use tokio::sync::watch as latest;

use crate::{
    CatalogConfig,
    data_dir::DataDir,
    database::{Database, Durability, Schema},
    error::{BACKEND, Fault},
};

pub(crate) static SCHEMA: Schema = Schema {
    file: "catalog.db",
    steps: &[include_str!("schema.sql")],
    tidy: &[],
};

/// A [`Catalog`] in the file `db/catalog.db`.
///
/// An object is a row of JSON; its [`Version`] is the number of the change that wrote it, from one
/// counter over all objects. The last [`CatalogConfig::watch_history`] changes are kept for watches.
///
/// A write is acknowledged once the log is synced to the disk: neither a killed process nor a power cut
/// takes it back. Writers that come together share one sync. A write that changes nothing, and every
/// read, leaves the disk alone.
#[derive(Clone)]
pub struct LocalCatalog {
    database: Database,
    config: CatalogConfig,
    clock: Arc<dyn Clock>,
    /// The position of the last change that was committed; `None` once the catalog is shut down.
    last: latest::Sender<Option<i64>>,
}

impl LocalCatalog {
    /// Opens the catalog of a data folder. Touches the file system.
    ///
    /// # Errors
    /// `Unsupported`, reason `schema_too_new`, if a newer version of sless wrote it; `Corrupt` if it is
    /// damaged.
    pub fn open(dir: &DataDir, config: &CatalogConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Ok(Self::in_database(
            Database::open(dir, &SCHEMA, &config.database)?,
            config,
            clock,
        )?)
    }

    pub(crate) fn in_database(
        database: Database,
        config: &CatalogConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Fault> {
        let last = database.inspect(rows::last_position)?;
        Ok(Self {
            database,
            config: config.clone(),
            clock,
            last: latest::Sender::new(Some(last)),
        })
    }

    /// Ends the watches. The file is the caller's to close.
    pub(crate) fn end_watches(&self) {
        self.last.send_replace(None);
    }

    /// Runs a change of one object. `None` as position means that nothing was changed.
    async fn change<J>(&self, job: J) -> Result<Object, Fault>
    where
        J: FnOnce(&Connection) -> Result<(Object, Option<i64>), Fault> + Send + 'static,
    {
        let last = self.last.clone();
        let history = i64::from(self.config.watch_history.max(1));
        let job = move |connection: &Connection| {
            let (object, position) = job(connection)?;
            // Once in a while is enough, and cheaper.
            if let Some(position) = position
                && position % 64 == 0
            {
                rows::forget_changes(connection, position - history)?;
            }
            Ok((object, position))
        };
        let tell = move |(_, position): &(Object, Option<i64>)| {
            if let Some(position) = *position {
                last.send_if_modified(|last| {
                    let grows = last.is_some_and(|last| position > last);
                    if grows {
                        *last = Some(position);
                    }
                    grows
                });
            }
        };
        let (object, _) = self
            .database
            .write_then(Durability::Synced, job, tell)
            .await?;
        Ok(object)
    }
}

impl fmt::Debug for LocalCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCatalog")
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Catalog for LocalCatalog {
    async fn create(&self, object: Object) -> Result<Object> {
        let key = object.key();
        let limit = self.config.object_bytes;
        let now = self.clock.now();
        let subject = key.clone();
        let created = async {
            object.validate()?;
            let mut object = without_status(object);
            let metadata = object.metadata_mut();
            metadata.uid = Uid::random();
            metadata.generation = 1;
            metadata.created_at = now;
            metadata.deleted_at = None;
            metadata.version = Version::default();
            let body = rows::body(&object, limit)?;
            self.change(move |connection| {
                require_namespace(connection, &key.namespace)?;
                if rows::exists(connection, &key)? {
                    return Err(already_exists(&key).into());
                }
                let position = rows::record_change(connection, &key)?;
                rows::insert(connection, &key, position, &body)?;
                object.metadata_mut().version = rows::version(position);
                Ok((object, Some(position)))
            })
            .await
        };
        created
            .await
            .map_err(|fault| named(fault, "catalog.create", &subject))
    }

    async fn get(&self, key: &ObjectKey) -> Result<Object> {
        let wanted = key.clone();
        let found = self
            .database
            .read(move |connection| rows::require(connection, &wanted))
            .await;
        found.map_err(|fault| named(fault, "catalog.get", key))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Object>> {
        let query = query.clone();
        let page = self
            .database
            .read(move |connection| rows::list(connection, &query))
            .await;
        page.map_err(|fault| Error::from(fault).during("catalog.list"))
    }

    async fn update(&self, object: Object) -> Result<Object> {
        let key = object.key();
        let limit = self.config.object_bytes;
        let subject = key.clone();
        let updated = self.change(move |connection| {
            let current = rows::require_same(connection, &key, object.metadata())?;
            let same_spec = object.same_spec(&current);
            // A spec that was accepted once stays: an object can be let go under rules that would
            // refuse it today.
            if !same_spec {
                object.validate()?;
            }
            let mut next = object;
            next.take_status_of(current.clone())?;
            take_what_the_catalog_writes(&mut next, &current);
            let metadata = next.metadata();
            if metadata.is_deleting() && metadata.finalizers.is_empty() {
                return remove(connection, next);
            }
            if next == current {
                return Ok((current, None));
            }
            if !same_spec {
                next.metadata_mut().generation += 1;
            }
            store(connection, next, limit)
        });
        updated
            .await
            .map_err(|fault| named(fault, "catalog.update", &subject))
    }

    async fn update_status(&self, object: Object) -> Result<Object> {
        let key = object.key();
        let limit = self.config.object_bytes;
        let subject = key.clone();
        let updated = self.change(move |connection| {
            let mut current = rows::require_same(connection, &key, object.metadata())?;
            if object.same_status(&current) {
                return Ok((current, None));
            }
            current.take_status_of(object)?;
            store(connection, current, limit)
        });
        updated
            .await
            .map_err(|fault| named(fault, "catalog.update_status", &subject))
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object> {
        let (wanted, uid) = (key.clone(), options.uid.clone());
        let now = self.clock.now();
        let limit = self.config.object_bytes;
        let deleted = self.change(move |connection| {
            let mut current = rows::require(connection, &wanted)?;
            if let Some(uid) = uid
                && uid != current.metadata().uid
            {
                let found = &current.metadata().uid;
                let told = format!("the object has uid {found}, asked for was {uid}");
                return Err(Error::conflict(told).into());
            }
            if current.metadata().finalizers.is_empty() {
                current.metadata_mut().deleted_at.get_or_insert(now);
                return remove(connection, current);
            }
            if current.metadata().is_deleting() {
                return Ok((current, None));
            }
            current.metadata_mut().deleted_at = Some(now);
            store(connection, current, limit)
        });
        deleted
            .await
            .map_err(|fault| named(fault, "catalog.delete", key))
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
        let started = watch::start(self.database.clone(), self.last.subscribe(), options).await;
        started.map_err(|fault| Error::from(fault).during("catalog.watch"))
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let name = namespace.clone();
        let ensured = self.database.write(Durability::Synced, move |connection| {
            let sql = "INSERT INTO namespaces(name) VALUES (?1) ON CONFLICT DO NOTHING";
            let made = connection
                .prepare_cached(sql)?
                .execute(params![name.as_str()])?;
            Ok(if made == 1 {
                Ensured::Created
            } else {
                Ensured::Exists
            })
        });
        let named = |fault| {
            Error::from(fault)
                .during("catalog.ensure_namespace")
                .on(namespace)
        };
        ensured.await.map_err(named)
    }
}

fn named(fault: Fault, operation: &'static str, key: &ObjectKey) -> Error {
    Error::from(fault).during(operation).on(key).at(BACKEND)
}

fn already_exists(key: &ObjectKey) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        format!(
            "{} {} exists already in namespace {}",
            key.kind, key.name, key.namespace
        ),
    )
}

fn without_status(object: Object) -> Object {
    match object {
        Object::Function(function) => Function::new(function.metadata, function.spec).into(),
        Object::Trigger(trigger) => Trigger::new(trigger.metadata, trigger.spec).into(),
        Object::FunctionJob(job) => FunctionJob::new(job.metadata, job.spec).into(),
    }
}

fn take_what_the_catalog_writes(next: &mut Object, current: &Object) {
    let (next, current) = (next.metadata_mut(), current.metadata());
    next.uid = current.uid.clone();
    next.version = current.version.clone();
    next.generation = current.generation;
    next.created_at = current.created_at;
    next.deleted_at = current.deleted_at;
}

fn require_namespace(connection: &Connection, namespace: &Namespace) -> Result<(), Fault> {
    let sql = "SELECT 1 FROM namespaces WHERE name = ?1";
    let found = connection
        .prepare_cached(sql)?
        .query_row(params![namespace.as_str()], |_| Ok(()))
        .optional()?;
    found.ok_or_else(|| {
        let told = format!("namespace {namespace} does not exist");
        Error::not_found(told)
            .with_reason("namespace_missing")
            .into()
    })
}

fn store(
    connection: &Connection,
    mut object: Object,
    limit: usize,
) -> Result<(Object, Option<i64>), Fault> {
    let key = object.key();
    object.metadata_mut().version = Version::default();
    let body = rows::body(&object, limit)?;
    let position = rows::record_change(connection, &key)?;
    rows::replace(connection, &key, position, &body)?;
    object.metadata_mut().version = rows::version(position);
    Ok((object, Some(position)))
}

fn remove(connection: &Connection, mut object: Object) -> Result<(Object, Option<i64>), Fault> {
    let key = object.key();
    let position = rows::record_change(connection, &key)?;
    rows::remove(connection, &key)?;
    object.metadata_mut().version = rows::version(position);
    Ok((object, Some(position)))
}

/// The error of every method here for an object that is not there.
fn missing(key: &ObjectKey) -> Fault {
    object_not_found(key).into()
}
