//! What backends keep that no object of the catalog explains.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt as _, TryStreamExt as _};

use super::{
    Backends,
    sweep::{FOLDERS, owner},
};
use crate::{
    Error, ErrorKind, Held, HeldStream, Kind, ListQuery, Result, Uid, resource::ObjectKey,
};

/// Objects that are listed at once: only their keys are kept.
const PAGE: usize = 100;

/// What [`Backends::orphans`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphans {
    /// What is there for nobody, by kind and name.
    pub items: Vec<Held>,
    /// What could not be looked at, a sentence each, since a backend cannot list it.
    pub unlisted: Vec<String>,
    /// Whether there are more than [`Orphans::MOST`], of which these are some.
    pub more: bool,
}

impl Orphans {
    /// The most that are told at once.
    pub const MOST: usize = 10_000;
}

/// What the catalog holds.
#[derive(Default)]
struct Wanted {
    uids: HashMap<ObjectKey, Uid>,
    known: HashSet<Uid>,
}

impl Wanted {
    /// Whether an object of the catalog is what this was made for, as far as the backend knows that.
    fn explains(&self, held: &Held) -> bool {
        match (&held.owner, &held.uid) {
            (Some(owner), Some(uid)) => self.uids.get(owner) == Some(uid),
            (Some(owner), None) => self.uids.contains_key(owner),
            (None, Some(uid)) => self.known.contains(uid),
            (None, None) => false,
        }
    }
}

impl Backends {
    /// Looks for what is kept for objects that are not in the catalog: after a crash at a bad moment, a
    /// restored catalog, or other hands. Changes nothing.
    ///
    /// What is made or removed meanwhile is not reported: an orphan was there at two looks, and no object
    /// was there for it at two. Only owners in namespaces that begin with `prefix` are looked at, since
    /// others may have backends in common with this catalog; an empty one is all.
    ///
    /// # Errors
    /// What catalog and backends say; that a backend cannot list something is in the answer.
    pub async fn orphans(&self, prefix: &str) -> Result<Orphans> {
        let mut found = Orphans::default();
        let wanted = self.wanted().await?;
        let mut candidates = Vec::new();
        let ours = |held: &Held| {
            let owner = held.owner.as_ref();
            owner.is_none_or(|owner| owner.namespace.as_str().starts_with(prefix))
        };
        self.look(&mut found.unlisted, |held| {
            if !ours(&held) || wanted.explains(&held) {
                return true;
            }
            found.more = candidates.len() >= Orphans::MOST;
            if !found.more {
                candidates.push(held);
            }
            !found.more
        })
        .await?;
        if candidates.is_empty() {
            return Ok(found);
        }
        let wanted = self.wanted().await?;
        candidates.retain(|held| !wanted.explains(held));
        let mut still = HashSet::new();
        let place = |held: &Held| (held.backend.clone(), held.kind.clone(), held.name.clone());
        self.look(&mut Vec::new(), |held| {
            if !wanted.explains(&held) {
                still.insert(place(&held));
            }
            true
        })
        .await?;
        candidates.retain(|held| still.contains(&place(held)));
        candidates.sort_by(|one, other| (&one.kind, &one.name).cmp(&(&other.kind, &other.name)));
        found.items = candidates;
        Ok(found)
    }

    async fn wanted(&self) -> Result<Wanted> {
        let mut wanted = Wanted::default();
        for kind in Kind::ALL {
            let mut query = ListQuery::all(kind).with_limit(PAGE);
            loop {
                let page = self.catalog.list(&query).await?;
                for object in &page.items {
                    let uid = &object.metadata().uid;
                    wanted.known.insert(uid.clone());
                    wanted.uids.insert(object.key(), uid.clone());
                }
                if page.next.is_none() {
                    break;
                }
                query.cursor = page.next;
            }
        }
        Ok(wanted)
    }

    /// Goes through all that is kept, as long as `see` says so.
    async fn look(
        &self,
        unlisted: &mut Vec<String>,
        mut see: impl FnMut(Held) -> bool,
    ) -> Result<()> {
        let mut kept = vec![self.scheduler.held(), self.dispatcher.held()];
        kept.extend(self.builders.iter().map(|builder| builder.held()));
        kept.extend(FOLDERS.map(|(folder, kind)| self.stored(folder, kind)));
        for mut some in kept {
            while let Some(held) = some.next().await {
                match held {
                    Ok(held) => {
                        if !see(held) {
                            return Ok(());
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::Unsupported => {
                        let sentence = told(&error);
                        if !unlisted.contains(&sentence) {
                            unlisted.push(sentence);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn stored(&self, folder: &str, kind: &'static str) -> HeldStream {
        let objects = self.storage.list(&format!("{folder}/"));
        objects
            .map_ok(move |object| {
                let mut held = Held::new(kind, object.key.as_str(), "storage");
                held.since = Some(object.modified_at);
                held.owner = owner(&object.key)
                    .map(|(namespace, name)| ObjectKey::new(Kind::Function, namespace, name));
                held
            })
            .boxed()
    }
}

fn told(error: &Error) -> String {
    let (backend, message) = (error.backend(), error.message());
    if backend.is_empty() {
        return message.to_owned();
    }
    format!("{backend}: {message}")
}
