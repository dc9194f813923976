//! What an embedding program does in one call: create or change a function, upload, wait.

use bytes::Bytes;

use super::{Engine, Upload};
use crate::{
    CatalogExt as _, Ensured, Error, Function, FunctionPhase, FunctionSpec, Metadata, Name,
    Namespace, Result, bytes_stream,
    source::{SourceTree, pack},
};

/// A function to deploy: where, how it is to run, and its code.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Deploy {
    /// The namespace; made if it is not there.
    pub namespace: Namespace,
    /// The function's name.
    pub name: Name,
    /// How it is to run.
    pub spec: FunctionSpec,
    /// The zip with its code.
    pub zip: Bytes,
}

impl Deploy {
    /// A function of a zip.
    pub fn zip(
        namespace: Namespace,
        name: Name,
        spec: FunctionSpec,
        zip: impl Into<Bytes>,
    ) -> Self {
        Self {
            namespace,
            name,
            spec,
            zip: zip.into(),
        }
    }

    /// A function of files, given by their paths and contents.
    ///
    /// # Errors
    /// Those of [`SourceTree::from_files`].
    pub fn files<P, B>(
        namespace: Namespace,
        name: Name,
        spec: FunctionSpec,
        files: impl IntoIterator<Item = (P, B)>,
    ) -> Result<Self>
    where
        P: Into<String>,
        B: Into<Bytes>,
    {
        let tree = SourceTree::from_files(files)?;
        let zip = pack::write_zip(&tree, std::io::Cursor::new(Vec::new()))?.into_inner();
        Ok(Self::zip(namespace, name, spec, zip))
    }
}

impl Engine {
    pub(super) async fn ensure_namespace(&self, namespace: &Namespace) -> Result<Ensured> {
        let ensured = self.backends.catalog.ensure_namespace(namespace).await?;
        self.backends.scheduler.ensure_namespace(namespace).await?;
        Ok(ensured)
    }

    /// Creates the function or changes its spec, the code aside.
    pub(super) async fn put_function(
        &self,
        namespace: &Namespace,
        name: &Name,
        spec: &FunctionSpec,
    ) -> Result<Function> {
        let catalog = &self.backends.catalog;
        let wanted = Function::new(Metadata::new(namespace.clone(), name.clone()), spec.clone());
        match catalog.add(wanted).await {
            Err(error) if error.kind() == crate::ErrorKind::AlreadyExists => {}
            other => return other,
        }
        let changed = catalog.modify(namespace, name, |function: &mut Function| {
            let code = (
                function.spec.s3_key.take(),
                function.spec.code_sha256.take(),
            );
            function.spec = spec.clone();
            (function.spec.s3_key, function.spec.code_sha256) = code;
            Ok(())
        });
        changed.await
    }

    pub(super) async fn deploy(&self, deploy: Deploy) -> Result<(Function, Upload)> {
        let Deploy {
            namespace,
            name,
            spec,
            zip,
        } = deploy;
        self.ensure_namespace(&namespace).await?;
        self.put_function(&namespace, &name, &spec).await?;
        let upload = self.upload(&namespace, &name, bytes_stream(zip)).await?;
        let function = self.wait_until_settled(&namespace, &name).await?;
        match function.status.phase {
            FunctionPhase::Failed => Err(Error::unavailable(function.status.message.clone())
                .with_reason(function.status.reason.clone())
                .with_retry(crate::Retry::Never)
                .during("function.deploy")
                .on(format_args!("{namespace}/{name}"))),
            _ => Ok((function, upload)),
        }
    }

    /// Waits until the wanted version of a function is ready, stopped or failed.
    pub(super) async fn wait_until_settled(
        &self,
        namespace: &Namespace,
        name: &Name,
    ) -> Result<Function> {
        use futures::StreamExt as _;

        loop {
            let mut watch = self
                .backends
                .catalog
                .watch(&crate::WatchOptions::default())
                .await?;
            loop {
                let function: Function = self.backends.catalog.read(namespace, name).await?;
                let settled = matches!(
                    function.status.phase,
                    FunctionPhase::Ready | FunctionPhase::Failed | FunctionPhase::Stopped
                );
                if settled && function.status.observed_generation == function.metadata.generation {
                    return Ok(function);
                }
                // Until something of this function changed; an error means that hints were lost.
                let hinted = loop {
                    match watch.next().await {
                        Some(Ok(crate::WatchEvent::Changed { key, .. })) => {
                            if key.name == *name && key.namespace == *namespace {
                                break true;
                            }
                        }
                        Some(Ok(crate::WatchEvent::Bookmark(_))) => {}
                        Some(Err(_)) | None => break false,
                    }
                };
                if !hinted {
                    break;
                }
            }
            self.backends.clock.sleep(self.options.backoff_min).await;
        }
    }
}
