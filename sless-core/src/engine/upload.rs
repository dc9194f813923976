//! From an uploaded zip to a function that names it.

use std::{
    fs::File,
    io::{Read as _, Seek as _, Write as _},
};

use futures::StreamExt as _;
use serde::{Deserialize, Serialize};

use super::{Engine, Threads, annotation, points};
use crate::{
    ByteStream, CatalogExt as _, Digest, Error, ErrorKind, Function, FunctionPhase, Name,
    Namespace, PutOptions, Result, StorageKey, ValidationAction, ValidationFailure, Verdict, clock,
    resource::{FunctionStatus, Verification},
    source::{ContextInfo, SourceArchive, SourceTree, context},
};

/// What became of an upload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Upload {
    /// The digest of the source.
    pub digest: Digest,
    /// The key of the stored build context.
    pub s3_key: String,
    /// Whether the function had this very source already, so that nothing was stored.
    pub unchanged: bool,
    /// What the validator said; absent where nobody is asked.
    pub verification: Option<Verification>,
    /// What the uploader should know: that nobody could look, that files were left out.
    pub warnings: Vec<String>,
}

impl Engine {
    /// Takes a zip: checks it, has it looked at, stores it, and tells the function.
    pub(super) async fn upload(
        &self,
        namespace: &Namespace,
        name: &Name,
        zip: ByteStream,
    ) -> Result<Upload> {
        let clock = &*self.backends.clock;
        let waited = clock::timeout(clock, self.options.upload_wait, self.uploads.acquire()).await;
        let Ok(Ok(_place)) = waited else {
            let limit = self.options.uploads_at_once;
            let message = format!("limit uploads_at_once of {limit} reached");
            return Err(
                Error::new(ErrorKind::Overloaded, message).with_reason("limit_uploads_at_once")
            );
        };

        let function: Function = self.backends.catalog.read(namespace, name).await?;
        let limits = self.options.source_limits.clone();
        let threads = self.threads();
        let zip = spool(threads, zip, limits.zip_bytes).await?;
        let (zip, tree) = super::blocking(threads, move || {
            let tree = SourceArchive::open(&zip, &limits)?;
            // Reading has moved the position from which the zip is stored.
            (&zip).rewind().map_err(spool_failed)?;
            Ok((zip, tree))
        })
        .await?;
        let digest = tree.digest();
        let mut warnings: Vec<String> = tree
            .skipped()
            .iter()
            .map(|path| format!("{path} was left out"))
            .collect();

        if let Some(s3_key) = already_there(&function, digest) {
            // Whoever looked then may have been somebody else, and the policy another one.
            let verification = self.verify(&function, &tree, &mut warnings).await?;
            if let Some(verification) = &verification {
                self.note(&function, verification).await?;
            }
            return Ok(Upload {
                digest,
                s3_key,
                unchanged: true,
                verification,
                warnings,
            });
        }
        let runtime = self
            .options
            .runtimes
            .info(function.spec.runtime, function.spec.entrypoint.clone())?;
        let (tree, info, context) = super::blocking(threads, move || {
            let mut file = tempfile::tempfile().map_err(spool_failed)?;
            let info = context::write(&tree, &runtime, &mut file)?;
            file.rewind().map_err(spool_failed)?;
            Ok((tree, info, file))
        })
        .await?;
        let verification = self.verify(&function, &tree, &mut warnings).await?;
        let s3_key = self.store(namespace, name, zip, context).await?;
        points::ADOPT_BEFORE.pass();
        self.adopt(&function, &s3_key, &info).await?;
        points::ADOPT_AFTER.pass();
        if let Some(verification) = &verification {
            self.note(&function, verification).await?;
        }
        let s3_key = s3_key.as_str().to_owned();
        Ok(Upload {
            digest,
            s3_key,
            unchanged: false,
            verification,
            warnings,
        })
    }

