//! Making namespaces: the only code that does, and there is none that deletes one.
//!
//! A user has two: one with the resources, which the catalog ensures, and one with the workloads, which the
//! scheduler ensures.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{Namespace as KubeNamespace, ResourceQuota, ResourceQuotaSpec},
        networking::v1::{NetworkPolicy, NetworkPolicySpec},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};
use kube::{Api, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use sless_core::{Ensured, Error, Namespace};

use crate::{
    client::Cluster,
    error::Fault,
    labels::{MANAGED_BY, MANAGER, NAMESPACE},
};

/// The name of the quota and of the policy that a namespace gets.
const FURNISHING: &str = "sless";

/// Makes the namespace of resources.
pub(crate) async fn ensure_resources(
    cluster: &Cluster,
    namespace: &Namespace,
) -> Result<Ensured, Fault> {
    let settings = &cluster.config().namespaces;
    let furnishing = Furnishing {
        quota: &settings.resource_quota,
        default_deny: false,
    };
    ensure(cluster, namespace, namespace, BTreeMap::new(), &furnishing).await
}

/// Makes the namespace of workloads, with what is to hold for all of them.
pub(crate) async fn ensure_workloads(
    cluster: &Cluster,
    namespace: &Namespace,
) -> Result<Ensured, Fault> {
    let settings = &cluster.config().namespaces;
    let mut labels = BTreeMap::new();
    if !settings.pod_security.is_empty() {
        for mode in ["enforce", "warn"] {
            let label = format!("pod-security.kubernetes.io/{mode}");
            labels.insert(label, settings.pod_security.clone());
        }
    }
    let furnishing = Furnishing {
        quota: &settings.quota,
        default_deny: settings.default_deny,
    };
    let workloads = namespace.workloads();
    ensure(cluster, &workloads, namespace, labels, &furnishing).await
}

/// Whether a namespace is there.
pub(crate) async fn is_there(cluster: &Cluster, name: &str) -> Result<bool, Fault> {
    let api: Api<KubeNamespace> = Api::all(cluster.client());
    Ok(cluster.call(api.get_opt(name)).await?.is_some())
}

struct Furnishing<'a> {
    quota: &'a BTreeMap<String, String>,
    default_deny: bool,
}

/// The annotation that says that a namespace has all that it was to get. Without it a crash between two
/// requests would leave a namespace without its policy for ever; with it, one request is enough to know.
const FURNISHED: &str = "sless.io/furnished";

async fn ensure(
    cluster: &Cluster,
    name: &Namespace,
    of: &Namespace,
    labels: BTreeMap<String, String>,
    furnishing: &Furnishing<'_>,
) -> Result<Ensured, Fault> {
    let api: Api<KubeNamespace> = Api::all(cluster.client());
    let (found, ensured) = match cluster.call(api.get_opt(name.as_str())).await? {
        Some(found) => (found, Ensured::Exists),
        None => {
            let made = made(cluster, name, of, labels);
            match create(cluster, &api, &made).await? {
                Some(created) => (created, Ensured::Created),
                // Somebody else was faster.
                None => (cluster.call(api.get(name.as_str())).await?, Ensured::Exists),
            }
        }
    };
    if found.metadata.deletion_timestamp.is_some() {
        let told = format!("namespace {name} is being deleted by somebody else");
        return Err(Error::unavailable(told)
            .with_reason("namespace_terminating")
            .into());
    }
    // One that somebody else made stays as it is: its rules are theirs.
    let annotations = found.metadata.annotations.unwrap_or_default();
    if annotations
        .get(FURNISHED)
        .is_some_and(|value| value == "false")
    {
        furnish(cluster, name, furnishing).await?;
        let patch = serde_json::json!({"metadata": {"annotations": {FURNISHED: "true"}}});
        let parameters = kube::api::PatchParams {
            field_manager: Some(cluster.config().field_manager.clone()),
            ..kube::api::PatchParams::default()
        };
        let patch = kube::api::Patch::Merge(&patch);
        cluster
            .call(api.patch(name.as_str(), &parameters, &patch))
            .await?;
    }
    Ok(ensured)
}

fn made(
    cluster: &Cluster,
    name: &Namespace,
    of: &Namespace,
    labels: BTreeMap<String, String>,
) -> KubeNamespace {
    let settings = &cluster.config().namespaces;
    let mut all = settings.labels.clone();
    all.extend(labels);
    all.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    all.insert(NAMESPACE.to_owned(), of.to_string());
    let mut annotations = settings.annotations.clone();
    annotations.insert(FURNISHED.to_owned(), "false".to_owned());
    KubeNamespace {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            labels: Some(all),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        ..KubeNamespace::default()
    }
}

async fn furnish(
    cluster: &Cluster,
    name: &Namespace,
    furnishing: &Furnishing<'_>,
) -> Result<(), Fault> {
    let metadata = ObjectMeta {
        name: Some(FURNISHING.to_owned()),
        labels: Some(BTreeMap::from([(
            MANAGED_BY.to_owned(),
            MANAGER.to_owned(),
        )])),
        ..ObjectMeta::default()
    };
    if furnishing.default_deny {
        let api: Api<NetworkPolicy> = Api::namespaced(cluster.client(), name.as_str());
        let policy = NetworkPolicy {
            metadata: metadata.clone(),
            spec: Some(NetworkPolicySpec {
                pod_selector: Some(LabelSelector::default()),
                policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
                ..NetworkPolicySpec::default()
            }),
        };
        create(cluster, &api, &policy).await?;
    }
    if !furnishing.quota.is_empty() {
        let api: Api<ResourceQuota> = Api::namespaced(cluster.client(), name.as_str());
        let hard = furnishing
            .quota
            .iter()
            .map(|(resource, amount)| (resource.clone(), Quantity(amount.clone())))
            .collect();
        let quota = ResourceQuota {
            metadata,
            spec: Some(ResourceQuotaSpec {
                hard: Some(hard),
                ..ResourceQuotaSpec::default()
            }),
            ..ResourceQuota::default()
        };
        create(cluster, &api, &quota).await?;
    }
    Ok(())
}

/// Creates an object; `None` if it is there.
async fn create<K>(cluster: &Cluster, api: &Api<K>, object: &K) -> Result<Option<K>, Fault>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug + Sync,
{
    let parameters = PostParams {
        field_manager: Some(cluster.config().field_manager.clone()),
        ..PostParams::default()
    };
    match cluster.call(api.create(&parameters, object)).await {
        Ok(created) => Ok(Some(created)),
        Err(fault) if fault.is_already_exists() => Ok(None),
        Err(fault) => Err(fault),
    }
}
