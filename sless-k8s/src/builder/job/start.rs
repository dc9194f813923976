//! Creating the Job, or taking up the one that is there.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Secret, networking::v1::NetworkPolicy};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use sless_core::{Error, Failure, reason};

use super::{
    BuildTool, JobMaker, buildkit, credentials, kaniko,
    network::{self, POLICY},
    plan::{self, Work},
};
use crate::{
    builder::builds::{Broken, Site},
    error::Fault,
    names,
    scheduler::failure,
};

/// A Job that was begun.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) name: String,
    pub(super) uid: String,
    /// The short name of its build.
    pub(super) build: String,
}

impl JobMaker {
    /// Sees to it that the Job is there.
    pub(super) async fn start(&self, site: &Site, mut work: Work) -> Result<Begun, Broken> {
        let (name, build) = (names::build(&work.id), work.id.short());
        let jobs: Api<Job> = self.api();
        for _ in 0..STARTS {
            let found = self.cluster.call(jobs.get_opt(&name)).await;
            match found.map_err(Error::from)? {
                Some(job) if job.metadata.deletion_timestamp.is_none() => {
                    let uid = job.metadata.uid.unwrap_or_default();
                    return Ok(Begun { name, uid, build });
                }
                // An earlier one of the same build is ending.
                Some(_) => tokio::time::sleep(LOOK_AGAIN).await,
                None => match self.create(site, &mut work).await {
                    Ok(job) => {
                        let uid = job.metadata.uid.unwrap_or_default();
                        return Ok(Begun { name, uid, build });
                    }
                    Err(fault) if fault.is_already_exists() => {}
                    Err(fault) => return Err(self.refused(fault)),
                },
            }
        }
        Err(Broken::Passing(Error::conflict(
            "an earlier Job of this build does not end",
        )))
    }

    async fn create(&self, site: &Site, work: &mut Work) -> Result<Job, Fault> {
        let config = self.config();
        self.ensure_policy().await?;
        work.secret = self.credentials(site, work).await?;
        let plan = match self.tool {
            BuildTool::BuildKit => buildkit::plan(&config.buildkit, work),
            BuildTool::Kaniko => kaniko::plan(&config.kaniko, work),
        };
        let job = read("job", plan::job(config, work, &plan))?;
        self.cluster
            .call(self.api::<Job>().create(&self.params(), &job))
            .await
    }

    /// The Secret with what the Job pulls and pushes with; none where the registries ask for nothing.
    async fn credentials(&self, site: &Site, work: &Work) -> Result<Option<String>, Fault> {
        let config = self.config();
        if let Some(secret) = &config.registry_secret {
            return Ok(Some(secret.clone()));
        }
        let known = &site.config.registry.credentials;
        let of_images = (&*work.target.host, known.get(&site.repository.host));
        let of_base = (&*work.base.host, known.get(&work.base.host));
        let all = [of_base, of_images];
        let needed = all
            .into_iter()
            .filter_map(|(host, found)| found.map(|found| (host, found)));
        let Some(secret) = credentials::secret(config, &work.id, needed) else {
            return Ok(None);
        };
        let name = names::build(&work.id);
        let secret: Secret = read("secret", secret)?;
        let created = self.api::<Secret>().create(&self.params(), &secret).await;
        match created.map_err(Fault::from) {
            Err(fault) if !fault.is_already_exists() => Err(fault),
            _ => Ok(Some(name)),
        }
    }

    async fn ensure_policy(&self) -> Result<(), Fault> {
        let config = self.config();
        if !config.network.policies {
            return Ok(());
        }
        let policy = network::policy(config);
        let api: Api<NetworkPolicy> = self.api();
        let mut params = PatchParams::apply(&self.cluster.config().field_manager).force();
        params.field_validation = Some(kube::api::ValidationDirective::Strict);
        let patch = Patch::Apply(&policy);
        self.cluster
            .call(api.patch(POLICY, &params, &patch))
            .await
            .map(drop)
    }

    /// Why there can be no Job. None of it is the code's fault, so that it is tried again.
    fn refused(&self, fault: Fault) -> Broken {
        let Some(status) = fault.status() else {
            return Broken::Passing(fault.into());
        };
        match status.code {
            404 if status.message.contains("namespaces") => {
                let place = &self.config().namespace;
                let message = format!("the namespace of builds, {place}, is not there");
                Broken::Later(Failure::new(reason::NAMESPACE_MISSING, message))
            }
            400 | 403 | 422 if !status.message.contains("because it is being terminated") => {
                Broken::Later(failure::of_refusal(&status.message))
            }
            _ => Broken::Passing(fault.into()),
        }
    }

    fn params(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.cluster.config().field_manager.clone()),
            ..PostParams::default()
        }
    }

    /// The objects of one kind in the namespace of builds.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), &self.config().namespace)
    }
}

/// How often an ending Job is looked at until it counts as one that does not end.
const STARTS: usize = 100;
/// The pause in between.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

fn read<K: serde::de::DeserializeOwned>(
    what: &'static str,
    object: serde_json::Value,
) -> Result<K, Fault> {
    serde_json::from_value(object).map_err(|source| Fault::Unreadable { what, source })
}