    /// Has the source looked at, and refuses it where the policy says so. `None` where nobody is asked.
    async fn verify(
        &self,
        function: &Function,
        source: &SourceTree,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Verification>> {
        let policy = self.options.validation;
        if policy.action == ValidationAction::Off {
            return Ok(None);
        }
        let verification = self.look(function, source, warnings).await?;
        if verification.verdict == Verdict::UNSAFE {
            let reason = &verification.reason;
            if policy.action == ValidationAction::Block {
                let message = format!("code validation failed: {reason}");
                return Err(Error::invalid(message).with_reason("code_validation_failed"));
            }
            warnings.push(format!("the code was found unsafe: {reason}"));
        }
        Ok(Some(verification))
    }

    /// The verdict on a source: the one that is kept, where the same validator has looked at the same
    /// files, or a new one. That nobody looked is asked again each time.
    async fn look(
        &self,
        function: &Function,
        source: &SourceTree,
        warnings: &mut Vec<String>,
    ) -> Result<Verification> {
        let validator = &self.backends.validator;
        let (digest, identity) = (source.digest(), validator.identity());
        let kept = function.status.verification.as_ref();
        let kept = kept.filter(|kept| kept.digest == digest && kept.by == identity);
        if let Some(kept) = kept.filter(|kept| kept.verdict != Verdict::SKIPPED) {
            return Ok(kept.clone());
        }
        let clock = &*self.backends.clock;
        let asked = validator.validate(source, function.spec.runtime);
        let answered = clock::timeout(clock, self.options.validation_timeout, asked).await;
        let verdict = match answered.and_then(|verdict| verdict) {
            Ok(verdict) => verdict,
            Err(error) if self.options.validation.on_failure == ValidationFailure::Soft => {
                tracing::warn!(error = %error.chain(), "code was accepted without a verdict");
                let reason = format!("the code was not validated: {}", error.message());
                warnings.push(reason.clone());
                Verdict::Skipped { reason }
            }
            Err(error) => {
                let message = "the code could not be validated; try again";
                return Err(Error::unavailable(message)
                    .with_reason("validation_unavailable")
                    .with_source(error));
            }
        };
        let found = Verification {
            digest,
            verdict: verdict.as_str().to_owned(),
            reason: verdict.reason().to_owned(),
            by: identity,
            at: clock.now(),
        };
        // The same as before keeps its time, and writes no status.
        let same =
            |kept: &&Verification| kept.verdict == found.verdict && kept.reason == found.reason;
        Ok(kept.filter(same).cloned().unwrap_or(found))
    }

    /// Stores zip and context, and answers the context's key.
    async fn store(
        &self,
        namespace: &Namespace,
        name: &Name,
        zip: File,
        context: File,
    ) -> Result<StorageKey> {
        let now = self.backends.clock.now();
        let random = self.new_name();
        // The time first, so that keys sort by age; the rest keeps two uploads of one moment apart.
        let suffix = &random.as_str()[..8];
        let stamp = format!("{}-{suffix}", now.strftime("%Y%m%dT%H%M%S%3fZ"));
        let source_key = StorageKey::source(namespace, name, &stamp)?;
        let context_key = StorageKey::context(namespace, name, &stamp)?;
        for (key, file, media_type) in [
            (&source_key, zip, "application/zip"),
            (&context_key, context, "application/gzip"),
        ] {
            let options = PutOptions::default().with_content_type(media_type);
            self.backends
                .storage
                .put(key, read_file(self.threads(), file), &options)
                .await?;
        }
        Ok(context_key)
    }

    /// Tells the function of its new code.
    async fn adopt(&self, function: &Function, key: &StorageKey, info: &ContextInfo) -> Result<()> {
        let metadata = &function.metadata;
        let uid = &metadata.uid;
        let failed_build = function.spec.code_sha256 == Some(info.digest);
        let changed = self
            .backends
            .catalog
            .modify(&metadata.namespace, &metadata.name, |now: &mut Function| {
                if now.metadata.uid != *uid {
                    return Err(Error::conflict(
                        "the function was deleted and created again",
                    ));
                }
                if now.metadata.is_deleting() {
                    return Err(Error::not_found("the function is being deleted"));
                }
                if now.spec.runtime != function.spec.runtime {
                    return Err(Error::conflict(
                        "the function's runtime was changed meanwhile",
                    ));
                }
                now.spec.s3_key = Some(key.as_str().to_owned());
                now.spec.code_sha256 = Some(info.digest);
                let installs =
                    annotation::write_installs(!info.dependencies.is_none(), now.spec.runtime);
                let notes = &mut now.metadata.annotations;
                notes.insert(annotation::INSTALLS.to_owned(), installs);
                if failed_build {
                    let attempt = notes.get(annotation::BUILD_ATTEMPT);
                    let attempt = attempt
                        .and_then(|text| text.parse::<u32>().ok())
                        .unwrap_or(0);
                    notes.insert(
                        annotation::BUILD_ATTEMPT.to_owned(),
                        (attempt + 1).to_string(),
                    );
                }
                Ok(())
            })
            .await;
        let Err(error) = changed else {
            return Ok(());
        };
        if !is_refusal(&error) {
            // It may have been written all the same, and only the answer was lost.
            let found = self
                .backends
                .catalog
                .find(&metadata.namespace, &metadata.name)
                .await;
            return match found {
                Ok(Some(now)) if names(&now, uid, key) => Ok(()),
                // What is not known to be nobody's stays. It goes with the next version's tidying up,
                // or when sources are looked for whose function is gone.
                _ => Err(error),
            };
        }
        // Nobody names what was stored: it goes.
        for key in [Ok(key.clone()), key.source_of_context()]
            .into_iter()
            .flatten()
        {
            if let Err(error) = self.backends.storage.delete(&key).await {
                tracing::warn!(%key, error = %error.chain(), "a refused upload was left in storage");
            }
        }
        Err(error)
    }

    /// Keeps a verdict with the function.
    async fn note(&self, function: &Function, verification: &Verification) -> Result<()> {
        let metadata = &function.metadata;
        for _ in 0..crate::catalog::MODIFY_ATTEMPTS {
            let now: Function = self
                .backends
                .catalog
                .read(&metadata.namespace, &metadata.name)
                .await?;
            if now.status.verification.as_ref() == Some(verification) {
                return Ok(());
            }
            let status = FunctionStatus {
                verification: Some(verification.clone()),
                ..now.status.clone()
            };
            match self
                .backends
                .catalog
                .update_status(Function { status, ..now }.into())
                .await
            {
                Err(error) if error.is_conflict() => {}
                other => return other.map(drop),
            }
        }
        // The verdict is in the answer too; the next upload asks again.
        Ok(())
    }
}

/// Whether an error of a write says that nothing was written.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Invalid
            | ErrorKind::Unauthenticated
            | ErrorKind::PermissionDenied
            | ErrorKind::NotFound
            | ErrorKind::AlreadyExists
            | ErrorKind::Conflict
            | ErrorKind::LimitExceeded
    )
}

