//! The watches: one for each kind of object, over all namespaces, on the label of what is made here.

use std::{
    collections::HashSet,
    fmt::Debug,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    StreamExt as _,
    future::{BoxFuture, join_all},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        batch::v1::{CronJob, Job},
        core::v1::{Pod, Service},
        networking::v1::{Ingress, NetworkPolicy},
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use serde::de::DeserializeOwned;
use sless_core::{JobId, ObjectKey, Uid};
use tokio::sync::watch;

use super::{Cache, function_of, lean::Lean, place};
use crate::{
    labels,
    scheduler::{keda::HttpScaledObject, manifest::POLICIES},
};

/// An object that a cache keeps.
trait Kept:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + 'static
{
    /// What a listing remembers of it.
    type Mark: Eq + Hash + Send;

    fn mark(&self) -> Option<Self::Mark>;
    fn put(&self, cache: &Cache);
    fn remove(&self, cache: &Cache);
    fn retain(cache: &Cache, seen: &HashSet<Self::Mark>, since: Instant);
}

/// Objects that are listed at once: each takes many times the memory of what is kept of it, until it is read.
const PAGE: u32 = 50;

/// What is watched beside what always is.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduler) struct Watched {
    /// CronJobs.
    pub(in crate::scheduler) crons: bool,
    /// What KEDA scales by.
    pub(in crate::scheduler) scaled: bool,
}

impl Watched {
    /// How many watches there are.
    pub(in crate::scheduler) const fn count(self) -> usize {
        6 + self.crons as usize + self.scaled as usize
    }
}

/// Watches everything, until it is dropped. `ready` counts the watches that have seen all there was.
pub(in crate::scheduler) async fn watch_all(
    client: Client,
    cache: Arc<Cache>,
    resync: Duration,
    watched: Watched,
    ready: watch::Sender<usize>,
) {
    let ready = &ready;
    let mut all: Vec<BoxFuture<'_, ()>> = vec![
        Box::pin(watch_one::<Deployment>(&client, &cache, resync, ready)),
        Box::pin(watch_one::<Pod>(&client, &cache, resync, ready)),
        Box::pin(watch_one::<Job>(&client, &cache, resync, ready)),
        Box::pin(watch_one::<Service>(&client, &cache, resync, ready)),
        Box::pin(watch_one::<Ingress>(&client, &cache, resync, ready)),
        Box::pin(watch_one::<NetworkPolicy>(&client, &cache, resync, ready)),
    ];
    if watched.crons {
        all.push(Box::pin(watch_one::<CronJob>(
            &client, &cache, resync, ready,
        )));
    }
    if watched.scaled {
        let scaled = watch_one::<HttpScaledObject>(&client, &cache, resync, ready);
        all.push(Box::pin(scaled));
    }
    join_all(all).await;
}

async fn watch_one<K: Kept>(
    client: &Client,
    cache: &Cache,
    resync: Duration,
    ready: &watch::Sender<usize>,
) where
    Lean<K>: DeserializeOwned,
{
    let mut first = true;
    loop {
        let api: Api<Lean<K>> = Api::all(client.clone());
        let config = watcher::Config::default()
            .labels(labels::SELECTOR)
            .page_size(PAGE);
        let mut events = watcher(api, config).default_backoff().boxed();
        let until = tokio::time::Instant::now() + resync;
        let mut listing = (HashSet::new(), Instant::now());
        loop {
            // Listed anew from time to time, so that nothing that a watch loses is lost for long.
            let Ok(event) = tokio::time::timeout_at(until, events.next()).await else {
                break;
            };
            match event {
                None => break,
                Some(Err(error)) => {
                    tracing::warn!(kind = %K::kind(&()), %error, "a watch broke off; it is taken up again");
                }
                Some(Ok(watcher::Event::Init)) => listing = (HashSet::new(), Instant::now()),
                Some(Ok(watcher::Event::InitApply(Lean(object)))) => {
                    listing.0.extend(object.mark());
                    object.put(cache);
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    K::retain(cache, &listing.0, listing.1);
                    listing.0 = HashSet::new();
                    if std::mem::take(&mut first) {
                        ready.send_modify(|count| *count += 1);
                    }
                }
                Some(Ok(watcher::Event::Apply(Lean(object)))) => object.put(cache),
                Some(Ok(watcher::Event::Delete(Lean(object)))) => object.remove(cache),
            }
        }
    }
}

fn owner<K: Resource>(object: &K) -> Option<(ObjectKey, Uid)> {
    labels::owner(object.meta().labels.as_ref()?)
}

impl Kept for Deployment {
    type Mark = Uid;

    fn mark(&self) -> Option<Uid> {
        owner(self).map(|(_, uid)| uid)
    }

