//! The place of a namespace's workloads, and the policies in it.

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::Value;
use sless_core::{Ensured, Namespace};

use super::{
    Inner,
    manifest::{self, CRON_POLICY, POLICY},
    same,
};
use crate::{error::Fault, namespaces};

impl Inner {
    /// Makes the place if it is not there. Nothing here deletes one.
    pub(super) async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured, Fault> {
        let ensured = namespaces::ensure_workloads(&self.cluster, namespace).await?;
        self.ensure_policies(namespace).await?;
        Ok(ensured)
    }

    /// Sees to it that the policies are there before a pod is.
    pub(super) async fn ensure_policies(&self, namespace: &Namespace) -> Result<(), Fault> {
        if !self.config.network.policies {
            return Ok(());
        }
        let network = &self.config.network;
        let policy = manifest::policy(network, namespace);
        self.ensure_policy(namespace, POLICY, &policy).await?;
        if self.config.cron_jobs.is_some() {
            let policy = manifest::cron_policy(network, namespace);
            self.ensure_policy(namespace, CRON_POLICY, &policy).await?;
        }
        Ok(())
    }

    async fn ensure_policy(
        &self,
        namespace: &Namespace,
        name: &str,
        policy: &Value,
    ) -> Result<(), Fault> {
        let is_there = || {
            let known = self.cache.policy(namespace.workloads().as_str(), name);
            known.is_some_and(|spec| same::holds(&policy["spec"], &spec.read()))
        };
        if is_there() {
            return Ok(());
        }
        // Of many functions that come at once, one writes it.
        let _writing = self.policing.lock().await;
        if is_there() {
            return Ok(());
        }
        let api: Api<NetworkPolicy> = self.api(namespace);
        let (params, patch) = (self.apply_params(), Patch::Apply(policy));
        let object = self.cluster.call(api.patch(name, &params, &patch)).await?;
        self.cache.put_policy(&object);
        Ok(())
    }

    /// What every apply says: who owns the fields, and that unknown ones are an error.
    pub(super) fn apply_params(&self) -> PatchParams {
        let mut params = PatchParams::apply(&self.cluster.config().field_manager).force();
        params.field_validation = Some(kube::api::ValidationDirective::Strict);
        params
    }
}
