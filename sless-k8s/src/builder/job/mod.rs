//! Builds that are Jobs: [`BuildKitBuilder`] and [`KanikoBuilder`].
//!
//! The source goes into the registry as an image without a system ([`source`]), and a Job, which gets a
//! [`dockerfile`] along, makes the image and pushes it under a tag that names the build. The registry's word
//! for what that tag is, and not the Job's, is what counts. A Job that a process left behind is taken up by
//! the next one that is asked for the same build.

mod buildkit;
mod config;
mod credentials;
mod dockerfile;
mod ended;
mod follow;
mod kaniko;
mod network;
mod output;
mod plan;
mod remove;
mod source;
mod start;
mod why;

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use sless_core::{
    BuildId, BuildRequest, Clock, Digest, Error, Failure, FunctionId, Receipt, Result, reason,
    source::{Dependencies, SourceTree},
};
use tokio::sync::Semaphore;

pub use self::config::{
    BuildCache, BuildKitConfig, BuildKitMode, BuildTool, BuildsConfig, KanikoConfig,
};
use self::{
    dockerfile::{Passing, Recipe},
    plan::Work,
};
use super::builds::{BUILT, Broken, Builds, Maker, Progress, Site, image_tag, unreadable};
use crate::{Cluster, LayerBuilderConfig, registry::Reference};

/// Builds with BuildKit in a Job, whatever a source asks for.
#[derive(Debug)]
pub struct BuildKitBuilder(Builds);

super::builder!(BuildKitBuilder);

/// Builds with kaniko in a Job, whatever a source asks for.
///
/// Upstream's kaniko is archived; the image in the settings is one of its successors, such as
/// `ghcr.io/osscontainertools/kaniko`. The tests of sless cannot have one, and run a small program that
/// takes the same arguments.
#[derive(Debug)]
pub struct KanikoBuilder(Builds);

super::builder!(KanikoBuilder);

impl BuildKitBuilder {
    /// A builder with the settings of [`K8sConfig::builds`](crate::K8sConfig). No request is made yet.
    ///
    /// # Errors
    /// `Invalid` where a name in the settings is missing or cannot be one.
    pub fn new(
        cluster: Cluster,
        images: LayerBuilderConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let maker = JobMaker::new(cluster, &images, BuildTool::BuildKit)?;
        let site = Site::new(images, clock)?;
        Ok(Self(Builds::new(site, Box::new(maker))))
    }
}

impl KanikoBuilder {
    /// A builder with the settings of [`K8sConfig::builds`](crate::K8sConfig). No request is made yet.
    ///
    /// # Errors
    /// `Invalid` where a name in the settings is missing or cannot be one.
    pub fn new(
        cluster: Cluster,
        images: LayerBuilderConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let maker = JobMaker::new(cluster, &images, BuildTool::Kaniko)?;
        let site = Site::new(images, clock)?;
        Ok(Self(Builds::new(site, Box::new(maker))))
    }
}

/// Makes images by Jobs.
#[derive(Debug)]
pub(super) struct JobMaker {
    cluster: Cluster,
    tool: BuildTool,
    places: Semaphore,
    /// What pods of builds call the registry of functions' images.
    host: String,
    /// Whether Jobs get Secrets of their own.
    secrets: bool,
}

impl JobMaker {
    pub(super) fn new(
        cluster: Cluster,
        images: &LayerBuilderConfig,
        tool: BuildTool,
    ) -> Result<Self> {
        let config = &cluster.config().builds;
        let required = [
            ("builds.namespace", &config.namespace),
            match tool {
                BuildTool::BuildKit => ("builds.buildkit.image", &config.buildkit.image),
                BuildTool::Kaniko => ("builds.kaniko.image", &config.kaniko.image),
            },
        ];
        for (name, value) in required {
            if value.is_empty() {
                let message = format!("{name} is not set: expected a name");
                return Err(Error::invalid(message).with_reason("builder_settings"));
            }
        }
        let pulled = images.pull_repository.as_ref();
        let named: Reference = pulled.unwrap_or(&images.repository).parse()?;
        Ok(Self {
            host: config.registry.clone().unwrap_or(named.host),
            secrets: config.registry_secret.is_none() && !images.registry.credentials.is_empty(),
            places: Semaphore::new(config.at_once.max(1)),
            cluster,
            tool,
        })
    }

    fn config(&self) -> &BuildsConfig {
        &self.cluster.config().builds
    }

    /// An image as pods of builds call it.
    fn seen(&self, site: &Site, image: Reference) -> Reference {
        if image.host != site.repository.host {
            return image;
        }
        Reference {
            host: self.host.clone(),
            ..image
        }
    }

