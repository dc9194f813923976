//! What is remembered of each object: what is asked for on the way of a call or a reconcile, and no more,
//! since there may be thousands.

use std::{net::IpAddr, sync::Arc, time::Instant};

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job, core::v1::Pod};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::Value;
use sless_core::{Digest, Failure, RunStatus};

use crate::scheduler::{
    annotation,
    failure::{self, Ended, Trouble},
    invoke::Endpoint,
    manifest, same,
};

/// Part of an object, as JSON text: as a tree it would take ten times the memory, and it is read once or
/// never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scheduler) struct Text(Arc<str>);

impl Text {
    pub(in crate::scheduler) fn of(value: &impl Serialize) -> Option<Self> {
        let text = serde_json::to_string(value).ok()?;
        Some(Self(text.into()))
    }

    pub(in crate::scheduler) fn read(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// A function as the cluster has it.
#[derive(Clone, Debug, Default)]
pub(in crate::scheduler) struct View {
    pub(in crate::scheduler) deployment: Option<Arc<DeploymentView>>,
    pub(in crate::scheduler) service: Option<ServiceView>,
    pub(in crate::scheduler) ingress: Option<Text>,
    /// What KEDA scales it by.
    pub(in crate::scheduler) scaled: Option<Text>,
    pub(in crate::scheduler) pods: Vec<Arc<PodView>>,
    /// A revision that the cluster refused to take, and why.
    pub(in crate::scheduler) refused: Option<(Digest, Failure)>,
    /// Why the last try to wake it failed.
    pub(in crate::scheduler) wake_failure: Option<Failure>,
    /// The uid of a Deployment that was deleted: what is told of it later is old.
    pub(in crate::scheduler) deleted: Option<String>,
}

impl View {
    pub(in crate::scheduler) fn is_empty(&self) -> bool {
        self.deployment.is_none()
            && self.service.is_none()
            && self.ingress.is_none()
            && self.scaled.is_none()
            && self.pods.is_empty()
            && self.refused.is_none()
    }

    /// The pods that take calls.
    pub(in crate::scheduler) fn ready(&self) -> impl Iterator<Item = &Arc<PodView>> {
        self.pods.iter().filter(|pod| pod.takes_calls())
    }
}

/// What a Service is, held against what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scheduler) enum ServiceView {
    Right,
    Different,
    /// It has an address and should have none, or the other way round. No write changes that.
    OtherKind,
}

impl ServiceView {
    pub(in crate::scheduler) fn of(wanted: &Value, there: &Value) -> Self {
        if manifest::is_headless(wanted) != manifest::is_headless(there) {
            Self::OtherKind
        } else if same::child_holds(wanted, there) {
            Self::Right
        } else {
            Self::Different
        }
    }
}

/// A Deployment.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::scheduler) struct DeploymentView {
    pub(in crate::scheduler) uid: String,
    pub(in crate::scheduler) resource_version: String,
    pub(in crate::scheduler) generation: i64,
    /// The digest of the manifest that was applied.
    pub(in crate::scheduler) applied: String,
    pub(in crate::scheduler) revision: Option<Digest>,
    /// Of the function's spec.
    pub(in crate::scheduler) function_generation: i64,
    /// How many copies are wanted; `spec_replicas` is 0 where it sleeps.
    pub(in crate::scheduler) replicas: u32,
    pub(in crate::scheduler) spec_replicas: u32,
    /// How many copies there may be at most.
    pub(in crate::scheduler) max_replicas: u32,
    /// Calls at once in one copy.
    pub(in crate::scheduler) concurrency: u32,
    pub(in crate::scheduler) idle_ms: u64,
    pub(in crate::scheduler) proven: Option<Digest>,
    pub(in crate::scheduler) restarted_at: Option<Timestamp>,
    /// What a controller says of pods that it cannot make.
    pub(in crate::scheduler) refusal: Option<Failure>,
    /// Whether it was not up in time.
    pub(in crate::scheduler) overdue: bool,
    /// The generation that was held against the manifest, and found right.
    pub(in crate::scheduler) verified: Option<i64>,
    /// The spec, as long as it was not held against the manifest.
    pub(in crate::scheduler) unverified: Option<Text>,
    /// When this process wrote it; a listing that began before does not count against it.
    pub(in crate::scheduler) written: Option<Instant>,
}

