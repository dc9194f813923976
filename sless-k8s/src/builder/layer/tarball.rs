//! The code as a layer of an image: the same files give the same bytes, wherever and whenever.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Write},
};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use sha2::{Digest as _, Sha256};
use sless_core::{Digest, Error, Result, source::SourceTree};
use tempfile::NamedTempFile;

/// Where the code is in the image, as the Dockerfile of a context has it.
const FOLDER: &str = "app";

/// The time of every entry: 2000-01-01, as in a context.
const MTIME: u64 = 946_684_800;

/// A layer in a file, which goes when it is dropped.
#[derive(Debug)]
pub(in crate::builder) struct Layer {
    pub(in crate::builder) file: NamedTempFile,
    /// Of the compressed bytes: what names the blob.
    pub(in crate::builder) digest: Digest,
    pub(in crate::builder) size: u64,
    /// Of the bytes that it unpacks to: what the image's configuration names.
    pub(in crate::builder) diff_id: Digest,
}

/// Writes the layer of these files. Blocks.
pub(in crate::builder) fn write(tree: &SourceTree) -> Result<Layer> {
    let file = NamedTempFile::new().map_err(failed)?;
    let packed = Hashed::new(file.reopen().map_err(failed)?);
    // Operating system 255 is "unknown": the same on all.
    let gzip = GzBuilder::new()
        .mtime(0)
        .operating_system(255)
        .write(packed, Compression::fast());
    let plain = write_tar(tree, Hashed::new(gzip)).map_err(failed)?;
    let diff_id = plain.digest();
    let packed = plain.inner.finish().map_err(failed)?;
    Ok(Layer {
        digest: packed.digest(),
        size: packed.size,
        diff_id,
        file,
    })
}

fn write_tar(
    tree: &SourceTree,
    out: Hashed<GzEncoder<Hashed<File>>>,
) -> io::Result<Hashed<GzEncoder<Hashed<File>>>> {
    let mut tar = tar::Builder::new(out);
    let mut folders = BTreeSet::from([FOLDER.to_owned()]);
    for file in tree.files() {
        for (at, _) in file.path.match_indices('/') {
            folders.insert(format!("{FOLDER}/{}", &file.path[..at]));
        }
    }
    for folder in &folders {
        let mut header = header(tar::EntryType::Directory, 0o755, 0);
        tar.append_data(&mut header, format!("{folder}/"), io::empty())?;
    }
    for file in tree.files() {
        let content = tree.open(&file.path).map_err(io::Error::other)?;
        let mut header = header(tar::EntryType::Regular, file.mode(), file.size);
        tar.append_data(&mut header, format!("{FOLDER}/{}", file.path), content)?;
    }
    tar.into_inner()
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(MTIME);
    header.set_size(size);
    header
}

fn failed(source: io::Error) -> Error {
    Error::internal("a layer cannot be written").with_source(source)
}

/// Passes bytes on, and counts and hashes them.
struct Hashed<W> {
    inner: W,
    hash: Sha256,
    size: u64,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            size: 0,
        }
    }

    fn digest(&self) -> Digest {
        Digest::from_bytes(self.hash.clone().finalize().into())
    }
}

impl<W: Write> Write for Hashed<W> {
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_layer_is_reproducible_and_holds_the_files() {
        let deep = format!("{}/x.py", "long-".repeat(40));
        let files = [("b/c/d.py", "1"), ("handler.py", "2"), (deep.as_str(), "3")];
        let tree = SourceTree::from_files(files).expect("a tree");
        let (one, other) = (
            write(&tree).expect("a layer"),
            write(&tree).expect("a layer"),
        );
        assert_eq!((one.digest, one.diff_id), (other.digest, other.diff_id));

        let mut packed = Vec::new();
        one.file
            .reopen()
            .expect("a file")
            .read_to_end(&mut packed)
            .expect("its bytes");
        assert_eq!(Digest::of(&packed), one.digest);
        assert_eq!(packed.len() as u64, one.size);
        let mut plain = Vec::new();
        let mut gzip = flate2::read::GzDecoder::new(&packed[..]);
        gzip.read_to_end(&mut plain).expect("a gzip");
        assert_eq!(Digest::of(&plain), one.diff_id);
        let mut archive = tar::Archive::new(&plain[..]);
        let entries = archive.entries().expect("entries").map(|entry| {
            let entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            (path, entry.header().mode().expect("a mode"))
        });
        let expected = [
            ("app/".to_owned(), 0o755),
            ("app/b/".to_owned(), 0o755),
            ("app/b/c/".to_owned(), 0o755),
            (format!("app/{}/", "long-".repeat(40)), 0o755),
            ("app/b/c/d.py".to_owned(), 0o644),
            ("app/handler.py".to_owned(), 0o644),
            (format!("app/{deep}"), 0o644),
        ];
        assert_eq!(entries.collect::<Vec<_>>(), expected);
    }
}
