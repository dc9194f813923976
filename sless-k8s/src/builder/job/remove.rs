//! Taking away what a build leaves.

use std::time::{Duration, Instant};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Secret},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PartialObjectMeta},
};
use sless_core::{BuildId, Error, ErrorKind, FunctionId, Receipt, Result};

use super::{
    JobMaker,
    plan::{BUILD, of_function},
    source::{self, CACHE, SOURCE},
};
use crate::{
    builder::builds::Site,
    error::{BACKEND, Fault},
    registry::Reference,
};

/// The pause between two looks at what is ending.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl JobMaker {
    /// Removes what is needed only while a build is under way.
    pub(super) async fn tidy(&self, site: &Site, id: &BuildId) -> Result<()> {
        self.delete_objects(&format!("{BUILD}={}", id.short()), &mut |_, _| {})
            .await?;
        let at = source::named(site, id, SOURCE);
        source::forget(site, "build_source", &at, &mut Receipt::default()).await
    }

    /// Ends a build that is under way, and waits until its pod is gone.
    pub(super) async fn end(&self, site: &Site, id: &BuildId) -> Result<()> {
        let of_build = format!("{BUILD}={}", id.short());
        let mut removed = false;
        self.delete_objects(&of_build, &mut |_, _| removed = true)
            .await?;
        if !removed {
            return Ok(());
        }
        self.wait_until_gone(&of_build).await?;
        // The image, if it came to that, goes with the next pruning: it may be the same as one that is used.
        let at = source::named(site, id, SOURCE);
        source::forget(site, "build_source", &at, &mut Receipt::default()).await
    }

    /// Ends the builds of a function that are not kept, and removes what they left. With nothing to keep,
    /// the layers that are kept between builds go, too.
    pub(super) async fn remove(
        &self,
        site: &Site,
        function: &FunctionId,
        keep: &[BuildId],
        receipt: &mut Receipt,
    ) -> Result<()> {
        let kept: Vec<String> = keep.iter().map(BuildId::short).collect();
        let mut selector = of_function(&function.uid);
        if !kept.is_empty() {
            selector.push_str(&format!(",{BUILD} notin ({})", kept.join(",")));
        }
        let ending = self
            .delete_objects(&selector, &mut |kind, name| {
                receipt.add(kind, name, BACKEND);
            })
            .await?;
        if ending {
            // Until then it may push. One on a node that does not answer keeps nobody waiting for good.
            match self.wait_until_gone(&selector).await {
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    tracing::warn!(%function, error = %error.chain(), "a build was left to its end");
                }
                other => other?,
            }
        }
        let at = site.of(function);
        for tag in site.registry.tags(&at).await.map_err(Error::from)? {
            let short = tag.strip_prefix(SOURCE);
            let is_cache = tag == CACHE && keep.is_empty();
            let named = Reference {
                version: tag.clone(),
                ..at.clone()
            };
            if is_cache {
                source::forget(site, "build_cache", &named, receipt).await?;
            } else if short.is_some_and(|short| !kept.iter().any(|kept| kept == short)) {
                source::forget(site, "build_source", &named, receipt).await?;
            }
        }
        if keep.is_empty() {
            let layers = Reference {
                repository: format!("{}/{CACHE}", at.repository),
                ..at
            };
            for tag in site.registry.tags(&layers).await.map_err(Error::from)? {
                let named = Reference {
                    version: tag,
                    ..layers.clone()
                };
                source::forget(site, "build_cache", &named, receipt).await?;
            }
        }
        Ok(())
    }

    /// Deletes the Jobs and Secrets of this selection, and tells which. Answers whether there was a Job, be it
    /// one that was ending.
    async fn delete_objects(
        &self,
        selector: &str,
        deleted: &mut (dyn FnMut(&str, &str) + Send),
    ) -> Result<bool> {
        let selected = ListParams::default().labels(selector);
        let jobs: Api<Job> = self.api();
        let mut found = false;
        for job in self.listed(&jobs, &selected).await? {
            found = true;
            let name = job.name_any();
            if job.metadata.deletion_timestamp.is_none() && self.delete(&jobs, &name).await? {
                deleted("job", &name);
            }
        }
        if !self.secrets {
            return Ok(found);
        }
        let secrets: Api<Secret> = self.api();
        for secret in self.listed(&secrets, &selected).await? {
            let name = secret.name_any();
            if self.delete(&secrets, &name).await? {
                deleted("secret", &name);
            }
        }
        Ok(found)
    }

    async fn wait_until_gone(&self, selector: &str) -> Result<()> {
        let selected = ListParams::default().labels(selector);
        let (jobs, pods): (Api<Job>, Api<Pod>) = (self.api(), self.api());
        let limit = self.config().remove_ms;
        let until = Instant::now() + Duration::from_millis(limit);
        loop {
            let left = self.listed(&jobs, &selected).await?.len()
                + self.listed(&pods, &selected).await?.len();
            if left == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                let message = format!("a build does not end within remove_ms of {limit} ms");
                return Err(Error::new(ErrorKind::Timeout, message)
                    .with_reason("limit_remove_ms")
                    .at(BACKEND));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn delete<K>(&self, api: &Api<K>, name: &str) -> Result<bool>
    where
        K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let gone = DeleteParams::background();
        match self.cluster.call(api.delete(name, &gone)).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_not_found() => Ok(false),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn listed<K>(
        &self,
        api: &Api<K>,
        selected: &ListParams,
    ) -> Result<Vec<PartialObjectMeta<K>>, Fault>
    where
        K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        match self.cluster.call(api.list_metadata(selected)).await {
            Ok(list) => Ok(list.items),
            Err(fault) if fault.is_not_found() => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }
}
