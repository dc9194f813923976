//! What this process knows of the cluster: the newest of each object, kept up to date by watches.
//!
//! Reads are answered from here, so that a call and a look at rest cost no request. What this process
//! writes is put in at once; a watch that lags behind does not take it back.

mod cron;
mod entry;
mod lean;
mod view;
mod watch;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Instant,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{Pod, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kube::ResourceExt as _;
use sless_core::{Changes, FunctionId, JobId, Kind, ObjectKey, Uid};

use cron::Crons;
pub(super) use entry::{FunctionEntry, JobEntry};
pub(super) use view::{DeploymentView, PodView, RunView, ServiceView, Text, View};
pub(super) use watch::{Watched, watch_all};

use super::{
    config::ServiceKind,
    keda::HttpScaledObject,
    manifest::{self, POLICIES},
};
use crate::labels;

/// Functions and jobs by uid.
#[derive(Debug, Default)]
pub(super) struct Cache {
    functions: RwLock<HashMap<Uid, Arc<FunctionEntry>>>,
    jobs: RwLock<HashMap<Uid, Arc<JobEntry>>>,
    crons: Crons,
    /// Our policies in each namespace of workloads.
    policies: Mutex<HashMap<Place, Text>>,
    /// The Services that there are to be.
    pub(super) services: ServiceKind,
    pub(super) changes: Changes,
}

/// Namespace and name, in the cluster.
type Place = (String, String);

fn place<K: kube::Resource>(object: &K) -> Place {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

fn function_of(key: ObjectKey, uid: Uid) -> FunctionId {
    let ObjectKey {
        namespace, name, ..
    } = key;
    FunctionId {
        namespace,
        name,
        uid,
    }
}

/// Whether one version is older than another one. The API server's versions of one object grow.
fn is_older(one: &str, other: &str) -> bool {
    let number = |version: &str| version.parse::<u128>().ok();
    matches!((number(one), number(other)), (Some(one), Some(other)) if one < other)
}

impl Cache {
    pub(super) fn new(services: ServiceKind) -> Self {
        Self {
            services,
            ..Self::default()
        }
    }

    /// The function with this uid, if anything is known of it.
    pub(super) fn function(&self, uid: &Uid) -> Option<Arc<FunctionEntry>> {
        let all = self
            .functions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        all.get(uid).cloned()
    }

    /// All functions.
    pub(super) fn functions(&self) -> Vec<Arc<FunctionEntry>> {
        let all = self
            .functions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }

    pub(super) fn job(&self, uid: &Uid) -> Option<Arc<JobEntry>> {
        let all = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        all.get(uid).cloned()
    }

    pub(super) fn policy(&self, namespace: &str, name: &str) -> Option<Text> {
        let place = (namespace.to_owned(), name.to_owned());
        self.policies().get(&place).cloned()
    }

    fn policies(&self) -> MutexGuard<'_, HashMap<Place, Text>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known of a function, and hints at it where that makes a difference.
    pub(super) fn change(&self, id: &FunctionId, change: impl FnOnce(&mut View) -> bool) {
        let (entry, changed) = {
            // The lock is held over the change, so that nobody takes the entry for empty meanwhile.
            let mut all = self
                .functions
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let make = || Arc::new(FunctionEntry::new(id.clone()));
            let entry = all.entry(id.uid.clone()).or_insert_with(make).clone();
            let changed = entry.change(change);
            if entry.view().is_empty() {
                all.remove(&id.uid);
            }
            (entry, changed)
        };
        if changed {
            self.changes.notify(entry.function.key());
        }
    }

    fn change_job(&self, id: &JobId, change: impl FnOnce(&JobEntry) -> bool) {
        let changed = {
            let mut all = self.jobs.write().unwrap_or_else(PoisonError::into_inner);
            let make = || Arc::new(JobEntry::new(id.clone()));
            let entry = all.entry(id.uid.clone()).or_insert_with(make).clone();
            let changed = change(&entry);
            if entry.is_empty() {
                all.remove(&id.uid);
            }
            changed
        };
        if changed {
            self.changes.notify(id.key());
        }
    }

    /// Takes note of a Deployment, unless something newer is known. `written` where this process wrote it.
    pub(super) fn put_deployment(&self, object: &Deployment, written: bool) {
        let Some((key, uid)) = labels::owner(object.labels()) else {
            return;
        };
        self.change(&function_of(key, uid), |view| {
            let uid = object.uid().unwrap_or_default();
            if view.deleted.as_ref() == Some(&uid) {
                return false;
            }
            let before = view.deployment.as_deref();
            let mut new = DeploymentView::of(object, before);
            if let Some(before) = before.filter(|before| before.uid == new.uid)
                && is_older(&new.resource_version, &before.resource_version)
            {
                return false;
            }
            if written {
                new.written = Some(Instant::now());
            }
            let same = before.is_some_and(|before| {
                let version = new.resource_version.clone();
                *before == new
                    || DeploymentView {
                        resource_version: version,
                        ..before.clone()
                    } == new
            });
            view.deployment = Some(Arc::new(new));
            !same
        });
    }

    /// Forgets a Deployment. What a watch still tells of it is ignored.
    pub(super) fn forget_deployment(&self, id: &FunctionId) {
        self.change(id, |view| {
            view.refused = None;
            let gone = view.deployment.take();
            if let Some(gone) = &gone {
                view.deleted = Some(gone.uid.clone());
            }
            gone.is_some()
        });
    }

    /// Forgets an Ingress.
    pub(super) fn forget_ingress(&self, id: &FunctionId) {
        self.change(id, |view| view.ingress.take().is_some());
    }

    /// Forgets a Service.
    pub(super) fn forget_service(&self, id: &FunctionId) {
        self.change(id, |view| view.service.take().is_some());
    }

    /// Forgets what KEDA scales by.
    pub(super) fn forget_scaled(&self, id: &FunctionId) {
        self.change(id, |view| view.scaled.take().is_some());
    }

    pub(super) fn put_scaled(&self, object: &HttpScaledObject) {
        let Some((key, uid)) = labels::owner(object.labels()) else {
            return;
        };
        self.change(&function_of(key, uid), |view| {
            let new = Text::of(&view::child(object));
            let same = view.scaled == new;
            view.scaled = new;
            !same
        });
    }

    pub(super) fn put_service(&self, object: &Service) {
        let Some((key, uid)) = labels::owner(object.labels()) else {
            return;
        };
        let function = function_of(key, uid);
        // It depends on the function's name alone, so it need not be remembered.
        let wanted = manifest::service(self.services, &function);
        let there = view::child(object);
        let seen = wanted.map_or(ServiceView::Right, |wanted| {
            ServiceView::of(&wanted, &there)
        });
        self.change(&function, |view| {
            let before = view.service.replace(seen);
            before != Some(seen)
        });
    }

    pub(super) fn put_ingress(&self, object: &Ingress) {
        let Some((key, uid)) = labels::owner(object.labels()) else {
            return;
        };
        self.change(&function_of(key, uid), |view| {
            let new = Text::of(&view::child(object));
            let same = view.ingress == new;
            view.ingress = new;
            !same
        });
    }

    pub(super) fn put_policy(&self, object: &NetworkPolicy) {
        let place = place(object);
        if !POLICIES.contains(&&*place.1) {
            return;
        }
        if let Some(spec) = Text::of(&object.spec) {
            self.policies().insert(place, spec);
        }
    }

    pub(super) fn put_job(&self, object: &Job, written: bool) {
        let (Some((key, uid)), Some(mut new)) =
            (labels::owner(object.labels()), RunView::of(object))
        else {
            return;
        };
        let ObjectKey {
            namespace, name, ..
        } = key;
        self.change_job(
            &JobId {
                namespace,
                name,
                uid,
            },
            |entry| {
                let mut runs = entry.runs();
                let before = runs.get(&new.name);
                new.written = before.and_then(|before| before.written);
                if let Some(before) = before.filter(|before| before.uid == new.uid)
                    && is_older(&new.resource_version, &before.resource_version)
                {
                    return false;
                }
                if written {
                    new.written = Some(Instant::now());
                }
                runs.insert(new.name.clone(), new);
                true
            },
        );
    }

    fn put_pod(&self, object: &Pod) {
        let Some((key, uid)) = labels::owner(object.labels()) else {
            return;
        };
        // Builds and calls by the clock have pods, too; nobody calls those.
        if !is_of_runtime(object) {
            return;
        }
        match key.kind {
            Kind::Function => self.change(&function_of(key, uid), |view| {
                let name = object.name_any();
                let at = view.pods.iter().position(|pod| pod.name == name);
                let new = PodView::of(object, at.map(|at| &*view.pods[at]));
                let same = at.is_some_and(|at| *view.pods[at] == new);
                match at {
                    Some(at) => view.pods[at] = Arc::new(new),
                    None => view.pods.push(Arc::new(new)),
                }
                !same
            }),
            _ => {
                let ObjectKey {
                    namespace, name, ..
                } = key;
                self.change_job(
                    &JobId {
                        namespace,
                        name,
                        uid,
                    },
                    |entry| {
                        let mut pods = entry.pods();
                        let name = object.name_any();
                        let new = PodView::of(object, pods.get(&name));
                        let same = pods.get(&name) == Some(&new);
                        pods.insert(name, new);
                        !same
                    },
                );
            }
        }
    }

    fn remove_pod(&self, labels: Option<(ObjectKey, Uid)>, name: &str) {
        let Some((key, uid)) = labels else { return };
        match key.kind {
            Kind::Function => self.change(&function_of(key, uid), |view| {
                let before = view.pods.len();
                view.pods.retain(|pod| pod.name != name);
                before != view.pods.len()
            }),
            _ => {
                let ObjectKey {
                    namespace,
                    name: job,
                    ..
                } = key;
                self.change_job(
                    &JobId {
                        namespace,
                        name: job,
                        uid,
                    },
                    |entry| entry.pods().remove(name).is_some(),
                );
            }
        }
    }

    pub(super) fn forget_run(&self, id: &JobId, name: &str) {
        self.change_job(id, |entry| entry.runs().remove(name).is_some());
    }

    /// Forgets the Deployments that a listing, begun then, did not show.
    fn retain_deployments(&self, seen: &HashSet<Uid>, since: Instant) {
        for entry in self.functions() {
            if seen.contains(&entry.function.uid) {
                continue;
            }
            self.change(&entry.function, |view| {
                let old = view
                    .deployment
                    .as_ref()
                    .is_some_and(|known| is_before(known.written, since));
                old && view.deployment.take().is_some()
            });
        }
    }

    fn retain_services(&self, seen: &HashSet<Uid>) {
        for entry in self.functions() {
            if !seen.contains(&entry.function.uid) {
                self.forget_service(&entry.function);
            }
        }
    }

    fn retain_scaled(&self, seen: &HashSet<Uid>) {
        for entry in self.functions() {
            if !seen.contains(&entry.function.uid) {
                self.forget_scaled(&entry.function);
            }
        }
    }

    fn retain_ingresses(&self, seen: &HashSet<Uid>) {
        for entry in self.functions() {
            if !seen.contains(&entry.function.uid) {
                self.forget_ingress(&entry.function);
            }
        }
    }

    fn retain_pods(&self, seen: &HashSet<String>) {
        for entry in self.functions() {
            self.change(&entry.function, |view| {
                let before = view.pods.len();
                view.pods.retain(|pod| seen.contains(&pod.uid));
                before != view.pods.len()
            });
        }
        for entry in self.jobs() {
            self.change_job(&entry.job, |entry| {
                let mut pods = entry.pods();
                let before = pods.len();
                pods.retain(|_, pod| seen.contains(&pod.uid));
                before != pods.len()
            });
        }
    }

    fn retain_runs(&self, seen: &HashSet<String>, since: Instant) {
        for entry in self.jobs() {
            self.change_job(&entry.job, |entry| {
                let mut runs = entry.runs();
                let before = runs.len();
                runs.retain(|_, run| seen.contains(&run.uid) || !is_before(run.written, since));
                before != runs.len()
            });
        }
    }

    fn jobs(&self) -> Vec<Arc<JobEntry>> {
        let all = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }
}

/// Whether a pod runs the runtime, and so a function or a job.
fn is_of_runtime(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .into_iter()
        .any(|container| container.name == super::failure::CONTAINER)
}

/// Whether what was written then, if ever, is older than a listing.
fn is_before(written: Option<Instant>, listing: Instant) -> bool {
    written.is_none_or(|written| written < listing)
}
