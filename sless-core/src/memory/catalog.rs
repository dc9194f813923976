//! [`MemoryCatalog`].

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::{Arc, Mutex},
};

use super::{
    BACKEND, lock,
    tick::{Tick, Ticks},
};
use crate::{
    Catalog, Clock, DeleteOptions, Ensured, Error, ErrorKind, ListQuery, Name, Namespace, Page,
    Result, SystemClock, WatchEvent, WatchOptions, WatchStream,
    catalog::object_not_found,
    resource::{FunctionStatus, JobStatus, Object, ObjectKey, TriggerStatus, Uid, Version},
};
use async_trait::async_trait;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

/// The limits of a [`MemoryCatalog`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryCatalogConfig {
    /// The most objects.
    pub objects: usize,
    /// The most changes that are kept for watchers; an older position is `Expired`.
    pub history: usize,
    /// Where set, uids follow from this number instead of chance, so that a simulation can be
    /// repeated. Two catalogs with the same seed give the same uids.
    pub uid_seed: Option<u64>,
}

impl Default for MemoryCatalogConfig {
    /// A million objects, and 16,384 changes.
    fn default() -> Self {
        Self {
            objects: 1_000_000,
            history: 16_384,
            uid_seed: None,
        }
    }
}

/// A [`Catalog`] in memory.
#[derive(Debug)]
pub struct MemoryCatalog {
    clock: Arc<dyn Clock>,
    config: MemoryCatalogConfig,
    state: Arc<Mutex<State>>,
    /// Wakes watchers. It is not part of the state that they hold, so that they end with the catalog.
    tick: Tick,
}

#[derive(Debug, Default)]
struct State {
    /// Counts all changes. The version of an object is the number of its last change.
    position: u64,
    objects: BTreeMap<ObjectKey, Object>,
    namespaces: BTreeSet<Namespace>,
    /// The newest changes; the last one has the number `position`.
    history: VecDeque<ObjectKey>,
    uids: u64,
}

impl MemoryCatalog {
    /// An empty catalog with the default limits.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_config(clock, MemoryCatalogConfig::default())
    }

    /// An empty catalog.
    pub fn with_config(clock: Arc<dyn Clock>, config: MemoryCatalogConfig) -> Self {
        Self {
            clock,
            config,
            state: Arc::default(),
            tick: Tick::default(),
        }
    }

    /// Forgets the changes so far, as a store does that keeps them for a while: a watch from a
    /// position before now is `Expired`, and so are the watches that are behind.
    pub fn forget_history(&self) {
        lock(&self.state).history.clear();
    }

    /// Runs one change. `work` answers what the caller gets, and changes nothing where it fails.
    fn change<T>(&self, work: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let (answer, moved) = {
            let mut state = lock(&self.state);
            let before = state.position;
            let answer = work(&mut state);
            while state.history.len() > self.config.history {
                state.history.pop_front();
            }
            (answer, state.position != before)
        };
        if moved {
            self.tick.tell();
        }
        answer.map_err(|error| error.at(BACKEND))
    }

    fn new_uid(&self, state: &mut State) -> Uid {
        state.uids += 1;
        match self.config.uid_seed {
            None => Uid::random(),
            Some(seed) => {
                let bits = u128::from(seed) << 64 | u128::from(state.uids);
                Uid::new(
                    uuid::Builder::from_custom_bytes(bits.to_be_bytes())
                        .into_uuid()
                        .to_string(),
                )
            }
        }
    }
}

impl Default for MemoryCatalog {
    /// An empty catalog on the system's clock.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock))
    }
}

impl State {
    /// Counts a change of this object.
    fn record(&mut self, key: &ObjectKey) -> Version {
        self.position += 1;
        self.history.push_back(key.clone());
        version(self.position)
    }

    /// The object that `given` is a newer form of.
    fn current(&self, given: &Object) -> Result<&Object> {
        let key = given.key();
        let current = self
            .objects
            .get(&key)
            .ok_or_else(|| object_not_found(&key))?;
        if current.metadata().uid != given.metadata().uid {
            return Err(Error::not_found(format!(
                "{key} with uid {:?} is not there: it was deleted, and another one created",
                given.metadata().uid.as_str()
            ))
            .on(key));
        }
        Ok(current)
    }

