//! Cron triggers as CronJobs of the cluster, which call whether sless is there to see it or not.

use async_trait::async_trait;
use k8s_openapi::api::batch::v1::CronJob;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch},
};
use sless_core::{
    CronScheduler, CronStatus, CronTrigger, Error, ErrorKind, Receipt, Result, Retry, reason,
    resource::TriggerId,
};

use super::{Inner, KubeScheduler, apply::refusal, config::CronJobConfig, manifest, same};
use crate::{
    error::{BACKEND, Fault},
    labels, names,
};

/// What selects the CronJobs of triggers.
fn of_triggers() -> ListParams {
    ListParams::default().labels(&format!("{},{}=Trigger", labels::SELECTOR, labels::KIND))
}

impl KubeScheduler {
    /// Removes the CronJobs of all triggers in the catalog's namespaces
    /// ([`CatalogConfig::namespace_prefix`](crate::CatalogConfig)), for an engine that fires them itself from
    /// now on; answers how many there were. Where sless may not look for any, it has never made one.
    ///
    /// # Errors
    /// What Kubernetes says.
    pub async fn remove_cron_jobs(&self) -> Result<usize> {
        let cluster = &self.inner.cluster;
        let everywhere: Api<CronJob> = Api::all(cluster.client());
        let list = match cluster.call(everywhere.list_metadata(&of_triggers())).await {
            Ok(list) => list.items,
            Err(fault) if fault.status().is_some_and(|status| status.code == 403) => {
                tracing::debug!(error = %fault, "CronJobs may not be listed, so there are none of ours");
                return Ok(0);
            }
            Err(fault) => return Err(fault.into()),
        };
        let prefix = &cluster.config().catalog.namespace_prefix;
        let ours = list.into_iter().filter(|found| {
            let owner = labels::owner(found.labels());
            owner.is_some_and(|(trigger, _)| trigger.namespace.as_str().starts_with(prefix))
        });
        let mut removed = 0;
        for found in ours {
            let place = found.namespace().unwrap_or_default();
            let api: Api<CronJob> = Api::namespaced(cluster.client(), &place);
            let gone = DeleteParams::background();
            if self
                .inner
                .deleted(api.delete(&found.name_any(), &gone))
                .await?
            {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

impl Inner {
    fn cron_jobs(&self) -> Result<&CronJobConfig> {
        self.config.cron_jobs.as_ref().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "there are no settings for CronJobs (cron_jobs): the engine fires triggers",
            )
            .at(BACKEND)
        })
    }

    async fn bring_cron(&self, cron: &CronTrigger) -> Result<CronStatus, Fault> {
        let trigger = &cron.trigger;
        let wanted = match manifest::cron_job(&self.config, self.cron_jobs()?, cron) {
            Ok(wanted) => wanted,
            Err(failure) => {
                self.drop_cron(trigger).await?;
                return Ok(CronStatus::refused(failure));
            }
        };
        let known = self.cache.cron(&trigger.uid);
        if cron.suspended && known.is_none() {
            return Ok(CronStatus::default());
        }
        // Before a pod of it is there.
        self.ensure_policies(&trigger.namespace).await?;
        let last_fire_at = known.as_ref().and_then(|known| known.last_fire_at);
        if !known.is_some_and(|known| same::child_holds(&wanted, &known.object.read())) {
            let api: Api<CronJob> = self.api(&trigger.namespace);
            let (name, params) = (names::cron(trigger), self.apply_params());
            let patch = Patch::Apply(&wanted);
            let object = self.cluster.call(api.patch(&name, &params, &patch)).await?;
            self.cache.put_cron(&object);
        }
        Ok(CronStatus::firing(last_fire_at))
    }

    /// Answers whether there was one.
    async fn drop_cron(&self, trigger: &TriggerId) -> Result<bool, Fault> {
        let api: Api<CronJob> = self.api(&trigger.namespace);
        let name = names::cron(trigger);
        // By name, not by what is known here: it may be that of another process, a moment ago.
        let was_there = self
            .deleted(api.delete(&name, &DeleteParams::background()))
            .await?;
        self.cache.forget_cron(&trigger.uid);
        Ok(was_there)
    }
}

#[async_trait]
impl CronScheduler for KubeScheduler {
    async fn apply_cron(&self, trigger: &CronTrigger) -> Result<CronStatus> {
        let fault = match self.inner.bring_cron(trigger).await {
            Ok(status) => return Ok(status),
            Err(Fault::Rule(error)) => return Err(error.at(BACKEND).on(&trigger.trigger)),
            Err(fault) => fault,
        };
        if let Some(failure) = refusal(&fault) {
            return Ok(CronStatus::refused(failure));
        }
        if fault
            .status()
            .is_some_and(|status| status.code == 404 && status.message.contains("namespaces"))
        {
            let place = trigger.trigger.namespace.workloads();
            let message = format!("the namespace {place} is not there");
            return Err(Error::new(ErrorKind::NotFound, message)
                .with_reason(reason::NAMESPACE_MISSING)
                .with_retry(Retry::Never)
                .at(BACKEND)
                .on(&trigger.trigger));
        }
        Err(Error::from(fault).on(&trigger.trigger))
    }

    async fn remove_cron(&self, trigger: &TriggerId) -> Result<Receipt> {
        self.inner.cron_jobs()?;
        let mut receipt = Receipt::default();
        if self.inner.drop_cron(trigger).await? {
            receipt.add("cron_job", names::cron(trigger), BACKEND);
        }
        Ok(receipt)
    }
}
