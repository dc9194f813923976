//! The loops that turn hints into reconciles.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future::BoxFuture};
use tokio::sync::Semaphore;

use super::{Engine, leadership::Post, queue::Taken};
use crate::{
    Change, ChangeStream, Kind, ListQuery, Object, Result, Version, WatchEvent, WatchOptions,
    resource::ObjectKey,
};

/// Objects that are listed at once: only their keys are kept.
const PAGE: usize = 100;

impl Engine {
    /// Starts every loop that this process's roles ask for.
    pub(super) fn start(self: &Arc<Self>, records: super::record::RecordQueue) {
        self.spawn(|engine| Box::pin(async move { engine.follow_catalog().await }));
        if let Some(log) = self.backends.invocations.clone() {
            let (recorder, options) = (self.recorder.clone(), self.options.clone());
            // After the calls: their records are the last to be written.
            let stop = self.recorded.clone();
            self.recording.spawn(async move {
                records.store(recorder, log, options, stop).await;
            });
            self.recording.close();
        }
        if !self.reconciles() {
            return;
        }
        self.spawn(|engine| Box::pin(async move { engine.work().await }));
        self.spawn(|engine| Box::pin(async move { engine.resync().await }));
        if self.backends.lease.is_some() {
            for post in [Post::Operator, Post::Dispatcher] {
                if self.takes_on(post) {
                    self.spawn(move |engine| Box::pin(async move { engine.keep_post(post).await }));
                }
            }
        }
        let mut streams = vec![
            self.backends.scheduler.changes(),
            self.backends.dispatcher.changes(),
        ];
        streams.extend(
            self.backends
                .builders
                .iter()
                .map(|builder| builder.changes()),
        );
        for stream in streams {
            self.spawn(|engine| Box::pin(async move { engine.follow(stream).await }));
        }
        if self.options.roles.operator {
            self.spawn(|engine| Box::pin(async move { engine.keep_time().await }));
            if let Some(every) = self.options.sweep {
                self.spawn(move |engine| Box::pin(async move { engine.sweep(every).await }));
            }
        }
    }

