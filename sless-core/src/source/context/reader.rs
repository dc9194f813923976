//! Reads a context back.

use std::io::{self, BufRead as _, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::{DOCKERFILE, VERSION, dockerfile::read_marks};
use crate::{
    Error, Result,
    source::{
        SourceLimits, SourceTree,
        path::{CleanPath, Origin, clean},
        tree_writer::TreeWriter,
    },
};

/// Bytes of the Dockerfile at most.
const DOCKERFILE_BYTES: u64 = 64 << 10;

/// Zero bytes at the end of a tar at most: its two empty blocks.
const PADDING_BYTES: u64 = 2 * 512;

/// A context as it was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Context {
    /// The files, with the digest that they were stored under.
    pub tree: SourceTree,
    /// The Dockerfile.
    pub dockerfile: String,
    /// The version of the format.
    pub version: u32,
}

/// Reads a context: the same list that was written, checked again.
///
/// Whatever [`write`](super::write) would not have written is
/// [`Corrupt`](crate::ErrorKind::Corrupt), and so are files that do not give the digest that the
/// Dockerfile names. A limit reached is [`LimitExceeded`](crate::ErrorKind::LimitExceeded).
pub fn read(reader: impl Read, limits: &SourceLimits) -> Result<Context> {
    let mut gzip = GzDecoder::new(BufReader::new(reader));
    let context = read_tar(&mut gzip, limits)?;
    let mut end = gzip.into_inner();
    if !end.fill_buf().map_err(broken)?.is_empty() {
        return Err(corrupt("trailing_data", "there is data behind its end"));
    }
    Ok(context)
}

fn read_tar(gzip: &mut impl Read, limits: &SourceLimits) -> Result<Context> {
    let mut archive = tar::Archive::new(gzip);
    let mut tree = TreeWriter::new(Origin::Context, limits);
    let mut dockerfile = None;
    let mut long_name = None;
    let (mut count, mut total) = (0, 0);
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        let size = entry.size();
        if kind == tar::EntryType::GNULongName {
            if long_name.is_some() || size > limits.path_bytes as u64 + 1 {
                return Err(corrupt("long_name", "a long name is malformed"));
            }
            long_name = Some(read_long_name(&mut entry)?);
            continue;
        }
        let name = long_name
            .take()
            .unwrap_or_else(|| entry.path_bytes().into_owned());
        let executable = match (kind, entry.header().mode().ok()) {
            (tar::EntryType::Regular, Some(0o644)) => false,
            (tar::EntryType::Regular, Some(0o755)) => true,
            _ => {
                let rule = "expected a regular file with mode 0644 or 0755";
                return Err(Origin::Context.refuse(&name, "special_file", rule));
            }
        };
        if dockerfile.is_none() {
            if name != DOCKERFILE.as_bytes() || size > DOCKERFILE_BYTES {
                return Err(corrupt("dockerfile", "it does not begin with a Dockerfile"));
            }
            let mut text = String::new();
            entry.read_to_string(&mut text).map_err(broken)?;
            dockerfile = Some(text);
            continue;
        }
        count += 1;
        total += size;
        limits
            .check_entries(count)
            .and_then(|()| limits.check_file_bytes(size))
            .and_then(|()| limits.check_total_bytes(total))
            .map_err(|limit| Origin::Context.limit(&name, limit))?;
        let path = checked_path(&name, limits)?;
        tree.claim(&path)?;
        let read = tree.add(path.path, executable, &mut entry, &broken)?;
        if read != size {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    check_end(archive.into_inner(), long_name.is_some())?;
    let dockerfile =
        dockerfile.ok_or_else(|| corrupt("dockerfile", "there is no Dockerfile in it"))?;
    let tree = tree.finish()?;
    let digest = read_marks(&dockerfile)?;
    if digest != tree.digest() {
        return Err(corrupt(
            "digest",
            format_args!(
                "its files have digest {}, and it was stored under {digest}",
                tree.digest()
            ),
        ));
    }
    Ok(Context {
        tree,
        dockerfile,
        version: VERSION,
    })
}

fn read_long_name(entry: &mut impl Read) -> Result<Vec<u8>> {
    let mut name = Vec::new();
    entry.read_to_end(&mut name).map_err(broken)?;
    match name.pop() {
        Some(0) => Ok(name),
        _ => Err(corrupt("long_name", "a long name is malformed")),
    }
}

fn checked_path(name: &[u8], limits: &SourceLimits) -> Result<CleanPath> {
    let refuse = |rule| Origin::Context.refuse(name, "path", rule);
    let text = std::str::from_utf8(name).map_err(|_| refuse("not UTF-8"))?;
    let path = clean(Origin::Context, text, limits)?;
    if path.directory || path.path != text {
        return Err(refuse("not as it would have been written"));
    }
    Ok(path)
}

/// Only padding may follow, and the gzip's own checksum is looked at only when all is read.
fn check_end(rest: &mut impl Read, open: bool) -> Result<()> {
    let mut padding = Vec::new();
    let most = PADDING_BYTES + 1;
    rest.take(most).read_to_end(&mut padding).map_err(broken)?;
    if open || padding.len() as u64 == most || padding.iter().any(|byte| *byte != 0) {
        return Err(corrupt("trailing_data", "there is data behind its end"));
    }
    Ok(())
}

fn broken(source: io::Error) -> Error {
    corrupt("unreadable", "it is no complete gzip of a tar").with_source(source)
}

pub(super) fn corrupt(word: &str, rule: impl std::fmt::Display) -> Error {
    Origin::Context
        .refuse_all(word, rule)
        .during("context.read")
}
