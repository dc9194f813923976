//! The central directory (APPNOTE 4.3.12).

use std::io::{BufReader, Read, Seek, SeekFrom};

use super::{End, Fields, extra, unreadable};
use crate::{
    Error, Result,
    source::{SourceLimits, path::Origin},
};

const SIGNATURE: [u8; 4] = *b"PK\x01\x02";
const HEADER_BYTES: usize = 46;

/// Encrypted, in one of the three ways.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// Sizes and checksum stand behind the data.
const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;
/// How hard the packer tried; means nothing for reading.
const EFFORT: u16 = 0b110;

/// The highest version of the format that is needed for anything that is accepted: 4.5 is zip64.
const VERSION_NEEDED: u16 = 45;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// How an entry's data is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
}

/// One entry, as the central directory has it. Only what every reader understands alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// As it stands there.
    pub(super) name: Vec<u8>,
    pub(super) method: Method,
    pub(super) crc: u32,
    pub(super) compressed: u64,
    pub(super) size: u64,
    /// Where its local header begins.
    pub(super) header_start: u64,
    pub(super) executable: bool,
    /// Without the bits that mean nothing.
    pub(super) flags: u16,
    pub(super) dos_directory: bool,
    /// The kind bits of a Unix mode; 0 where there are none.
    pub(super) kind: u32,
}

impl Record {
    pub(super) const fn has_descriptor(&self) -> bool {
        self.flags & DESCRIPTOR != 0
    }

    /// The name as text. Readers decode a name that is neither ASCII nor marked as UTF-8 each in
    /// their own way.
    pub(super) fn utf8_name(&self) -> Result<&str> {
        let refuse = |rule| Origin::Zip.refuse(&self.name, "name_encoding", rule);
        let name = std::str::from_utf8(&self.name).map_err(|_| refuse("its name is not UTF-8"))?;
        if name.is_ascii() || self.flags & UTF8 != 0 {
            return Ok(name);
        }
        Err(refuse(
            "its name is not ASCII, and flag bit 11 does not say that it is UTF-8",
        ))
    }

    /// Whether what the name says (a separator at its end) fits what the attributes say.
    pub(super) fn check_kind(&self, directory: bool) -> Result<()> {
        const REGULAR: u32 = 0o100_000;
        const DIRECTORY: u32 = 0o040_000;
        const LINK: u32 = 0o120_000;
        let refuse = |word: &str, rule: &str| Err(Origin::Zip.refuse(&self.name, word, rule));
        match self.kind {
            LINK => return refuse("symlink", "it is a symbolic link"),
            0 => {}
            REGULAR if !directory => {}
            DIRECTORY if directory => {}
            REGULAR | DIRECTORY => {
                return refuse(
                    "kind_mismatch",
                    "its name and its mode differ in whether it is a directory",
                );
            }
            _ => return refuse("special_file", "it is a device, a pipe or a socket"),
        }
        if self.dos_directory && !directory {
            return refuse(
                "kind_mismatch",
                "its name and its mode differ in whether it is a directory",
            );
        }
        if directory && (self.size != 0 || self.crc != 0) {
            return refuse("directory_with_data", "it is a directory with content");
        }
        Ok(())
    }
}

/// Flags that mean something, and the refusal of those that are not understood.
pub(super) fn flags(name: &[u8], flags: u16) -> Result<u16> {
    if flags & ENCRYPTED != 0 {
        return Err(Origin::Zip.refuse(name, "encrypted", "it is encrypted"));
    }
    let unknown = flags & !(DESCRIPTOR | UTF8 | EFFORT);
    if unknown != 0 {
        let rule = format!("flags 0x{unknown:04x} are not supported");
        return Err(Origin::Zip.refuse(name, "flags", rule));
    }
    Ok(flags & !EFFORT)
}

pub(super) fn method(name: &[u8], method: u16) -> Result<Method> {
    let known = match method {
        STORED => return Ok(Method::Stored),
        DEFLATED => return Ok(Method::Deflated),
        9 => "deflate64",
        12 => "bzip2",
        14 => "lzma",
        93 | 20 => "zstd",
        95 => "xz",
        98 => "ppmd",
        99 => "aes",
        _ => "unknown",
    };
    let rule =
        format!("compression method {method} ({known}) is not supported; use deflate or store");
    Err(Origin::Zip.refuse(name, "method", rule))
}

/// Both headers of an entry name the version of the format that they need.
pub(super) fn version_needed(name: &[u8], version: u16) -> Result<()> {
    // The upper byte, where it is not 0, names a system.
    if version & 0xff <= VERSION_NEEDED {
        return Ok(());
    }
    let rule = format!("it needs version {} of the format", version & 0xff);
    Err(Origin::Zip.refuse(name, "version", rule))
}

