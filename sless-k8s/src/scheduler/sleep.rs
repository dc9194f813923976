//! Scale to zero and back.
//!
//! Whether a function is idle is asked of its pods: only they see the calls of all who call. The number of
//! copies is the only thing that is written, by whichever process has the call that wakes.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;
use sless_core::{Digest, Failure, Result, WorkloadPhase, reason};

use super::{
    Inner, annotation,
    cache::{DeploymentView, FunctionEntry, PodView, View},
    status,
};
use crate::{error::Fault, names};

/// How often a pod on its way is asked whether it is ready, beside what Kubernetes asks it.
const PROBE_EVERY: Duration = Duration::from_millis(20);
/// How long one such question may take.
const PROBE_WAIT: Duration = Duration::from_millis(500);
/// How long a failure to wake is told to callers before it is tried again.
const WAKE_AGAIN: Duration = Duration::from_secs(1);

/// What a pod says of itself.
#[derive(Deserialize)]
pub(super) struct Activity {
    in_flight: usize,
    queued: usize,
    idle_ms: u64,
}

impl Activity {
    /// Calls under way and waiting.
    pub(super) const fn calls(&self) -> usize {
        self.in_flight + self.queued
    }
}

impl Inner {
    /// Sees to it that somebody wakes this function, as long as calls wait for it.
    pub(super) fn wake(self: &Arc<Self>, entry: &Arc<FunctionEntry>) {
        if entry.waking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (inner, entry) = (self.clone(), entry.clone());
        self.tasks.spawn(async move {
            let stop = inner.stop.clone();
            stop.run_until_cancelled(inner.bring_up(&entry)).await;
            entry.waking.store(false, Ordering::Release);
            // Whoever came just now would wait for nobody.
            if entry.waiting.load(Ordering::Acquire) > 0 {
                entry.nudge();
            }
        });
    }

    async fn bring_up(&self, entry: &FunctionEntry) {
        let mut changes = entry.watch();
        while entry.waiting.load(Ordering::Acquire) > 0 {
            let view = changes.borrow_and_update().clone();
            let Some(deployment) = &view.deployment else {
                return;
            };
            if deployment.replicas == 0 {
                return;
            }
            if deployment.asleep() {
                if let Err(error) = self
                    .scale(entry, deployment, deployment.replicas, deployment.revision)
                    .await
                {
                    tracing::warn!(function = %entry.function, error = %error.chain(), "it could not be woken");
                    let failure =
                        Failure::new(reason::BACKEND_UNAVAILABLE, error.message().to_owned());
                    entry.change(|view| view.wake_failure.replace(failure).is_none());
                    tokio::time::sleep(WAKE_AGAIN).await;
                    entry.change(|view| view.wake_failure.take().is_some());
                    return;
                }
                continue;
            }
            if view.ready().next().is_some() {
                return;
            }
            if self.probe(&view).await {
                entry.nudge();
                self.cache.changes.notify(entry.function.key());
                return;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(PROBE_EVERY) => {}
            }
        }
    }

    /// Asks pods on their way whether they are ready: Kubernetes asks once a second only.
    async fn probe(&self, view: &View) -> bool {
        let applied = view
            .deployment
            .as_ref()
            .and_then(|deployment| deployment.revision);
        let pods = view.pods.iter().filter(|pod| {
            !pod.deleting && pod.ended.is_none() && pod.trouble.is_none() && pod.revision == applied
        });
        let asked = pods
            .filter_map(|pod| pod.endpoint.as_ref())
            .map(|endpoint| async {
                let ready = endpoint
                    .ask(&self.config, "/_sless/readyz", PROBE_WAIT)
                    .await
                    .is_some();
                if ready {
                    endpoint.prove(true);
                }
                ready
            });
        join_all(asked).await.into_iter().any(|ready| ready)
    }

    /// Asks for so many copies, unless the Deployment has changed meanwhile; what it is now is looked at
    /// again by the caller. `proven` is the revision that is noted as one that was ready.
    pub(super) async fn scale(
        &self,
        entry: &FunctionEntry,
        deployment: &DeploymentView,
        copies: u32,
        proven: Option<Digest>,
    ) -> Result<()> {
        let function = &entry.function;
        let api: Api<Deployment> = self.api(&function.namespace);
        let name = names::function(function);
        let proven = proven.map(|revision| revision.to_string());
        let patch = json!({
            "metadata": {
                "resourceVersion": deployment.resource_version,
                "annotations": {annotation::PROVEN: proven},
            },
            "spec": {"replicas": copies},
        });
        let params = PatchParams {
            field_manager: Some(self.cluster.config().field_manager.clone()),
            ..PatchParams::default()
        };
        let patched = self
            .cluster
            .call(api.patch(&name, &params, &Patch::Merge(&patch)))
            .await;
        match patched {
            Ok(object) => self.cache.put_deployment(&object, true),
            Err(fault) if fault.is_conflict() => match self.cluster.call(api.get_opt(&name)).await?
            {
                Some(object) => self.cache.put_deployment(&object, false),
                None => self.cache.forget_deployment(function),
            },
            Err(fault) if fault.is_not_found() => self.cache.forget_deployment(function),
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }

    /// What a pod says that it is at; `None` where it does not answer in time.
    pub(super) async fn activity(&self, pod: &PodView) -> Option<Activity> {
        let endpoint = pod.endpoint.as_ref()?;
        let said = endpoint
            .ask(&self.config, "/_sless/activity", PROBE_WAIT)
            .await?;
        serde_json::from_slice(&said).ok()
    }

    /// Puts a function to sleep if it is idle.
    async fn put_to_sleep(&self, entry: &FunctionEntry) -> Result<(), Fault> {
        let view = entry.view();
        let Some(deployment) = view.deployment.as_ref().filter(|deployment| {
            deployment.idle_ms > 0
                && deployment.replicas > 0
                && !deployment.asleep()
                && !self.leaves_to_keda(deployment)
        }) else {
            return Ok(());
        };
        let idle = Duration::from_millis(deployment.idle_ms);
        let seen = status::of(&view);
        let settled = seen.phase == WorkloadPhase::Ready && seen.ready_replicas > 0;
        if !settled || entry.in_flight.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        let asked = view
            .pods
            .iter()
            .filter(|pod| !pod.deleting)
            .map(|pod| self.activity(pod));
        // One that does not answer may be at a call.
        let Some(said) = join_all(asked)
            .await
            .into_iter()
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(());
        };
        if said.iter().any(|pod| pod.calls() > 0) {
            return Ok(());
        }
        let least = said.iter().map(|pod| pod.idle_ms).min().unwrap_or_default();
        let least = Duration::from_millis(least);
        if least < idle {
            let mut next = entry
                .next_look
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *next = Instant::now() + (idle - least);
            return Ok(());
        }
        // A call that came in between wakes it again, or is finished while the pod ends.
        self.scale(entry, deployment, 0, deployment.revision)
            .await?;
        Ok(())
    }
}

/// Puts idle functions to sleep, until the scheduler is gone.
pub(super) async fn put_idle_to_sleep(inner: Weak<Inner>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        for entry in inner.cache.functions() {
            let next = *entry
                .next_look
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if Instant::now() < next {
                continue;
            }
            if let Err(fault) = inner.put_to_sleep(&entry).await {
                let error = sless_core::Error::from(fault);
                tracing::warn!(function = %entry.function, error = %error.chain(), "it was not put to sleep");
            }
        }
    }
}