impl DeploymentView {
    pub(in crate::scheduler) fn of(object: &Deployment, before: Option<&Self>) -> Self {
        let notes = object.annotations();
        let uid = object.uid().unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or_default();
        let before = before.filter(|before| before.uid == uid);
        let verified = before.and_then(|before| before.verified);
        let spec = object.spec.as_ref();
        let unverified = (verified != Some(generation))
            .then(|| Text::of(&spec))
            .flatten();
        let conditions = object
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let condition = |kind: &str, status: &str| {
            let mut all = conditions.into_iter().flatten();
            all.find(|condition| condition.type_ == kind && condition.status == status)
        };
        let refusal = condition("ReplicaFailure", "True")
            .map(|condition| failure::of_refusal(condition.message.as_deref().unwrap_or_default()));
        let overdue = condition("Progressing", "False").is_some_and(|condition| {
            condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
        });
        let wanted = annotation::read(notes, annotation::REPLICAS).unwrap_or(1);
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1);
        Self {
            resource_version: object.resource_version().unwrap_or_default(),
            generation,
            applied: notes.get(annotation::APPLIED).cloned().unwrap_or_default(),
            revision: annotation::read(notes, annotation::REVISION),
            function_generation: annotation::read(notes, annotation::GENERATION)
                .unwrap_or_default(),
            replicas: wanted,
            max_replicas: annotation::read(notes, annotation::MAX_REPLICAS).unwrap_or(wanted),
            concurrency: annotation::read(notes, annotation::CONCURRENCY).unwrap_or(1),
            spec_replicas: u32::try_from(replicas).unwrap_or_default(),
            idle_ms: annotation::read(notes, annotation::IDLE).unwrap_or_default(),
            proven: annotation::read(notes, annotation::PROVEN),
            restarted_at: restarted_at(object),
            refusal,
            overdue,
            verified,
            unverified,
            written: before.and_then(|before| before.written),
            uid,
        }
    }

    /// Whether the number of its copies follows its calls.
    pub(in crate::scheduler) const fn scales(&self) -> bool {
        self.replicas > 0 && self.max_replicas > self.replicas
    }

    /// Whether it sleeps: copies are wanted, and none is asked for.
    pub(in crate::scheduler) const fn asleep(&self) -> bool {
        self.replicas > 0 && self.spec_replicas == 0
    }
}

fn restarted_at(object: &Deployment) -> Option<Timestamp> {
    let notes = object
        .spec
        .as_ref()?
        .template
        .metadata
        .as_ref()?
        .annotations
        .as_ref()?;
    annotation::read(notes, annotation::RESTARTED_AT)
}

/// A pod of a function, or of a run of a job.
#[derive(Clone, Debug)]
pub(in crate::scheduler) struct PodView {
    pub(in crate::scheduler) name: String,
    pub(in crate::scheduler) uid: String,
    pub(in crate::scheduler) revision: Option<Digest>,
    pub(in crate::scheduler) run_id: Option<i64>,
    /// Whether Kubernetes calls it ready.
    pub(in crate::scheduler) ready: bool,
    pub(in crate::scheduler) running_since: Option<Timestamp>,
    pub(in crate::scheduler) deleting: bool,
    pub(in crate::scheduler) restarts: i32,
    pub(in crate::scheduler) trouble: Option<Trouble>,
    pub(in crate::scheduler) ended: Option<Ended>,
    pub(in crate::scheduler) created: Option<Timestamp>,
    /// What calls it; the same as long as it is the same pod at the same address.
    pub(in crate::scheduler) endpoint: Option<Arc<Endpoint>>,
}

impl PartialEq for PodView {
    fn eq(&self, other: &Self) -> bool {
        let parts = |pod: &Self| {
            let address = pod.endpoint.as_ref().and_then(|endpoint| endpoint.ip());
            (
                pod.ready,
                pod.deleting,
                pod.restarts,
                pod.running_since,
                address,
            )
        };
        self.uid == other.uid
            && parts(self) == parts(other)
            && self.trouble == other.trouble
            && self.ended == other.ended
    }
}

