//! Folders in, deterministic zips out: what the command line, `dev` and a Terraform provider share.

use std::{
    fs,
    io::{Seek, Write},
    path::Path,
};

use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

use super::{
    SourceLimits, SourceTree,
    path::{Origin, clean},
    tree::spool_error,
    tree_writer::TreeWriter,
};
use crate::{Error, Result};

/// Reads every file below a folder into a tree.
///
/// Neither ignore rules nor a build's reserved names are looked at beyond what a tree refuses:
/// `keep` decides, given a path with `/` between segments, whether a file or directory (and all
/// below it) is taken. Symbolic links and special files that `keep` takes are refused. Names are
/// refused rather than changed where they are not UTF-8 or hold `\`.
pub fn read_dir(
    folder: &Path,
    limits: &SourceLimits,
    keep: impl Fn(&str) -> bool,
) -> Result<SourceTree> {
    let mut tree = TreeWriter::new(Origin::Files, limits);
    let (mut count, mut total) = (0_u64, 0_u64);
    let mut pending = vec![String::new()];
    while let Some(parent) = pending.pop() {
        for entry in fs::read_dir(folder.join(&parent)).map_err(|e| unreadable(&parent, e))? {
            let entry = entry.map_err(|error| unreadable(&parent, error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.contains('\\')) else {
                let name = name.to_string_lossy();
                let rule = "a name is UTF-8 and has no backslash";
                return Err(Origin::Files.refuse(name.as_bytes(), "name_encoding", rule));
            };
            let path = match parent.as_str() {
                "" => name.to_owned(),
                parent => format!("{parent}/{name}"),
            };
            if !keep(&path) {
                continue;
            }
            count += 1;
            limits
                .check_entries(count)
                .map_err(|limit| Origin::Files.limit(path.as_bytes(), limit))?;
            let failed = |error| unreadable(&path, error);
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                pending.push(path);
                continue;
            }
            if !kind.is_file() {
                let rule = "expected a regular file or a directory";
                return Err(Origin::Files.refuse(path.as_bytes(), "special_file", rule));
            }
            let clean = clean(Origin::Files, &path, limits)?;
            tree.claim(&clean)?;
            let mut file = fs::File::open(entry.path()).map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            let over = |limit| Origin::Files.limit(path.as_bytes(), limit);
            limits.check_file_bytes(metadata.len()).map_err(over)?;
            limits
                .check_total_bytes(total + metadata.len())
                .map_err(over)?;
            let mut content = std::io::Read::take(&mut file, metadata.len());
            let executable = is_executable(&metadata);
            total += tree.add(clean.path, executable, &mut content, &failed)?;
        }
    }
    tree.finish()
}

/// Writes a tree as a zip: files only, sorted, deflated, one fixed time. The same tree gives the
/// same bytes as long as the deflate library in the build is the same; compare sources by
/// [`SourceTree::digest`], which has no such condition.
pub fn write_zip<W: Write + Seek>(tree: &SourceTree, writer: W) -> Result<W> {
    let mut zip = ZipWriter::new(writer);
    for file in tree.files() {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(6))
            .last_modified_time(DateTime::default())
            .unix_permissions(file.mode());
        zip.start_file(file.path.as_str(), options)
            .map_err(|error| failed(error.into()))?;
        std::io::copy(&mut tree.open(&file.path)?, &mut zip).map_err(failed)?;
    }
    zip.finish().map_err(|error| failed(error.into()))
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

fn unreadable(path: &str, source: std::io::Error) -> Error {
    let shown = if path.is_empty() { "." } else { path };
    Error::invalid(format!("cannot read {shown:?}: {source}"))
        .with_reason("source_unreadable")
        .with_source(source)
}

fn failed(source: std::io::Error) -> Error {
    spool_error("cannot write the zip", source).during("pack.write_zip")
}
