//! The records at the end of a zip (APPNOTE 4.3.14 to 4.3.16).

use std::io::{Read, Seek, SeekFrom};

use super::{Fields, unreadable};
use crate::{Error, Result, source::path::Origin};

const END: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: u64 = 22;
const LOCATOR: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_BYTES: u64 = 20;
const END64: [u8; 4] = *b"PK\x06\x06";
const END64_BYTES: u64 = 56;

/// Where the central directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) entries: u64,
    pub(super) directory_start: u64,
    pub(super) directory_bytes: u64,
}

impl End {
    /// Finds the one end record. Its comment has to reach exactly to the end of the file, and the
    /// directory has to reach exactly to the record: then there is no second place to look.
    pub(super) fn find<R: Read + Seek>(reader: &mut R, length: u64) -> Result<Self> {
        let window = length.min(END_BYTES + u64::from(u16::MAX));
        let mut tail = vec![0; usize::try_from(window).unwrap_or_default()];
        reader
            .seek(SeekFrom::Start(length - window))
            .and_then(|_| reader.read_exact(&mut tail))
            .map_err(unreadable)?;
        let Some(at) = tail.windows(4).rposition(|four| four == END) else {
            return Err(malformed(
                "not_a_zip",
                "it has no end record; expected a zip",
            ));
        };
        let position = length - window + at as u64;
        let Some(record) = tail.get(at..at + 22) else {
            return Err(malformed("end_record", "its end record is cut"));
        };
        let mut fields = Fields(&record[4..]);
        let (disk, directory_disk) = (fields.u16(), fields.u16());
        let (entries_here, entries) = (fields.u16(), fields.u16());
        let (bytes, start) = (fields.u32(), fields.u32());
        let comment = u64::from(fields.u16());
        if position + END_BYTES + comment != length {
            let rule = "its comment does not end where the file ends";
            return Err(malformed("trailing_data", rule));
        }
        let located = Self::locator(reader, position)?;
        let end = match located {
            Some(end64) => {
                let fits = |small: u64, most: u64, large: u64| small == most || small == large;
                let same = fits(disk.into(), 0xffff, 0)
                    && fits(directory_disk.into(), 0xffff, 0)
                    && fits(entries_here.into(), 0xffff, end64.entries)
                    && fits(entries.into(), 0xffff, end64.entries)
                    && fits(bytes.into(), 0xffff_ffff, end64.directory_bytes)
                    && fits(start.into(), 0xffff_ffff, end64.directory_start);
                if !same {
                    let rule = "its two end records differ";
                    return Err(malformed("end_record", rule));
                }
                end64
            }
            None => {
                if disk != 0 || directory_disk != 0 || entries_here != entries {
                    return Err(malformed("multi_disk", "it is one part of several"));
                }
                let end = Self {
                    entries: entries.into(),
                    directory_start: start.into(),
                    directory_bytes: bytes.into(),
                };
                end.reaching(position)?
            }
        };
        Ok(end)
    }

    /// The zip64 records, where their locator stands before the end record. A locator there is
    /// never ignored: some readers follow it whatever the end record says.
    fn locator<R: Read + Seek>(reader: &mut R, end: u64) -> Result<Option<Self>> {
        let Some(position) = end.checked_sub(LOCATOR_BYTES) else {
            return Ok(None);
        };
        let mut locator = [0; LOCATOR_BYTES as usize];
        reader
            .seek(SeekFrom::Start(position))
            .and_then(|_| reader.read_exact(&mut locator))
            .map_err(unreadable)?;
        if !locator.starts_with(&LOCATOR) {
            return Ok(None);
        }
        let refuse = |rule| malformed("end_record", rule);
        let mut fields = Fields(&locator[4..]);
        let (disk, start, disks) = (fields.u32(), fields.u64(), fields.u32());
        if disk != 0 || disks != 1 {
            return Err(malformed("multi_disk", "it is one part of several"));
        }
        if start.checked_add(END64_BYTES) != Some(position) {
            return Err(refuse("its zip64 end record is not where it is said to be"));
        }
        let mut record = [0; END64_BYTES as usize];
        reader
            .seek(SeekFrom::Start(start))
            .and_then(|_| reader.read_exact(&mut record))
            .map_err(unreadable)?;
        if !record.starts_with(&END64) {
            return Err(refuse("its zip64 end record is not where it is said to be"));
        }
        let mut fields = Fields(&record[4..]);
        let size = fields.u64();
        let _versions: [u8; 4] = fields.take();
        let (disk, directory_disk) = (fields.u32(), fields.u32());
        let (entries_here, entries) = (fields.u64(), fields.u64());
        let (directory_bytes, directory_start) = (fields.u64(), fields.u64());
        if size != END64_BYTES - 12 {
            return Err(refuse("its zip64 end record has an unknown extension"));
        }
        if disk != 0 || directory_disk != 0 || entries_here != entries {
            return Err(malformed("multi_disk", "it is one part of several"));
        }
        let end = Self {
            entries,
            directory_start,
            directory_bytes,
        };
        end.reaching(start).map(Some)
    }

    /// The directory must end where the record after it begins.
    fn reaching(self, position: u64) -> Result<Self> {
        if self.directory_start.checked_add(self.directory_bytes) == Some(position) {
            return Ok(self);
        }
        let rule = "its central directory does not end where its end record begins";
        Err(malformed("end_record", rule))
    }
}

fn malformed(word: &str, rule: &str) -> Error {
    Origin::Zip.refuse_all(word, rule)
}