impl PodView {
    pub(in crate::scheduler) fn of(object: &Pod, before: Option<&Self>) -> Self {
        let notes = object.annotations();
        let status = object.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let uid = object.uid().unwrap_or_default();
        let container = failure::container(object);
        let running = container
            .and_then(|container| container.state.as_ref()?.running.as_ref())
            .and_then(|running| running.started_at.as_ref().and_then(failure::timestamp));
        let restarts = container.map_or(0, |container| container.restart_count);
        let ip: Option<IpAddr> = status.and_then(|status| status.pod_ip.as_ref()?.parse().ok());
        let same = before
            .filter(|before| before.uid == uid && before.restarts == restarts)
            .and_then(|before| before.endpoint.clone())
            .filter(|endpoint| endpoint.ip() == ip);
        let endpoint = same.or_else(|| ip.map(|ip| Arc::new(Endpoint::new(ip))));
        if let (true, Some(endpoint)) = (ready, &endpoint) {
            // From now on it is for Kubernetes to say.
            endpoint.prove(false);
        }
        Self {
            name: object.name_any(),
            revision: annotation::read(notes, annotation::REVISION),
            run_id: annotation::read(notes, annotation::RUN_ID),
            ready,
            running_since: running,
            deleting: object.metadata.deletion_timestamp.is_some(),
            restarts,
            trouble: if ready { None } else { failure::of_pod(object) },
            ended: failure::ended(object),
            created: object
                .creation_timestamp()
                .as_ref()
                .and_then(failure::timestamp),
            endpoint,
            uid,
        }
    }

    /// Whether calls may begin here: Kubernetes calls it ready, or it has said so itself.
    pub(in crate::scheduler) fn takes_calls(&self) -> bool {
        let endpoint = self.endpoint.as_ref();
        !self.deleting
            && self.ended.is_none()
            && endpoint.is_some_and(|endpoint| self.ready || endpoint.is_proven())
    }
}

/// What a Service or Ingress has to be.
pub(in crate::scheduler) fn child<K: kube::Resource + serde::Serialize>(object: &K) -> Value {
    let spec = serde_json::to_value(object).map(|mut object| object["spec"].take());
    serde_json::json!({
        "metadata": {
            "labels": object.labels(),
            "annotations": object.annotations(),
        },
        "spec": spec.unwrap_or_default(),
    })
}

/// The Job of one run.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::scheduler) struct RunView {
    pub(in crate::scheduler) name: String,
    pub(in crate::scheduler) uid: String,
    pub(in crate::scheduler) resource_version: String,
    pub(in crate::scheduler) run_id: i64,
    pub(in crate::scheduler) outcome: Option<RunStatus>,
    /// What the controller says of its failure: a word and a sentence.
    pub(in crate::scheduler) failed: Option<(String, String)>,
    pub(in crate::scheduler) complete: bool,
    pub(in crate::scheduler) deleting: bool,
    pub(in crate::scheduler) created: Option<Timestamp>,
    pub(in crate::scheduler) written: Option<Instant>,
}

impl RunView {
    pub(in crate::scheduler) fn of(object: &Job) -> Option<Self> {
        let notes = object.annotations();
        let outcome = notes.get(annotation::OUTCOME);
        let conditions = object
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let condition = |kind: &str| {
            let mut all = conditions.into_iter().flatten();
            all.find(|condition| condition.type_ == kind && condition.status == "True")
        };
        let failed = condition("Failed").map(|condition| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            (text(&condition.reason), text(&condition.message))
        });
        Some(Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            run_id: annotation::read(notes, annotation::RUN_ID)?,
            outcome: outcome.and_then(|text| serde_json::from_str(text).ok()),
            failed,
            complete: condition("Complete").is_some(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            created: object
                .creation_timestamp()
                .as_ref()
                .and_then(failure::timestamp),
            written: None,
        })
    }
}
