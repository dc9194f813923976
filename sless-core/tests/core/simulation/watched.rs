//! The catalog and the dispatcher, with somebody who looks on.

use std::sync::Arc;

use async_trait::async_trait;
use sless_core::{
    Catalog, ChangeStream, DeadLetterPage, DeadLetterQuery, DeadLetterSelection, DeleteOptions,
    Dispatcher, Ensured, EventSink, HeldStream, ListQuery, Namespace, Object, ObjectKey, Page,
    Receipt, Result, Subscription, SubscriptionStatus, TriggerId, WatchOptions, WatchStream,
    memory::{MemoryCatalog, MemoryDispatcher},
};

use super::seen::Seen;

#[derive(Debug)]
pub(super) struct Watched<T> {
    pub(super) inner: Arc<T>,
    pub(super) seen: Arc<Seen>,
}

impl Watched<MemoryCatalog> {
    fn told(&self, what: &str, key: &ObjectKey, answer: Result<Object>) -> Result<Object> {
        match &answer {
            Ok(object) => {
                let version = object.metadata().version.as_str();
                self.seen
                    .note(format_args!("{what} {key}: version {version}"));
                self.look_at_job(object);
            }
            Err(error) => {
                let kind = error.kind();
                self.seen.note(format_args!("{what} {key}: {kind:?}"));
            }
        }
        answer
    }

    /// A run that has ended once stays as it ended.
    fn look_at_job(&self, object: &Object) {
        let Object::FunctionJob(job) = object else {
            return;
        };
        let status = &job.status;
        if !status.phase.is_terminal() || status.run_id == 0 {
            return;
        }
        let run = (job.metadata.uid.clone(), status.run_id);
        let mut state = self.seen.state();
        let before = *state.ends.entry(run).or_insert(status.phase);
        if before != status.phase {
            let (name, run, now) = (&job.metadata.name, status.run_id, status.phase);
            let broken = format!("run {run} of job {name} ended twice: {before:?}, {now:?}");
            state.broken.push(broken);
        }
    }
}

#[async_trait]
impl Catalog for Watched<MemoryCatalog> {
    async fn create(&self, object: Object) -> Result<Object> {
        let key = object.key();
        self.told("create", &key, self.inner.create(object).await)
    }

    async fn get(&self, key: &ObjectKey) -> Result<Object> {
        self.inner.get(key).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Object>> {
        self.inner.list(query).await
    }

    async fn update(&self, object: Object) -> Result<Object> {
        let key = object.key();
        self.told("update", &key, self.inner.update(object).await)
    }

    async fn update_status(&self, object: Object) -> Result<Object> {
        let key = object.key();
        self.told("status", &key, self.inner.update_status(object).await)
    }

    async fn delete(&self, key: &ObjectKey, options: &DeleteOptions) -> Result<Object> {
        self.told("delete", key, self.inner.delete(key, options).await)
    }

    async fn watch(&self, options: &WatchOptions) -> Result<WatchStream> {
        self.inner.watch(options).await
    }

    async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        self.inner.ensure_namespace(namespace).await
    }
}

impl Watched<MemoryDispatcher> {
    /// Takes note of the dead letters of a trigger.
    pub(super) async fn look_at_letters(&self, trigger: &TriggerId) {
        let query = DeadLetterQuery::first(1_000);
        let page = self.inner.dead_letters(trigger, &query).await.unwrap();
        let mut state = self.seen.state();
        let ids = page.items.into_iter().map(|letter| letter.message.id);
        state.dead.extend(ids);
    }
}

#[async_trait]
impl Dispatcher for Watched<MemoryDispatcher> {
    async fn apply(
        &self,
        subscription: &Subscription,
        sink: Arc<dyn EventSink>,
    ) -> Result<SubscriptionStatus> {
        self.inner.apply(subscription, sink).await
    }

    async fn remove(&self, trigger: &TriggerId) -> Result<Receipt> {
        self.inner.remove(trigger).await
    }

    async fn forget(&self, trigger: &TriggerId) -> Result<Receipt> {
        let mut receipt = self.inner.remove(trigger).await?;
        // They go with their trigger, as was asked for.
        self.look_at_letters(trigger).await;
        receipt.merge(self.inner.forget(trigger).await?);
        Ok(receipt)
    }

    async fn status(&self, trigger: &TriggerId) -> Result<Option<SubscriptionStatus>> {
        self.inner.status(trigger).await
    }

    async fn dead_letters(
        &self,
        trigger: &TriggerId,
        query: &DeadLetterQuery,
    ) -> Result<DeadLetterPage> {
        self.inner.dead_letters(trigger, query).await
    }

    async fn redrive(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        self.inner.redrive(trigger, which).await
    }

    async fn purge(&self, trigger: &TriggerId, which: &DeadLetterSelection) -> Result<u64> {
        self.inner.purge(trigger, which).await
    }

    fn changes(&self) -> ChangeStream {
        self.inner.changes()
    }

    fn held(&self) -> HeldStream {
        self.inner.held()
    }
}
