//! [`KubeCatalog`]: objects as custom resources.

mod diff;
mod recent;
mod requests;
mod watch;
mod wire;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use sless_core::{
    Catalog, DeleteOptions, Ensured, Error, ErrorKind, Kind, ListQuery, Metadata, Namespace,
    Object, ObjectKey, Page, Result, Version, WatchOptions, WatchStream, catalog::object_not_found,
};

use self::recent::Recent;
use crate::{
    client::Cluster,
    error::{BACKEND, Fault},
    namespaces,
};

/// A [`Catalog`] in the custom resources of `sless.io/v1alpha1`.
///
/// The API server is the only place where anything is kept; no read is answered from memory. An object that
/// was made by `kubectl apply` is as good as one of the REST API, and each sees the other's changes. A
/// [`Version`] is the object's `resourceVersion`.
///
/// Updates are merge patches of what differs, held to the version that the caller read: fields that this
/// version of sless does not know stay as they are, and where nothing differs nothing is sent.
///
/// A position is one `resourceVersion` per kind. All three kinds are custom resources of one API server and so
/// lie in one etcd, which counts them together; a listing's `resourceVersion` therefore stands for all of
/// them. After a restart of an API server most positions are `Expired`, since it forgets its history.
#[derive(Clone)]
pub struct KubeCatalog {
    cluster: Cluster,
    recent: Arc<Recent>,
}

impl KubeCatalog {
    /// A catalog in this cluster. The manifests of [`crd_manifests`](crate::crd_manifests) have to be
    /// there.
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            recent: Arc::default(),
        }
    }

    /// What an update of `given` begins from. Where it was read a moment ago it need not be the last version:
    /// that shows when it is written, or where nothing is to be written, when it is asked for.
    async fn begin(&self, key: &ObjectKey, given: &Metadata) -> Result<Object, Fault> {
        match self.recent.take(given) {
            Some(object) => Ok(object),
            None => self.require_same(key, given).await,
        }
    }

    /// The object as it is now, if it is the one that `given` was read from, and has not changed since.
    async fn require_same(&self, key: &ObjectKey, given: &Metadata) -> Result<Object, Fault> {
        let current = requests::get(&self.cluster, key).await?;
        let metadata = current.metadata();
        if metadata.uid != given.uid {
            return Err(object_not_found(key).into());
        }
        if metadata.version != given.version {
            let told = format!(
                "the version is {}, given was \"{}\"",
                metadata.version, given.version
            );
            return Err(Error::conflict(told).into());
        }
        Ok(current)
    }

    fn remember(&self, object: Object) -> Object {
        self.recent.put(&object);
        object
    }

    /// What an update that came too late is answered: another object may be there by now.
    async fn overtaken(&self, key: &ObjectKey, given: &Metadata, fault: Fault) -> Fault {
        if fault.is_not_found() {
            return object_not_found(key).into();
        }
        if !fault.is_conflict() {
            return fault;
        }
        match self.require_same(key, given).await {
            Err(why) => why,
            Ok(_) => fault,
        }
    }

    async fn update_found(&self, key: &ObjectKey, object: Object) -> Result<Object, Fault> {
        let current = self.begin(key, object.metadata()).await?;
        let mut next = object;
        // A spec that was accepted once stays: an object can be let go under rules that would refuse it
        // today.
        if next.same_spec(&current) {
            wire::take_spec(&mut next, &current);
        } else {
            next.validate()?;
        }
        let Some(patch) = wire::patch(&current, &next)? else {
            return self.require_same(key, current.metadata()).await;
        };
        self.check_size(&next)?;
        match requests::patch(&self.cluster, key, None, current.metadata(), patch).await {
            Ok(updated) => Ok(self.remember(updated)),
            Err(fault) => Err(self.overtaken(key, current.metadata(), fault).await),
        }
    }

    async fn update_status_found(&self, key: &ObjectKey, object: Object) -> Result<Object, Fault> {
        let current = self.begin(key, object.metadata()).await?;
        let Some(patch) = wire::status_patch(&current, &object)? else {
            return self.require_same(key, current.metadata()).await;
        };
        self.check_size(&object)?;
        let sub = Some("status");
        match requests::patch(&self.cluster, key, sub, current.metadata(), patch).await {
            Ok(updated) => Ok(self.remember(updated)),
            Err(fault) => Err(self.overtaken(key, current.metadata(), fault).await),
        }
    }

    async fn delete_found(
        &self,
        key: &ObjectKey,
        options: &DeleteOptions,
    ) -> Result<Object, Fault> {
        let attempts = self.cluster.config().catalog.delete_attempts.max(1);
        for attempt in 1.. {
            let current = requests::get(&self.cluster, key).await?;
            if let Some(uid) = &options.uid
                && *uid != current.metadata().uid
            {
                let found = &current.metadata().uid;
                let told = format!("the object has uid {found}, asked for was {uid}");
                return Err(Error::conflict(told).into());
            }
            if current.metadata().is_deleting() && !current.metadata().finalizers.is_empty() {
                return Ok(current);
            }
            // Held to the version, so that the answer is what the object was last. In the end it is held to
            // the uid only: a busy object has to go, too.
            let exact = attempt < attempts;
            match requests::delete(&self.cluster, key, current.metadata(), exact).await {
                Ok(Some(left)) => return Ok(left),
                Ok(None) => return Ok(wire::gone(current)),
                Err(fault) if exact && fault.is_conflict() => {}
                Err(fault) if fault.is_not_found() => return Err(object_not_found(key).into()),
                Err(fault) => return Err(fault),
            }
        }
        Err(object_not_found(key).into())
    }

    fn looks_after(&self, namespace: &Namespace) -> bool {
        let prefix = &self.cluster.config().catalog.namespace_prefix;
        namespace.as_str().starts_with(prefix.as_str())
    }

    /// Refuses what would never be looked at again.
    fn check_namespace(&self, namespace: &Namespace) -> Result<(), Fault> {
        if self.looks_after(namespace) {
            return Ok(());
        }
        let prefix = &self.cluster.config().catalog.namespace_prefix;
        let told = format!(
            "namespace {namespace} is not looked after here: expected one that begins with {prefix}"
        );
        let error = Error::new(ErrorKind::PermissionDenied, told);
        Err(error.with_reason("namespace_prefix").into())
    }

    fn check_size(&self, object: &Object) -> Result<(), Fault> {
        let limit = self.cluster.config().catalog.object_bytes;
        if wire::bytes(object)? > limit {
            return Err(Error::limit("object_bytes", limit, "bytes").into());
        }
        Ok(())
    }
}

