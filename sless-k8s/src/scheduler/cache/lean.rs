//! Objects as watches read them: without what nobody here asks for.
//!
//! `managedFields` names every field of an object once for each of its writers, and is read as a tree: of a
//! Deployment it takes more memory than all the rest, and a listing holds a page of them at once.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStatus},
        batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job, JobSpec, JobStatus},
        core::v1::{Pod, PodSpec, PodStatus, Service, ServiceSpec, ServiceStatus},
        networking::v1::{Ingress, IngressSpec, IngressStatus, NetworkPolicy, NetworkPolicySpec},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny},
};

use crate::scheduler::keda::{HttpScaledObject, HttpScaledObjectSpec};

/// An object whose metadata was read in part.
#[derive(Clone, Debug)]
pub(super) struct Lean<K>(pub(super) K);

impl<K: Resource> Resource for Lean<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// The metadata that is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

impl From<Meta> for ObjectMeta {
    fn from(meta: Meta) -> Self {
        Self {
            name: meta.name,
            namespace: meta.namespace,
            uid: meta.uid,
            resource_version: meta.resource_version,
            generation: meta.generation,
            labels: meta.labels,
            annotations: meta.annotations,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct Parts<S, T> {
    metadata: Meta,
    spec: Option<S>,
    status: Option<T>,
}

macro_rules! lean {
    ($($kind:ident: $spec:ty, $status:ty;)*) => {$(
        impl<'de> Deserialize<'de> for Lean<$kind> {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let Parts { metadata, spec, status } = Parts::<$spec, $status>::deserialize(from)?;
                Ok(Self($kind { metadata: metadata.into(), spec, status }))
            }
        }
    )*};
}

lean! {
    Deployment: DeploymentSpec, DeploymentStatus;
    Pod: PodSpec, PodStatus;
    Job: JobSpec, JobStatus;
    Service: ServiceSpec, ServiceStatus;
    Ingress: IngressSpec, IngressStatus;
}

impl<'de> Deserialize<'de> for Lean<NetworkPolicy> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let parts = Parts::<NetworkPolicySpec, IgnoredAny>::deserialize(from)?;
        Ok(Self(NetworkPolicy {
            metadata: parts.metadata.into(),
            spec: parts.spec,
        }))
    }
}

impl<'de> Deserialize<'de> for Lean<CronJob> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let parts = Parts::<CronJobSpec, CronJobStatus>::deserialize(from)?;
        Ok(Self(CronJob {
            metadata: parts.metadata.into(),
            spec: parts.spec.ok_or_else(|| D::Error::missing_field("spec"))?,
            status: parts.status,
        }))
    }
}

impl<'de> Deserialize<'de> for Lean<HttpScaledObject> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let parts = Parts::<HttpScaledObjectSpec, IgnoredAny>::deserialize(from)?;
        Ok(Self(HttpScaledObject {
            metadata: parts.metadata.into(),
            spec: parts.spec.ok_or_else(|| D::Error::missing_field("spec"))?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_is_read_but_who_wrote_it() {
        let whole = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "a", "namespace": "b", "uid": "c", "resourceVersion": "1", "generation": 2,
                "labels": {"x": "y"}, "annotations": {"z": ""},
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
                "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
            },
            "spec": {"replicas": 3, "selector": {}, "template": {}},
            "status": {"readyReplicas": 1},
        });
        let Lean(read) = serde_json::from_value::<Lean<Deployment>>(whole.clone()).expect("read");
        let mut expected: Deployment = serde_json::from_value(whole).expect("read");
        assert!(expected.metadata.managed_fields.take().is_some());
        assert_eq!(read, expected);
        assert_eq!(
            Lean::<Deployment>::url_path(&(), None),
            "/apis/apps/v1/deployments"
        );
    }
}
