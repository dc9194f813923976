//! [`Catalog`]: what is wanted.

use std::fmt;

use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::{
    Error, ErrorKind, Name, Namespace, Result,
    resource::{Kind, Object, ObjectKey, Resource, Uid, Version},
};

/// Keeps the objects of the three kinds, each with a wanted and a seen state.
///
/// In memory, in SQLite, or as custom resources in Kubernetes. Backends run
/// `sless_conformance::catalog!`; the clauses stand in `docs/contracts/catalog.md`.
///
/// # Contract
/// - Objects are read whole; two readers of the same version read the same.
/// - Every change gives the object a new [`Version`]; a version is compared for equality only.
/// - A change of the spec raises the generation by one; nothing else does, save that the mark of
///   deletion may.
/// - Times are the catalog's clock, perhaps in whole seconds.
/// - An update with a stale version fails with [`ErrorKind::Conflict`]
///   and changes nothing. An update that changes nothing keeps the version.
/// - Dropping a future leaves the state before or after the call, never between.
#[async_trait]
pub trait Catalog: fmt::Debug + Send + Sync + 'static {
    /// Creates an object and answers it as stored, with uid, version, generation 1 and time.
    ///
    /// Status and what the catalog writes itself are ignored in the input; labels, annotations and
    /// finalizers are kept.
    ///
    /// # Errors
    /// `Invalid` if [`Object::validate`] refuses it, `NotFound` if the namespace is not there,
    /// `AlreadyExists` if an object of this kind and name is.
    async fn create(&self, object: Object) -> Result<Object>;

    /// Reads an object.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    async fn get(&self, key: &ObjectKey) -> Result<Object>;

    /// Reads a page of objects, ordered by name within a namespace; over all namespaces, in some order
    /// that is the same for all pages.
    ///
    /// Walking all pages yields every object that was there from the first page to the last, once. An
    /// object that cannot be read as its kind is left out, and logged; `get` answers `Corrupt` for it.
    ///
    /// # Errors
    /// `Expired` if the cursor is too old: begin again.
    async fn list(&self, query: &ListQuery) -> Result<Page<Object>>;

    /// Writes spec, labels, annotations and finalizers of an object that is there.
    ///
    /// Removing the last finalizer of an object that is being deleted lets it go; the answer is then
    /// the object as it was last.
    ///
    /// # Errors
    /// `Conflict` if the version is stale, `NotFound` if the object is not there or has another uid,
    /// `Invalid` if the spec is changed to one that [`Object::validate`] refuses. A spec that is not
    /// changed is not checked, so that everything can be deleted.
    async fn update(&self, object: Object) -> Result<Object>;

    /// Writes the status of an object that is there, and nothing else.
    ///
    /// # Errors
    /// `Conflict` if the version is stale, `NotFound` if the object is not there or has another uid.
    async fn update_status(&self, object: Object) -> Result<Object>;

    /// Asks for the deletion of an object: marks it, and lets it go once it has no finalizer. Asking
    /// again is fine while it is there. Answers the object as it is after the call, or was last.
    ///
    /// # Errors
    /// `NotFound` if it is not there, `Conflict` if the options name another uid.
    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object>;

    /// Watches for changes of all kinds in all namespaces.
    ///
    /// From a position that [`list`](Catalog::list) or a watch gave, every later change is hinted at
    /// least once; without one, from now on. Ends with an error when hints were lost: list again.
    ///
    /// # Errors
    /// `Expired` if the position is too old, at once or as the stream's last item.
    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream>;

    /// Makes a namespace if it is not there; the same under parallel calls. There is no method that
    /// deletes one.
    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured>;
}

/// Which objects to list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// Of this kind.
    pub kind: Kind,
    /// In this namespace, or in all.
    pub namespace: Option<Namespace>,
    /// At most so many on a page, from 1; at most [`ListQuery::LIMIT_MAX`].
    pub limit: usize,
    /// From the `next` of the page before.
    pub cursor: Option<String>,
}

impl ListQuery {
    /// The largest page.
    pub const LIMIT_MAX: usize = 1000;

    /// All objects of a kind, in the largest pages.
    pub const fn all(kind: Kind) -> Self {
        Self {
            kind,
            namespace: None,
            limit: Self::LIMIT_MAX,
            cursor: None,
        }
    }