fn names(function: &Function, uid: &crate::Uid, key: &StorageKey) -> bool {
    function.metadata.uid == *uid && function.spec.s3_key.as_deref() == Some(key.as_str())
}

/// The context of what the function has already, unless that failed and is to be tried again.
fn already_there(function: &Function, digest: Digest) -> Option<String> {
    let s3_key = function.spec.s3_key.clone()?;
    let same = function.spec.code_sha256 == Some(digest);
    (same && function.status.phase != FunctionPhase::Failed).then_some(s3_key)
}

/// Writes a stream into an unnamed temporary file, at most `limit` bytes of it, and goes to its
/// beginning.
pub(super) async fn spool(threads: Threads, mut stream: ByteStream, limit: u64) -> Result<File> {
    let mut file = super::blocking(threads, || tempfile::tempfile().map_err(spool_failed)).await?;
    let mut size = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        size += chunk.len() as u64;
        if size > limit {
            return Err(Error::limit("zip_bytes", limit, "bytes"));
        }
        file = super::blocking(threads, move || {
            file.write_all(&chunk).map_err(spool_failed)?;
            Ok(file)
        })
        .await?;
    }
    super::blocking(threads, move || {
        file.rewind().map_err(spool_failed)?;
        Ok(file)
    })
    .await
}

/// The bytes that a file is read by.
const CHUNK: usize = 64 * 1024;

fn read_file(threads: Threads, file: File) -> ByteStream {
    let chunks = futures::stream::unfold(Some(file), move |file| async move {
        let mut file = file?;
        let read = super::blocking(threads, move || {
            let mut chunk = vec![0; CHUNK];
            let size = file.read(&mut chunk).map_err(spool_failed)?;
            chunk.truncate(size);
            Ok((chunk, file))
        });
        match read.await {
            Ok((chunk, _)) if chunk.is_empty() => None,
            Ok((chunk, file)) => Some((Ok(chunk.into()), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    });
    chunks.boxed()
}

fn spool_failed(cause: std::io::Error) -> Error {
    Error::unavailable("the folder for temporary files cannot be used")
        .with_reason("spool_failed")
        .with_source(cause)
}
