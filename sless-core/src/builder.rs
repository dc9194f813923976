//! [`Builder`]: build context in, artifact out.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    ByteStream, ChangeStream, Digest, Failure, GetOptions, HeldStream, LogOptions, LogStream,
    Receipt, Result, RuntimeInfo, Storage, StorageKey, resource::FunctionId,
};

/// Makes an artifact that a [`Scheduler`](crate::Scheduler) can run out of a build context.
///
/// Unpacking into a folder, appending a layer to an image, or a build job in a cluster. Backends run
/// `sless_conformance::builder!`; the clauses stand in `docs/contracts/builder.md`.
///
/// # Contract
/// - The same [`BuildId`] never builds twice, also after a crash at any point.
/// - Work goes on between calls; the backend owns it and ends it when it is shut down or dropped.
/// - The same content gives an artifact with the same digest.
#[async_trait]
pub trait Builder: fmt::Debug + Send + Sync + 'static {
    /// What this backend can build.
    fn capabilities(&self) -> BuilderCapabilities;

    /// Sees to it that this build is under way or done, and answers where it is.
    ///
    /// A build that failed for good stays failed under its id; one that failed for a passing reason
    /// ([`BuildStatus::Failed`] with `transient`) is tried again by the next call.
    ///
    /// # Errors
    /// Only if nothing could be found out or begun; a failed build is a value.
    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus>;

    /// Ends a build that is under way, waits until it has ended, and forgets it: the next `ensure`
    /// begins anew. One that is not there is fine; one that is done is left as it is.
    async fn cancel(&self, id: &BuildId) -> Result<()>;

    /// The log of a build, from its beginning. It ends with the build.
    ///
    /// # Errors
    /// `NotFound` if there is no such build, or no log of it any more.
    async fn logs(&self, id: &BuildId, options: &LogOptions) -> Result<LogStream>;

    /// Forgets every build of this function that is not in `keep`, ending those under way, and
    /// removes the artifacts that no build of any function refers to any more. Answers what was
    /// removed; repeated, it removes nothing. With nothing to keep, nothing of the function is left.
    async fn prune(&self, function: &FunctionId, keep: &[BuildId]) -> Result<Receipt>;

    /// Lists what this backend keeps for functions: what [`prune`](Builder::prune) with nothing to keep would
    /// remove, each with its function. What comes or goes meanwhile may be in it or not.
    ///
    /// # Errors
    /// `Unsupported`, in the stream, for each thing that is kept and cannot be listed; the rest is.
    fn held(&self) -> HeldStream;

    /// Hints that a build of this function may have moved on.
    fn changes(&self) -> ChangeStream;
}

/// What a [`Builder`] can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuilderCapabilities {
    /// Whether it installs dependencies. One that does not is asked only where there are none.
    pub installs: bool,
    /// The kind of the artifacts that it makes.
    pub artifacts: ArtifactKind,
}

impl BuilderCapabilities {
    /// A builder of such artifacts that installs nothing.
    pub const fn new(artifacts: ArtifactKind) -> Self {
        Self {
            installs: false,
            artifacts,
        }
    }

    /// Says that it installs dependencies.
    #[must_use]
    pub const fn with_installs(mut self) -> Self {
        self.installs = true;
        self
    }
}

/// What names a build: the same three name the same build.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BuildId {
    /// The function that the code belongs to.
    pub function: FunctionId,
    /// The digest of the source.
    pub code: Digest,
    /// The version of the runtime that it is built for, such as `v0.1.0`.
    pub runtime_version: String,
    /// 0, and one more each time that somebody asked for a failed build again.
    pub attempt: u32,
}

impl BuildId {
    /// A short name for files, jobs and labels: 16 hex digits of a hash of all parts.
    pub fn short(&self) -> String {
        let Self {
            function,
            code,
            runtime_version,
            attempt,
        } = self;
        let text = format!("{}\n{code}\n{runtime_version}\n{attempt}", function.uid);
        Digest::of(text.as_bytes()).hex()[..16].to_owned()
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.function, self.short())
    }
}

/// What to build.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildRequest {
    /// The build.
    pub id: BuildId,
    /// The runtime that it is built for, with the image that builders of images start from. The
    /// Dockerfile in the context was written at the upload, and may name an older one.
    pub runtime: RuntimeInfo,
    /// Whether the source asks for something to be installed.
    pub installs: bool,
    /// The build context.
    pub context: ContextRef,
    /// How long the build may take.
    pub timeout: Duration,
}

impl BuildRequest {
    /// How long a build may take where nothing else is said.
    pub const TIMEOUT: Duration = Duration::from_secs(20 * 60);

    /// A request with the default time.
    pub const fn new(
        id: BuildId,
        runtime: RuntimeInfo,
        installs: bool,
        context: ContextRef,
    ) -> Self {
        Self {
            id,
            runtime,
            installs,
            context,
            timeout: Self::TIMEOUT,
        }
    }

    /// How long the build may take.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A stored build context, and how to read it.
///
/// A builder reads through this and holds no key of the store.
#[derive(Clone, Debug)]
pub struct ContextRef {
    /// The store.
    pub storage: Arc<dyn Storage>,
    /// The context's key.
    pub key: StorageKey,
}

impl ContextRef {
    /// Reads the context: a tar.gz whose first entry is the Dockerfile.
    ///
    /// # Errors
    /// Those of [`Storage::get`].
    pub async fn open(&self) -> Result<ByteStream> {
        Ok(self
            .storage
            .get(&self.key, &GetOptions::default())
            .await?
            .body)
    }
}

/// Where a build is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildStatus {
    /// It waits for its turn.
    Queued,
    /// It is under way.
    Running {
        /// What it is doing, such as `pip install`.
        step: String,
    },
    /// It is done.
    Succeeded {
        /// What it made.
        artifact: Artifact,
        /// When it was done.
        built_at: Timestamp,
    },
    /// It failed.
    Failed {
        /// Why.
        failure: Failure,
        /// Whether the next `ensure` tries again.
        transient: bool,
    },
}

/// What a build made. Opaque but for its digest and kind: only the scheduler that fits reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Artifact {
    /// The kind.
    pub kind: ArtifactKind,
    /// Where it is: a path, an image by digest.
    pub reference: String,
    /// The digest of its content.
    pub digest: Digest,
}

/// The kind of an [`Artifact`]; builder and scheduler must agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ArtifactKind {
    /// A name in the memory of this process.
    Memory,
    /// A folder of this machine.
    Folder,
    /// An image of a registry.
    Image,
}