    fn put(&self, cache: &Cache) {
        cache.put_deployment(self, false);
    }

    fn remove(&self, cache: &Cache) {
        let Some((key, uid)) = owner(self) else {
            return;
        };
        let gone = self.uid();
        cache.change(&function_of(key, uid), |view| {
            if view.deleted == gone {
                view.deleted = None;
            }
            // Another one of the same name may be there by now.
            let same = view
                .deployment
                .as_ref()
                .is_some_and(|known| Some(&known.uid) == gone.as_ref());
            same && view.deployment.take().is_some()
        });
    }

    fn retain(cache: &Cache, seen: &HashSet<Uid>, since: Instant) {
        cache.retain_deployments(seen, since);
    }
}

impl Kept for Service {
    type Mark = Uid;

    fn mark(&self) -> Option<Uid> {
        owner(self).map(|(_, uid)| uid)
    }

    fn put(&self, cache: &Cache) {
        cache.put_service(self);
    }

    fn remove(&self, cache: &Cache) {
        if let Some((key, uid)) = owner(self) {
            cache.forget_service(&function_of(key, uid));
        }
    }

    fn retain(cache: &Cache, seen: &HashSet<Uid>, _since: Instant) {
        cache.retain_services(seen);
    }
}

impl Kept for Ingress {
    type Mark = Uid;

    fn mark(&self) -> Option<Uid> {
        owner(self).map(|(_, uid)| uid)
    }

    fn put(&self, cache: &Cache) {
        cache.put_ingress(self);
    }

    fn remove(&self, cache: &Cache) {
        if let Some((key, uid)) = owner(self) {
            cache.forget_ingress(&function_of(key, uid));
        }
    }

    fn retain(cache: &Cache, seen: &HashSet<Uid>, _since: Instant) {
        cache.retain_ingresses(seen);
    }
}

impl Kept for HttpScaledObject {
    type Mark = Uid;

    fn mark(&self) -> Option<Uid> {
        owner(self).map(|(_, uid)| uid)
    }

    fn put(&self, cache: &Cache) {
        cache.put_scaled(self);
    }

    fn remove(&self, cache: &Cache) {
        if let Some((key, uid)) = owner(self) {
            cache.forget_scaled(&function_of(key, uid));
        }
    }

    fn retain(cache: &Cache, seen: &HashSet<Uid>, _since: Instant) {
        cache.retain_scaled(seen);
    }
}

impl Kept for CronJob {
    type Mark = Uid;

    fn mark(&self) -> Option<Uid> {
        owner(self).map(|(_, uid)| uid)
    }

    fn put(&self, cache: &Cache) {
        cache.put_cron(self);
    }

    fn remove(&self, cache: &Cache) {
        if let Some((_, uid)) = owner(self) {
            cache.forget_cron(&uid);
        }
    }

    fn retain(cache: &Cache, seen: &HashSet<Uid>, _since: Instant) {
        cache.retain_crons(seen);
    }
}

impl Kept for Pod {
    type Mark = String;

    fn mark(&self) -> Option<String> {
        self.uid()
    }

    fn put(&self, cache: &Cache) {
        cache.put_pod(self);
    }

    fn remove(&self, cache: &Cache) {
        cache.remove_pod(owner(self), &self.name_any());
    }

    fn retain(cache: &Cache, seen: &HashSet<String>, _since: Instant) {
        cache.retain_pods(seen);
    }
}

impl Kept for Job {
    type Mark = String;

    fn mark(&self) -> Option<String> {
        self.uid()
    }

    fn put(&self, cache: &Cache) {
        cache.put_job(self, false);
    }

    fn remove(&self, cache: &Cache) {
        if let Some((
            ObjectKey {
                namespace, name, ..
            },
            uid,
        )) = owner(self)
        {
            cache.forget_run(
                &JobId {
                    namespace,
                    name,
                    uid,
                },
                &self.name_any(),
            );
        }
    }

    fn retain(cache: &Cache, seen: &HashSet<String>, since: Instant) {
        cache.retain_runs(seen, since);
    }
}

impl Kept for NetworkPolicy {
    type Mark = (String, String);

    fn mark(&self) -> Option<Self::Mark> {
        let place = place(self);
        POLICIES.contains(&&*place.1).then_some(place)
    }

    fn put(&self, cache: &Cache) {
        cache.put_policy(self);
    }

    fn remove(&self, cache: &Cache) {
        if let Some(place) = self.mark() {
            cache.policies().remove(&place);
        }
    }

    fn retain(cache: &Cache, seen: &HashSet<Self::Mark>, _since: Instant) {
        cache.policies().retain(|place, _| seen.contains(place));
    }
}