    /// Refuses a form of an object that was not made from the one that is there.
    fn fresh(&self, given: &Object) -> Result<Object> {
        let current = self.current(given)?;
        if current.metadata().version != given.metadata().version {
            let key = given.key();
            return Err(Error::conflict(format!("{key} changed since it was read")).on(key));
        }
        Ok(current.clone())
    }

    /// Stores a changed object, or lets it go where nothing holds it any more.
    fn store(&mut self, mut object: Object) -> Object {
        let key = object.key();
        object.metadata_mut().version = self.record(&key);
        if object.metadata().is_deleting() && object.metadata().finalizers.is_empty() {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, object.clone());
        }
        object
    }
}

fn version(position: u64) -> Version {
    Version::new(position.to_string())
}

fn without_status(object: &mut Object) {
    match object {
        Object::Function(function) => function.status = FunctionStatus::default(),
        Object::Trigger(trigger) => trigger.status = TriggerStatus::default(),
        Object::FunctionJob(job) => job.status = JobStatus::default(),
    }
}

#[async_trait]
impl Catalog for MemoryCatalog {
    async fn create(&self, mut object: Object) -> Result<Object> {
        let key = object.key();
        object.validate().map_err(|error| error.at(BACKEND))?;
        let now = self.clock.now();
        self.change(|state| {
            if !state.namespaces.contains(&key.namespace) {
                let message = format!("namespace {} does not exist", key.namespace);
                return Err(Error::not_found(message)
                    .with_reason("namespace_missing")
                    .on(&key));
            }
            if state.objects.contains_key(&key) {
                return Err(Error::new(ErrorKind::AlreadyExists, format!("{key} exists")).on(&key));
            }
            if state.objects.len() >= self.config.objects {
                return Err(Error::limit("objects", self.config.objects, ""));
            }
            without_status(&mut object);
            let uid = self.new_uid(state);
            let metadata = object.metadata_mut();
            metadata.uid = uid;
            metadata.generation = 1;
            metadata.created_at = now;
            metadata.deleted_at = None;
            Ok(state.store(object))
        })
    }

    async fn get(&self, key: &ObjectKey) -> Result<Object> {
        let found = lock(&self.state).objects.get(key).cloned();
        found.ok_or_else(|| object_not_found(key).at(BACKEND))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Object>> {
        let first = Bound::Included(first_key(query)?);
        let from = match query.cursor.as_deref() {
            None => first,
            Some(cursor) => Bound::Excluded(read_cursor(query, cursor)?),
        };
        let limit = query.limit.clamp(1, ListQuery::LIMIT_MAX);
        let meant = |key: &ObjectKey| {
            key.kind == query.kind
                && query
                    .namespace
                    .as_ref()
                    .is_none_or(|namespace| *namespace == key.namespace)
        };
        let state = lock(&self.state);
        let mut rest = state
            .objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| meant(key));
        let items: Vec<_> = rest
            .by_ref()
            .take(limit)
            .map(|(_, object)| object.clone())
            .collect();
        let last = items.last().filter(|_| rest.next().is_some());
        Ok(Page {
            next: last.map(|object| {
                let key = object.key();
                format!("{}/{}", key.namespace, key.name)
            }),
            items,
            position: version(state.position),
        })
    }

    async fn update(&self, object: Object) -> Result<Object> {
        self.change(|state| {
            // What is not changed is not checked, so that what an older version let in can still be
            // labelled, finalized and deleted.
            if !object.same_spec(state.current(&object)?) {
                object.validate()?;
            }
            let before = state.fresh(&object)?;
            let mut after = object;
            let given = after.metadata().clone();
            after.take_status_of(before.clone())?;
            let metadata = after.metadata_mut();
            *metadata = before.metadata().clone();
            metadata.labels = given.labels;
            metadata.annotations = given.annotations;
            metadata.finalizers = given.finalizers;
            if !after.same_spec(&before) {
                after.metadata_mut().generation += 1;
            }
            if after == before {
                return Ok(before);
            }
            Ok(state.store(after))
        })
    }