impl fmt::Debug for KubeCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeCatalog")
            .field("cluster", &self.cluster)
            .finish()
    }
}

#[async_trait]
impl Catalog for KubeCatalog {
    async fn create(&self, object: Object) -> Result<Object> {
        let key = object.key();
        let created = async {
            self.check_namespace(&key.namespace)?;
            object.validate()?;
            self.check_size(&object)?;
            requests::create(&self.cluster, &object)
                .await
                .map_err(|fault| not_created(&key, fault))
        };
        created
            .await
            .map_err(|fault| named(fault, "catalog.create", &key))
    }

    async fn get(&self, key: &ObjectKey) -> Result<Object> {
        let found = if self.looks_after(&key.namespace) {
            let found = requests::get(&self.cluster, key).await;
            found.map(|object| self.remember(object))
        } else {
            Err(object_not_found(key).into())
        };
        found.map_err(|fault| named(fault, "catalog.get", key))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Object>> {
        let listed = requests::list(&self.cluster, query).await;
        let mut page = listed.map_err(|fault| Error::from(fault).during("catalog.list"))?;
        let here = |object: &Object| self.looks_after(&object.metadata().namespace);
        page.items.retain(here);
        Ok(page)
    }

    async fn update(&self, object: Object) -> Result<Object> {
        let key = object.key();
        self.update_found(&key, object)
            .await
            .map_err(|fault| named(fault, "catalog.update", &key))
    }

    async fn update_status(&self, object: Object) -> Result<Object> {
        let key = object.key();
        self.update_status_found(&key, object)
            .await
            .map_err(|fault| named(fault, "catalog.update_status", &key))
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object> {
        self.delete_found(key, options)
            .await
            .map_err(|fault| named(fault, "catalog.delete", key))
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
        let from = match &options.from {
            Some(position) => watch::Position::read(position),
            // Any listing tells where "now" is.
            None => {
                let query = ListQuery::all(Kind::Function).with_limit(1);
                let now = requests::list(&self.cluster, &query).await;
                now.and_then(|page| watch::Position::read(&page.position))
            }
        };
        let started = match from {
            Ok(from) => watch::start(self.cluster.clone(), from).await,
            Err(fault) => Err(fault),
        };
        started.map_err(|fault| Error::from(fault).during("catalog.watch"))
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let ensured = async {
            self.check_namespace(namespace)?;
            namespaces::ensure_resources(&self.cluster, namespace).await
        };
        ensured.await.map_err(|fault| {
            Error::from(fault)
                .during("catalog.ensure_namespace")
                .on(namespace)
        })
    }
}

fn named(fault: Fault, operation: &'static str, key: &ObjectKey) -> Error {
    Error::from(fault).during(operation).on(key).at(BACKEND)
}

/// A create that was refused, in the words of the contract.
fn not_created(key: &ObjectKey, fault: Fault) -> Fault {
    if fault.is_not_found() {
        let told = format!("namespace {} does not exist", key.namespace);
        return Error::not_found(told)
            .with_reason("namespace_missing")
            .into();
    }
    if fault.is_already_exists() {
        let told = format!(
            "{} {} exists already in namespace {}",
            key.kind, key.name, key.namespace
        );
        return Error::new(ErrorKind::AlreadyExists, told).into();
    }
    fault
}

/// The version that stands for a moment of all kinds.
fn position(resource_version: &str) -> Version {
    watch::Position::everywhere(resource_version).write()
}