/// Reads all records; they have to fill the directory exactly.
pub(super) fn read<R: Read + Seek>(
    reader: &mut R,
    end: &End,
    limits: &SourceLimits,
) -> Result<Vec<Record>> {
    reader
        .seek(SeekFrom::Start(end.directory_start))
        .map_err(unreadable)?;
    let mut rest = BufReader::new(reader.take(end.directory_bytes));
    let mut left = end.directory_bytes;
    let mut records = Vec::new();
    for _ in 0..end.entries {
        let (record, bytes) = read_one(&mut rest, left, limits)?;
        left -= bytes;
        records.push(record);
    }
    if left != 0 {
        return Err(malformed("it holds more than the end record says"));
    }
    Ok(records)
}

fn read_one(rest: &mut impl Read, left: u64, limits: &SourceLimits) -> Result<(Record, u64)> {
    let cut = || malformed("it ends before the number of entries is reached");
    let mut left_over = left.checked_sub(HEADER_BYTES as u64).ok_or_else(cut)?;
    let mut header = [0; HEADER_BYTES];
    rest.read_exact(&mut header).map_err(unreadable)?;
    if !header.starts_with(&SIGNATURE) {
        return Err(malformed("a record of it does not begin as one"));
    }
    let mut fields = Fields(&header[4..]);
    let made_by = fields.u16();
    let needed = fields.u16();
    let (raw_flags, raw_method) = (fields.u16(), fields.u16());
    let _time: [u8; 4] = fields.take();
    let crc = fields.u32();
    let (compressed, size) = (fields.u32(), fields.u32());
    let lengths = [fields.u16(), fields.u16(), fields.u16()].map(usize::from);
    let disk = fields.u16();
    let _internal = fields.u16();
    let attributes = fields.u32();
    let header_start = fields.u32();

    left_over = left_over
        .checked_sub(lengths.iter().sum::<usize>() as u64)
        .ok_or_else(cut)?;
    let mut variable = vec![0; lengths.iter().sum()];
    rest.read_exact(&mut variable).map_err(unreadable)?;
    let (name, after) = variable.split_at(lengths[0]);
    let (extra, _comment) = after.split_at(lengths[1]);
    if name.len() > limits.path_bytes {
        let limit = Error::limit("source_path_bytes", limits.path_bytes, "bytes");
        return Err(Origin::Zip.limit(name, limit));
    }
    if after.len() > SourceLimits::HEADER_BYTES {
        let limit = Error::limit("source_header_bytes", SourceLimits::HEADER_BYTES, "bytes");
        return Err(Origin::Zip.limit(name, limit));
    }
    version_needed(name, needed)?;
    let flags = flags(name, raw_flags)?;
    let method = method(name, raw_method)?;
    let zip64 = extra::zip64(name, extra)?;
    let [size, compressed, header_start, disk] =
        widened(name, zip64, [size, compressed, header_start], disk)?;
    if disk != 0 {
        return Err(Origin::Zip.refuse(name, "multi_disk", "it is in another part"));
    }
    if method == Method::Stored && compressed != size {
        let rule = "it is stored, and its two sizes differ";
        return Err(Origin::Zip.refuse(name, "size_mismatch", rule));
    }
    let mode = attributes >> 16;
    // 3 is Unix and 19 is macOS: elsewhere the upper half of the attributes means other things.
    let unix = matches!(made_by >> 8, 3 | 19);
    let record = Record {
        name: name.to_vec(),
        method,
        crc,
        compressed,
        size,
        header_start,
        executable: unix && mode & 0o111 != 0,
        flags,
        dos_directory: attributes & 0x10 != 0,
        kind: mode & 0o170_000,
    };
    Ok((record, left - left_over))
}

/// Replaces the fields that hold all ones by those of the zip64 field, which holds these and no
/// others (APPNOTE 4.5.3).
fn widened(name: &[u8], zip64: Option<&[u8]>, small: [u32; 3], disk: u16) -> Result<[u64; 4]> {
    let refuse = |rule| Err(Origin::Zip.refuse(name, "zip64", rule));
    let mut wide = Fields(zip64.unwrap_or_default());
    let mut taken = [0; 4];
    for (taken, small) in taken.iter_mut().zip(small) {
        *taken = match small {
            u32::MAX if wide.0.len() < 8 => {
                return refuse("a size or offset is missing from its zip64 field");
            }
            u32::MAX => wide.u64(),
            small => small.into(),
        };
    }
    taken[3] = match disk {
        u16::MAX if wide.0.len() < 4 => return refuse("its zip64 field is too short"),
        u16::MAX => wide.u32().into(),
        disk => disk.into(),
    };
    if !wide.0.is_empty() {
        return refuse("its zip64 field holds more than was asked for");
    }
    Ok(taken)
}

fn malformed(rule: &str) -> Error {
    Origin::Zip.refuse_all(
        "directory",
        format_args!("its central directory is malformed: {rule}"),
    )
}
