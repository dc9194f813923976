//! Functions that KEDA's HTTP add-on scales: it counts the calls that go through its interceptor.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::{Api, CustomResource, api::DeleteParams};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sless_core::{FunctionId, Receipt, Result, WorkloadPhase};

use super::{
    Inner,
    cache::{DeploymentView, View},
    manifest, status,
};
use crate::{
    Cluster,
    error::{BACKEND, Fault},
    names,
};

/// What KEDA scales by. Its schema is KEDA's; nothing here reads more of it than what was written.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize)]
#[kube(
    group = "http.keda.sh",
    version = "v1alpha1",
    kind = "HTTPScaledObject",
    root = "HttpScaledObject",
    namespaced,
    schema = "disabled"
)]
pub(crate) struct HttpScaledObjectSpec {
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// Whether the add-on's custom resource is in the cluster.
pub(super) async fn is_there(cluster: &Cluster) -> Result<bool, Fault> {
    let client = cluster.client();
    let listed = cluster.call(client.list_api_group_resources("http.keda.sh/v1alpha1"));
    match listed.await {
        Ok(APIResourceList { resources, .. }) => Ok(resources
            .iter()
            .any(|found| found.kind == "HTTPScaledObject")),
        Err(fault) if fault.status().is_some_and(|status| status.code == 404) => Ok(false),
        Err(fault) => Err(fault),
    }
}

impl Inner {
    /// Whether KEDA says how many copies of this function there are.
    pub(super) const fn leaves_to_keda(&self, deployment: &DeploymentView) -> bool {
        self.interceptor.is_some()
            && deployment.replicas > 0
            && (deployment.idle_ms > 0 || deployment.scales())
    }

    /// Brings what KEDA scales a function by, or takes it away.
    pub(super) async fn bring_scaled(
        &self,
        function: &FunctionId,
        view: &View,
    ) -> Result<(), Fault> {
        let (Some(config), Some(_)) = (&self.config.keda, &self.interceptor) else {
            return Ok(());
        };
        let deployment = view.deployment.as_deref();
        match deployment.filter(|deployment| self.leaves_to_keda(deployment)) {
            Some(deployment) => {
                let wanted = manifest::scaled(config, function, deployment);
                let there = view.scaled.as_ref();
                let written = self.bring_child::<HttpScaledObject>(function, &wanted, there);
                if let Some(object) = written.await? {
                    self.cache.put_scaled(&object);
                }
            }
            None if view.scaled.is_some() => {
                let mut receipt = Receipt::default();
                self.drop_scaled(function, &mut receipt).await?;
            }
            None => {}
        }
        Ok(())
    }

    pub(super) async fn drop_scaled(
        &self,
        function: &FunctionId,
        receipt: &mut Receipt,
    ) -> Result<(), Fault> {
        if self.interceptor.is_none() {
            return Ok(());
        }
        let api: Api<HttpScaledObject> = self.api(&function.namespace);
        let name = names::function(function);
        let gone = DeleteParams::background();
        if self.deleted(api.delete(&name, &gone)).await? {
            receipt.add("http_scaled_object", &name, BACKEND);
        }
        self.cache.forget_scaled(function);
        Ok(())
    }

    /// Notes that a revision was ready before KEDA lets it sleep: without that, nobody could tell it from
    /// one that never was.
    pub(super) async fn note_proven(&self, function: &FunctionId) -> Result<()> {
        let Some(entry) = self.cache.function(&function.uid) else {
            return Ok(());
        };
        let view = entry.view();
        let Some(deployment) = &view.deployment else {
            return Ok(());
        };
        let seen = status::of(&view);
        let ready = seen.phase == WorkloadPhase::Ready && seen.ready_replicas > 0;
        let noted = deployment.proven == deployment.revision;
        if self.leaves_to_keda(deployment) && ready && !noted && !deployment.asleep() {
            let (copies, proven) = (deployment.spec_replicas, deployment.revision);
            self.scale(&entry, deployment, copies, proven).await?;
        }
        Ok(())
    }
}
