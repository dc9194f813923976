//! Writes a context.

use std::io::{self, Read, Write};

use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

use super::{DOCKERFILE, MTIME, dockerfile};
use crate::{
    Digest, Error, Result,
    runtime::RuntimeInfo,
    source::{Dependencies, SourceTree},
};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextInfo {
    /// The digest of the source: what names the deploy.
    pub digest: Digest,
    /// What its build installs.
    pub dependencies: Dependencies,
    /// The Dockerfile.
    pub dockerfile: String,
    /// Bytes of the tar.gz.
    pub size: u64,
    /// SHA-256 of the tar.gz. It can differ between builds of sless; see [the module](super).
    pub sha256: Digest,
}

/// Writes the context of a source.
///
/// Fails before the first byte where the entrypoint's file is missing or the runtime's manifest
/// cannot be read. Otherwise only the writer fails; what it holds then is of no use.
pub fn write(tree: &SourceTree, info: &RuntimeInfo, writer: impl Write) -> Result<ContextInfo> {
    info.entrypoint.file(info.runtime, tree)?;
    let dependencies = Dependencies::detect(info.runtime, tree)?;
    let dockerfile = dockerfile(info, &dependencies, &tree.digest());
    let mut counted = Counted {
        inner: writer,
        hash: Sha256::new(),
        size: 0,
    };
    // Operating system 255 is "unknown": the same on all.
    let gzip = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(&mut counted, Compression::fast());
    let gzip = write_tar(tree, &dockerfile, gzip)?;
    gzip.finish().and_then(|out| out.flush()).map_err(failed)?;
    Ok(ContextInfo {
        digest: tree.digest(),
        dependencies,
        dockerfile,
        size: counted.size,
        sha256: Digest::from_bytes(counted.hash.finalize().into()),
    })
}

/// The tar within.
pub(super) fn write_tar<W: Write>(tree: &SourceTree, dockerfile: &str, out: W) -> Result<W> {
    let mut tar = tar::Builder::new(out);
    let size = dockerfile.len() as u64;
    append(&mut tar, DOCKERFILE, 0o644, size, dockerfile.as_bytes()).map_err(failed)?;
    for file in tree.files() {
        let content = tree.open(&file.path)?;
        append(&mut tar, &file.path, file.mode(), file.size, content).map_err(failed)?;
    }
    tar.into_inner().map_err(failed)
}

fn append<W: Write>(
    tar: &mut tar::Builder<W>,
    path: &str,
    mode: u32,
    size: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(MTIME);
    header.set_size(size);
    tar.append_data(&mut header, path, content)
}

fn failed(source: io::Error) -> Error {
    Error::internal("cannot write the build context")
        .with_source(source)
        .during("context.write")
}

/// Passes bytes on, and counts and hashes them.
struct Counted<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