    async fn update_status(&self, object: Object) -> Result<Object> {
        self.change(|state| {
            let before = state.fresh(&object)?;
            if before.same_status(&object) {
                return Ok(before);
            }
            let mut after = before;
            after.take_status_of(object)?;
            Ok(state.store(after))
        })
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object> {
        let now = self.clock.now();
        self.change(|state| {
            let mut object = state
                .objects
                .get(key)
                .cloned()
                .ok_or_else(|| object_not_found(key))?;
            if options
                .uid
                .as_ref()
                .is_some_and(|uid| *uid != object.metadata().uid)
            {
                return Err(Error::conflict(format!("{key} is another one now")).on(key));
            }
            if object.metadata().is_deleting() {
                return Ok(object);
            }
            object.metadata_mut().deleted_at = Some(now);
            Ok(state.store(object))
        })
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
        let tick = self.tick.subscribe();
        let next = match &options.from {
            None => lock(&self.state).position,
            Some(from) => from.as_str().parse().map_err(|_| expired())?,
        };
        let mut watcher = Watcher {
            state: Arc::clone(&self.state),
            tick,
            seen: next,
            batch: VecDeque::new(),
            caught_up: false,
            ended: false,
        };
        // A position that is too old is an error of this call rather than of the first item.
        watcher.fill()?;
        Ok(futures::stream::unfold(watcher, |mut watcher| async {
            let item = watcher.next().await?;
            Some((item, watcher))
        })
        .boxed())
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let made = lock(&self.state).namespaces.insert(namespace.clone());
        Ok(if made {
            Ensured::Created
        } else {
            Ensured::Exists
        })
    }
}

/// The smallest key that a query can mean: no label is smaller than "0".
fn first_key(query: &ListQuery) -> Result<ObjectKey> {
    let namespace = match &query.namespace {
        Some(namespace) => namespace.clone(),
        None => Namespace::new("0")?,
    };
    Ok(ObjectKey::new(query.kind, namespace, Name::new("0")?))
}

fn read_cursor(query: &ListQuery, cursor: &str) -> Result<ObjectKey> {
    let refused = || {
        Error::invalid("the cursor is not one that a listing gave")
            .with_reason("cursor_invalid")
            .at(BACKEND)
    };
    let (namespace, name) = cursor.split_once('/').ok_or_else(refused)?;
    let namespace = Namespace::new(namespace).map_err(|_| refused())?;
    let name = Name::new(name).map_err(|_| refused())?;
    Ok(ObjectKey::new(query.kind, namespace, name))
}

fn expired() -> Error {
    Error::new(
        ErrorKind::Expired,
        "the position is older than the kept history: list again",
    )
    .during("catalog.watch")
    .at(BACKEND)
}

/// How many changes a watcher takes at a time.
const BATCH: usize = 256;

struct Watcher {
    state: Arc<Mutex<State>>,
    tick: Ticks,
    /// The last change that was taken.
    seen: u64,
    batch: VecDeque<WatchEvent>,
    /// Whether the bookmark that says so was sent.
    caught_up: bool,
    ended: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<Result<WatchEvent>> {
        while !self.ended {
            if let Some(event) = self.batch.pop_front() {
                return Some(Ok(event));
            }
            self.tick.mark_seen();
            if let Err(error) = self.fill() {
                self.ended = true;
                return Some(Err(error));
            }
            if !self.batch.is_empty() {
                continue;
            }
            if !self.caught_up {
                self.caught_up = true;
                return Some(Ok(WatchEvent::Bookmark(version(self.seen))));
            }
            // The catalog may be gone.
            self.ended = !self.tick.next().await;
        }
        None
    }

    fn fill(&mut self) -> Result<()> {
        let state = lock(&self.state);
        let oldest = state.position - state.history.len() as u64;
        if self.seen < oldest || self.seen > state.position {
            return Err(expired());
        }
        let from = usize::try_from(self.seen - oldest).unwrap_or(usize::MAX);
        for key in state.history.iter().skip(from).take(BATCH) {
            self.seen += 1;
            let position = version(self.seen);
            self.batch.push_back(WatchEvent::Changed {
                key: key.clone(),
                position,
            });
        }
        Ok(())
    }
}