    /// Only in this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// At most so many on a page. Held within 1 and [`ListQuery::LIMIT_MAX`].
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit.clamp(1, Self::LIMIT_MAX);
        self
    }

    /// From the `next` of the page before.
    #[must_use]
    pub fn from_cursor(mut self, cursor: Option<String>) -> Self {
        self.cursor = cursor;
        self
    }
}

/// Part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in order.
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
    /// The position to watch from, taken before the first item of this page was read.
    pub position: Version,
}

/// What to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// Only the object with this uid.
    pub uid: Option<Uid>,
}

impl DeleteOptions {
    /// Only the object with this uid.
    #[must_use]
    pub fn with_uid(mut self, uid: Uid) -> Self {
        self.uid = Some(uid);
        self
    }
}

/// What to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchOptions {
    /// From this position; from now on where absent.
    pub from: Option<Version>,
}

impl WatchOptions {
    /// From this position.
    #[must_use]
    pub fn from_position(mut self, position: Version) -> Self {
        self.from = Some(position);
        self
    }
}

/// An item of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// Look at this object again: it was created, changed or deleted.
    Changed {
        /// The object.
        key: ObjectKey,
        /// The position after this change.
        position: Version,
    },
    /// Nothing before this position is left to tell.
    Bookmark(Version),
}

/// The items of a watch.
pub type WatchStream = BoxStream<'static, Result<WatchEvent>>;

/// What `ensure` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensured {
    /// It was made by this call.
    Created,
    /// It was there.
    Exists,
}

/// How often [`CatalogExt::modify`] reads again after a conflict.
pub const MODIFY_ATTEMPTS: usize = 16;

/// What people call: typed reading and writing on any [`Catalog`].
#[async_trait]
pub trait CatalogExt: Catalog {
    /// Reads an object of this type.
    ///
    /// # Errors
    /// `NotFound` if it is not there.
    async fn read<R: Resource>(&self, namespace: &Namespace, name: &Name) -> Result<R> {
        let key = ObjectKey::new(R::KIND, namespace.clone(), name.clone());
        R::try_from(self.get(&key).await?)
    }

    /// Reads an object of this type, or `None` if it is not there.
    async fn find<R: Resource>(&self, namespace: &Namespace, name: &Name) -> Result<Option<R>> {
        match self.read(namespace, name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads all objects of this type in a namespace, or in all of them.
    async fn read_all<R: Resource>(&self, namespace: Option<&Namespace>) -> Result<Vec<R>> {
        let mut all = Vec::new();
        let mut query = ListQuery::all(R::KIND);
        query.namespace = namespace.cloned();
        loop {
            let page = match self.list(&query).await {
                Err(error) if error.kind() == ErrorKind::Expired && query.cursor.is_some() => {
                    all.clear();
                    query.cursor = None;
                    continue;
                }
                page => page?,
            };
            for object in page.items {
                all.push(R::try_from(object)?);
            }
            if page.next.is_none() {
                return Ok(all);
            }
            query.cursor = page.next;
        }
    }

    /// Creates an object of this type.
    ///
    /// # Errors
    /// Those of [`Catalog::create`].
    async fn add<R: Resource>(&self, resource: R) -> Result<R> {
        R::try_from(self.create(resource.into()).await?)
    }

    /// Reads an object, lets `change` work on it, and writes it; again after a conflict, up to
    /// [`MODIFY_ATTEMPTS`] times. Writes nothing where `change` changes nothing.
    ///
    /// # Errors
    /// What `change` says, `NotFound`, or `Conflict` if somebody else was faster every time.
    async fn modify<R, F>(&self, namespace: &Namespace, name: &Name, mut change: F) -> Result<R>
    where
        R: Resource + PartialEq,
        F: FnMut(&mut R) -> Result<()> + Send,
    {
        let mut attempts = 0;
        loop {
            let before: R = self.read(namespace, name).await?;
            let mut after = before.clone();
            change(&mut after)?;
            if after == before {
                return Ok(before);
            }
            match self.update(after.into()).await {
                Err(error) if error.is_conflict() && attempts < MODIFY_ATTEMPTS => attempts += 1,
                other => return R::try_from(other?),
            }
        }
    }
}

impl<C: Catalog + ?Sized> CatalogExt for C {}

/// The error of every catalog for an object that is not there.
pub fn object_not_found(key: &ObjectKey) -> Error {
    let kind = match key.kind {
        Kind::Function => "function",
        Kind::Trigger => "trigger",
        Kind::FunctionJob => "job",
    };
    Error::not_found(format!(
        "no {kind} {} in namespace {}",
        key.name, key.namespace
    ))
    .on(key)
}
