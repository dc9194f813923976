//! Zip in, [`SourceTree`] out.
//!
//! A zip says everything twice or three times: in its central directory, in the header before each
//! file's data, and in a descriptor behind it. Readers differ in which they believe, and so one zip
//! can hold harmless code for one reader and other code for the next. Here nothing is believed that
//! is not said the same everywhere: [`directory`] reads the central directory, [`local`] holds the
//! rest of the file against it, to the last byte, and then the `zip` crate has to see the same list.
//! Only then is anything inflated ([`inflate`]).

mod directory;
mod end;
mod extra;
mod inflate;
mod local;

use std::io::{Read, Seek, SeekFrom};

use zip::{ZipArchive, read::Config};

use self::{directory::Record, end::End};
use super::{
    SourceLimits, SourceTree,
    path::{CleanPath, Origin, clean},
    tree::spool_error,
    tree_writer::TreeWriter,
};
use crate::{Error, Result};

/// The intake of uploaded zips.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SourceArchive;

impl SourceArchive {
    /// Reads a zip into a checked tree. The zip is not needed afterwards.
    ///
    /// What breaks a rule is [`Invalid`](crate::ErrorKind::Invalid) with a reason word in `zip_…`,
    /// and what reaches a limit is [`LimitExceeded`](crate::ErrorKind::LimitExceeded); both name the
    /// entry. Nothing is inflated before all headers are checked, and no file beyond its declared
    /// size. Memory is bounded by the number and length of names, not by sizes.
    ///
    /// Blocks: call it inside `spawn_blocking`.
    pub fn open<R: Read + Seek>(mut reader: R, limits: &SourceLimits) -> Result<SourceTree> {
        open(&mut reader, limits).map_err(|error| error.during("source.open"))
    }
}

fn open<R: Read + Seek>(reader: &mut R, limits: &SourceLimits) -> Result<SourceTree> {
    let length = reader.seek(SeekFrom::End(0)).map_err(unreadable)?;
    limits.check_zip_bytes(length)?;
    let end = End::find(reader, length)?;
    limits.check_entries(end.entries)?;
    let records = directory::read(reader, &end, limits)?;
    check_declared(&records, length, limits)?;

    let mut tree = TreeWriter::new(Origin::Zip, limits);
    let plan = plan(&records, &mut tree, limits)?;
    let starts = local::check(reader, &records, end.directory_start)?;
    agree_with_crate(reader, &records)?;

    for (at, action) in plan.into_iter().enumerate() {
        let (record, start) = (&records[at], starts[at]);
        match action {
            Action::Nothing => {}
            // Looked at all the same: a zip is refused or accepted as a whole.
            Action::Discard => inflate::discard(reader, record, start)?,
            Action::Keep(path) => inflate::keep(reader, record, start, path, &mut tree)?,
        }
    }
    tree.finish()
}

/// What declared sizes alone rule out.
fn check_declared(records: &[Record], length: u64, limits: &SourceLimits) -> Result<()> {
    let mut total = 0_u64;
    for record in records {
        total = total.saturating_add(record.size);
        limits
            .check_file_bytes(record.size)
            .and_then(|()| limits.check_ratio(record.size, record.compressed))
            .and_then(|()| limits.check_total_bytes(total))
            .map_err(|limit| Origin::Zip.limit(&record.name, limit))?;
    }
    limits.check_ratio(total, length)
}

/// What becomes of an entry.
enum Action {
    /// A directory: the paths below it say all there is.
    Nothing,
    Discard,
    Keep(String),
}

fn plan(records: &[Record], tree: &mut TreeWriter, limits: &SourceLimits) -> Result<Vec<Action>> {
    let decide = |record: &Record| {
        let path = clean(Origin::Zip, record.utf8_name()?, limits)?;
        record.check_kind(path.directory)?;
        if is_added_by_macos(&path) {
            tree.skip(path.path);
            return Ok(Action::Discard);
        }
        tree.claim(&path)?;
        Ok(match path.directory {
            true => Action::Nothing,
            false => Action::Keep(path.path),
        })
    };
    records.iter().map(decide).collect()
}

/// Finder writes these into every zip that it makes; nobody means to deploy them.
fn is_added_by_macos(path: &CleanPath) -> bool {
    let mut segments = path.path.split('/');
    let first = segments.next();
    let last = segments.next_back().or(first);
    first == Some("__MACOSX") || last == Some(".DS_Store") && !path.directory
}

/// A second, independent reader has to see the same list.
fn agree_with_crate<R: Read + Seek>(reader: &mut R, records: &[Record]) -> Result<()> {
    let differs = |rule: &str| Err(Origin::Zip.refuse_all("ambiguous", rule));
    let config = Config {
        archive_offset: zip::read::ArchiveOffset::Known(0),
    };
    let archive = ZipArchive::with_config(config, reader).map_err(|error| {
        Origin::Zip
            .refuse_all("malformed", "it cannot be read")
            .with_source(error)
    })?;
    if archive.len() != records.len() {
        return differs("two readers count different numbers of entries");
    }
    for (at, record) in records.iter().enumerate() {
        let entry = archive.by_index_data(at).map_err(|error| {
            Origin::Zip
                .refuse(&record.name, "malformed", "it cannot be read")
                .with_source(error)
        })?;
        let same = entry.name_raw() == record.name
            && entry.header_start() == record.header_start
            && entry.size() == record.size
            && entry.compressed_size() == record.compressed
            && entry.crc32() == record.crc;
        if !same {
            let rule = "two readers see this entry differently";
            return Err(Origin::Zip.refuse(&record.name, "ambiguous", rule));
        }
    }
    Ok(())
}

/// Reading the uploaded bytes failed: the disk, not the input. An end that comes too early cannot
/// be here, since every length is checked before it is used.
fn unreadable(source: std::io::Error) -> Error {
    spool_error("cannot read the uploaded zip", source)
}

/// Little-endian fields out of a header of known length.
struct Fields<'bytes>(&'bytes [u8]);

impl<'bytes> Fields<'bytes> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            // Headers are arrays of the format's length; reading past one would be a defect here,
            // and zeroes are refused by every check that follows.
            None => [0; N],
        }
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