    /// What the Job is to do.
    async fn work(
        &self,
        site: &Site,
        request: &BuildRequest,
        tree: SourceTree,
        dependencies: &Dependencies,
    ) -> Result<Work, Broken> {
        let (base, platform) = source::base(site, &request.runtime.image).await?;
        let digest = source::push(site, &request.id, tree.clone(), &platform).await?;
        let here = site.of(&request.id.function);
        let (base, from) = (self.seen(site, base), self.seen(site, here.at(digest)));
        let config = self.config();
        let variables: Vec<&str> = config
            .env
            .keys()
            .chain(config.secret_env.keys())
            .map(String::as_str)
            .collect();
        let recipe = Recipe {
            request,
            tree: &tree,
            dependencies,
            base: &base,
            source: &from,
            passing: match self.tool {
                BuildTool::BuildKit => Passing::Secrets,
                BuildTool::Kaniko => Passing::Arguments,
            },
            variables: variables.clone(),
        };
        let dockerfile = recipe.text();
        let spoken = &site.config.registry.plain_http;
        let plain = |image: &Reference, seen: &Reference| {
            spoken.contains(&image.host) || spoken.contains(&seen.host)
        };
        let target = self.seen(site, source::named(site, &request.id, BUILT));
        let mut plain_http = BTreeSet::new();
        if plain(&site.repository, &target) {
            plain_http.insert(target.host.clone());
        }
        if spoken.contains(&base.host) {
            plain_http.insert(base.host.clone());
        }
        // Code is copied sooner than a copy of it is found, and a layer out of the cache keeps the times that
        // its files had, so that an image would not be the same each time.
        let kept = config.cache == BuildCache::Registry && !dependencies.is_none();
        let cache = kept.then(|| Reference {
            version: source::CACHE.to_owned(),
            ..target.clone()
        });
        Ok(Work {
            id: request.id.clone(),
            dockerfile,
            cache,
            plain_http,
            variables: variables.into_iter().map(str::to_owned).collect(),
            secret: None,
            seconds: request.timeout.as_secs().max(1),
            base,
            target,
        })
    }

    /// The image that the Job pushed, under the name that keeps it.
    async fn pushed(&self, site: &Site, id: &BuildId) -> Result<Digest, Broken> {
        let at = source::named(site, id, BUILT);
        let Some((kind, bytes)) = site.registry.manifest(&at).await.map_err(Error::from)? else {
            let message = "the build's Job ended well, and its image is not in the registry";
            let failure = Failure::new(reason::BACKEND_UNAVAILABLE, message);
            return Err(Broken::Later(failure));
        };
        let digest = Digest::of(&bytes);
        let named = Reference {
            version: image_tag(digest),
            ..at
        };
        site.registry
            .put_manifest(&named, &kind, bytes)
            .await
            .map_err(Error::from)?;
        Ok(digest)
    }
}

#[async_trait]
impl Maker for JobMaker {
    fn installs(&self) -> bool {
        true
    }

    fn places(&self, _: &BuildRequest) -> &Semaphore {
        &self.places
    }

    async fn make(
        &self,
        site: &Site,
        request: &BuildRequest,
        progress: &Progress,
    ) -> Result<Digest, Broken> {
        progress.step("reading the source");
        let tree = site.source(request).await?;
        let runtime = request.runtime.runtime;
        let dependencies = if request.installs {
            Dependencies::detect(runtime, &tree).map_err(unreadable)?
        } else {
            Dependencies::None
        };
        let asked = tree.read(runtime.manifest()).unwrap_or_default();
        let asked = String::from_utf8_lossy(&asked).into_owned();
        if let Dependencies::Node { .. } = dependencies
            && let Some(message) = why::not_in_source(&asked, &tree)
        {
            let failure = Failure::new(reason::INSTALL_FAILED, message.clone());
            return Err(Broken::Failed(failure.with_log(&message)));
        }
        let work = self.work(site, request, tree, &dependencies).await?;
        progress.step("starting a build");
        let job = self.start(site, work).await?;
        let followed = self.follow(&job, progress).await;
        let verdict = match followed {
            Ok(run) => ended::verdict(&run, &dependencies, &asked),
            Err(broken) => Err(broken),
        };
        let made = match verdict {
            Ok(()) => self.pushed(site, &request.id).await,
            Err(broken) => Err(broken),
        };
        // What cannot be reached now is removed by the next one, by pruning, or by the cluster itself.
        if let Err(error) = self.tidy(site, &request.id).await {
            tracing::warn!(build = %request.id, error = %error.chain(), "something of a build was left");
        }
        made
    }

    async fn abandon(&self, site: &Site, id: &BuildId) -> Result<()> {
        self.end(site, id).await
    }

    async fn clear(
        &self,
        site: &Site,
        function: &FunctionId,
        keep: &[BuildId],
        receipt: &mut Receipt,
    ) -> Result<()> {
        self.remove(site, function, keep, receipt).await
    }
}
