//! Builders of images.
//!
//! What they have in common is [`builds`]: which builds there are, what the registry remembers of them,
//! and how they are pruned. What differs is how an image is made: [`layer`] puts the code on the runtime's
//! image from here, [`job`] lets a Job in the cluster do it, and [`kube`] takes the one that a source needs.

mod builds;
mod job;
mod kube;
mod layer;

pub use job::{
    BuildCache, BuildKitBuilder, BuildKitConfig, BuildKitMode, BuildTool, BuildsConfig,
    KanikoBuilder, KanikoConfig,
};
pub use kube::KubeBuilder;
pub use layer::{LayerBuilder, LayerBuilderConfig};

/// Makes a public type a [`Builder`](sless_core::Builder) by its [`Builds`](builds::Builds).
macro_rules! builder {
    ($builder:ident) => {
        impl $builder {
            /// Whether an image that was built here is still in the registry.
            ///
            /// # Errors
            /// If the registry does not say.
            pub async fn keeps(&self, artifact: &sless_core::Artifact) -> sless_core::Result<bool> {
                self.0.keeps(artifact).await
            }

            /// Ends the work on builds in this process. What runs in the cluster runs on, and is taken
            /// up by the next `ensure`; everything else begins anew with it.
            pub async fn shutdown(&self) {
                self.0.shutdown().await;
            }
        }

        #[async_trait::async_trait]
        impl sless_core::Builder for $builder {
            fn capabilities(&self) -> sless_core::BuilderCapabilities {
                self.0.capabilities()
            }

            async fn ensure(
                &self,
                request: &sless_core::BuildRequest,
            ) -> sless_core::Result<sless_core::BuildStatus> {
                self.0.ensure(request).await
            }

            async fn cancel(&self, id: &sless_core::BuildId) -> sless_core::Result<()> {
                self.0.cancel(id).await
            }

            async fn logs(
                &self,
                id: &sless_core::BuildId,
                options: &sless_core::LogOptions,
            ) -> sless_core::Result<sless_core::LogStream> {
                self.0.logs(id, options).await
            }

            async fn prune(
                &self,
                function: &sless_core::FunctionId,
                keep: &[sless_core::BuildId],
            ) -> sless_core::Result<sless_core::Receipt> {
                self.0.prune(function, keep).await
            }

            /// The Jobs of builds are listed by the scheduler, with all other Jobs.
            fn held(&self) -> sless_core::HeldStream {
                let sentence = "images and records of builds in a registry cannot be listed";
                sless_core::Held::nothing_listed(crate::error::BACKEND, sentence)
            }

            fn changes(&self) -> sless_core::ChangeStream {
                self.0.changes()
            }
        }
    };
}
use builder;
