//! Stored sources: which of a function's are dropped, and what is left of functions that are gone.

use std::time::Duration;

use futures::TryStreamExt as _;

use super::{Engine, leadership::Post};
use crate::{CatalogExt as _, Function, Name, Namespace, Receipt, Result, StorageKey};

/// Where sources are stored, and what a receipt calls them.
pub(super) const FOLDERS: [(&str, &str); 2] = [
    ("contexts", "stored_context"),
    ("functions", "stored_source"),
];

impl Engine {
    /// Now and then removes stored sources whose function is not there. Deleting a function removes
    /// them; an upload that was under way meanwhile, in a process that crashed then, leaves what
    /// nobody knows of.
    pub(super) async fn sweep(&self, every: Duration) {
        loop {
            self.backends.clock.sleep(every).await;
            if !self.leads(Post::Operator) {
                continue;
            }
            if let Err(error) = self.sweep_once(every).await {
                tracing::warn!(error = %error.chain(), "left sources were not looked for; the next time covers");
            }
        }
    }

    async fn sweep_once(&self, every: Duration) -> Result<()> {
        let storage = &self.backends.storage;
        let old = jiff::SignedDuration::try_from(every).unwrap_or_default();
        // A listing is in order, so that what is known of the last owner is enough.
        let mut last: Option<((Namespace, Name), bool)> = None;
        for (folder, _) in FOLDERS {
            let mut objects = storage.list(&format!("{folder}/"));
            while let Some(object) = objects.try_next().await? {
                // A younger one may belong to an upload that its function is yet to be told of.
                let age = self.backends.clock.now().duration_since(object.modified_at);
                let Some(owner) = owner(&object.key).filter(|_| age > old) else {
                    continue;
                };
                let gone = match &last {
                    Some((known, gone)) if *known == owner => *gone,
                    _ => {
                        let (namespace, name) = &owner;
                        let found: Option<Function> =
                            self.backends.catalog.find(namespace, name).await?;
                        last = Some((owner, found.is_none()));
                        found.is_none()
                    }
                };
                if gone {
                    storage.delete(&object.key).await?;
                    tracing::info!(key = %object.key, "a source was removed whose function is gone");
                }
            }
        }
        Ok(())
    }

    /// Removes the stored sources and contexts of a function, except the newest `kept` and the one in
    /// use.
    pub(super) async fn drop_sources(
        &self,
        namespace: &Namespace,
        name: &Name,
        kept: usize,
        in_use: Option<&str>,
    ) -> Result<Receipt> {
        let storage = &self.backends.storage;
        let mut receipt = Receipt::default();
        for (folder, kind) in FOLDERS {
            let listed = storage.list(&format!("{folder}/{namespace}/{name}/"));
            let mut keys: Vec<StorageKey> =
                listed.map_ok(|object| object.key).try_collect().await?;
            // Keys end in the time of the upload, so the newest sort last.
            keys.sort();
            keys.truncate(keys.len().saturating_sub(kept));
            for key in keys {
                let context = StorageKey::new(in_use.unwrap_or("none"))?;
                if key == context
                    || context
                        .source_of_context()
                        .is_ok_and(|source| source == key)
                {
                    continue;
                }
                storage.delete(&key).await?;
                receipt.add(kind, key.as_str(), "storage");
            }
        }
        Ok(receipt)
    }
}

/// The function whose source this is, by its key `{folder}/{namespace}/{name}/{stamp}`.
pub(super) fn owner(key: &StorageKey) -> Option<(Namespace, Name)> {
    let mut segments = key.as_str().split('/').skip(1);
    let (namespace, name) = (segments.next()?, segments.next()?);
    segments.next()?;
    Some((Namespace::new(namespace).ok()?, Name::new(name).ok()?))
}