    /// Runs a loop until it ends or the engine shuts down.
    fn spawn(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> BoxFuture<'static, ()>) {
        let work = work(self.clone());
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                // Once it is to end, a loop begins nothing more.
                biased;
                () = stop.cancelled() => {}
                () = work => {}
            }
        });
    }

    const fn reconciles(&self) -> bool {
        self.options.roles.operator || self.options.roles.dispatcher
    }

    /// Asks for a reconcile of this key, now.
    pub(super) fn wake(&self, key: ObjectKey) {
        if self.reconciles() {
            self.queue.add(key, self.backends.clock.elapsed());
        }
    }

    /// Asks for a reconcile of what speaks of a function.
    pub(super) fn wake_dependents(&self, function: &ObjectKey) {
        for key in self.index.dependents(&function.namespace, &function.name) {
            self.wake(key);
        }
    }

    /// Takes keys off the queue and works on them, several at once.
    async fn work(self: Arc<Self>) {
        let places = Arc::new(Semaphore::new(self.options.reconciles_at_once.max(1)));
        loop {
            // A semaphore that is never closed always gives a permit.
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let key = self.next_key().await;
            let engine = self.clone();
            // Tracked, and not cut off by a shutdown: what has begun is finished within the drain.
            self.tasks.spawn(async move {
                engine.work_on(key).await;
                drop(place);
            });
        }
    }

    async fn next_key(&self) -> ObjectKey {
        loop {
            let now = self.backends.clock.elapsed();
            match self.queue.take(now) {
                Taken::Key(key) => return key,
                Taken::Nothing => self.queue.changed().await,
                Taken::NotBefore(at) => tokio::select! {
                    biased;
                    () = self.queue.changed() => {}
                    () = self.backends.clock.sleep(at.saturating_sub(now)) => {}
                },
            }
        }
    }

    async fn work_on(self: &Arc<Self>, key: ObjectKey) {
        let reconciled = match key.kind {
            Kind::Function if self.leads(Post::Operator) => self.reconcile_function(&key).await,
            Kind::FunctionJob if self.leads(Post::Operator) => self.reconcile_job(&key).await,
            Kind::Trigger => self.reconcile_trigger(&key).await,
            _ => Ok(None),
        };
        let now = self.backends.clock.elapsed();
        let next = match reconciled {
            Ok(next) => {
                self.queue.succeeded(&key);
                next.map(|delay| now + delay)
            }
            // Somebody else wrote in between: read again at once.
            Err(error) if error.is_conflict() && self.queue.failed(&key) <= 3 => Some(now),
            Err(error) => {
                let failures = self.queue.failed(&key);
                let (min, max) = (self.options.backoff_min, self.options.backoff_max);
                let delay = super::backoff(min, max, failures);
                tracing::warn!(object = %key, error = %error.chain(), failures, ?delay, "reconcile failed");
                Some(now + delay)
            }
        };
        self.queue.done(key, next);
    }

    /// Follows the catalog: everything once, and then every change, for ever.
    async fn follow_catalog(&self) {
        let mut failures = 0;
        loop {
            let Err(error) = self.follow_once(&mut failures).await else {
                continue;
            };
            self.routes.clear();
            failures += 1;
            let (min, max) = (self.options.backoff_min, self.options.backoff_max);
            let delay = super::backoff(min, max, failures);
            tracing::warn!(error = %error.chain(), ?delay, "the catalog cannot be followed");
            self.backends.clock.sleep(delay).await;
        }
    }

    async fn follow_once(&self, failures: &mut u32) -> Result<()> {
        // The first page's position is the oldest: a change during the listing is hinted again.
        let position = self.look_at_everything().await?;
        let options = WatchOptions::default().from_position(position);
        let mut watch = self.backends.catalog.watch(&options).await?;
        self.follows.send_replace(true);
        *failures = 0;
        while let Some(event) = watch.next().await {
            if let WatchEvent::Changed { key, .. } = event? {
                if key.kind == Kind::Function {
                    self.routes.forget(&key.namespace, &key.name);
                    self.wake_dependents(&key);
                }
                self.wake(key);
            }
        }
        Ok(())
    }

    /// Asks for a reconcile of every object, and answers the position from before.
    pub(super) async fn look_at_everything(&self) -> Result<Version> {
        let mut first = None;
        let mut keys = Vec::new();
        for kind in [Kind::Trigger, Kind::FunctionJob, Kind::Function] {
            if kind == Kind::Function && !self.reconciles() && first.is_some() {
                break;
            }
            let mut query = ListQuery::all(kind).with_limit(PAGE);
            loop {
                let page = self.backends.catalog.list(&query).await?;
                first.get_or_insert(page.position);
                for object in &page.items {
                    self.index.put(object);
                }
                keys.extend(page.items.iter().map(Object::key));
                if page.next.is_none() {
                    break;
                }
                query.cursor = page.next;
            }
        }
        self.routes.clear();
        for key in keys {
            self.wake(key);
        }
        Ok(first.unwrap_or_default())
    }

    /// Follows the hints of a backend until it ends.
    async fn follow(&self, mut changes: ChangeStream) {
        while let Some(change) = changes.next().await {
            match change {
                Change::Object(key) => self.wake(key),
                Change::All => {
                    if let Err(error) = self.look_at_everything().await {
                        tracing::warn!(error = %error.chain(), "hints were lost; the resync covers");
                    }
                }
            }
        }
    }

    /// Looks at everything now and then, whatever was hinted.
    async fn resync(&self) {
        loop {
            self.backends.clock.sleep(self.options.resync).await;
            if let Err(error) = self.look_at_everything().await {
                tracing::warn!(error = %error.chain(), "the resync failed; the next one covers");
            }
        }
    }
}

/// The delay after so many failures in a row: doubled each time, within bounds.
pub(super) fn backoff(min: Duration, max: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(30);
    min.saturating_mul(1 << doublings).min(max)
}
