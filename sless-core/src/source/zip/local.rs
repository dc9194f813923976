//! Local headers and data descriptors (APPNOTE 4.3.7 and 4.3.9), held against the central directory.

use std::io::{Read, Seek, SeekFrom};

use super::{Fields, directory, directory::Record, extra, unreadable};
use crate::{Error, Result, source::path::Origin};

const SIGNATURE: [u8; 4] = *b"PK\x03\x04";
const HEADER_BYTES: u64 = 30;
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Checks every local header, and that headers, data and descriptors fill the file from its first
/// byte to the central directory: nothing before, between, behind, and nothing used twice. Answers
/// with the place of each record's data.
pub(super) fn check<R: Read + Seek>(
    reader: &mut R,
    records: &[Record],
    directory_start: u64,
) -> Result<Vec<u64>> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|at| records[*at].header_start);
    let mut starts = vec![0; records.len()];
    let mut position = 0;
    for (nth, at) in order.iter().enumerate() {
        let record = &records[*at];
        if record.header_start < position {
            return Err(refuse(
                record,
                "overlap",
                "it shares bytes with another entry",
            ));
        }
        if record.header_start > position {
            return Err(refuse(
                record,
                "gap",
                "there is data before it that belongs to no entry",
            ));
        }
        let next = order.get(nth + 1).map(|at| records[*at].header_start);
        let next = next.unwrap_or(directory_start);
        let local = Local::read(reader, record, directory_start)?;
        let data_end = local.data_start.checked_add(record.compressed);
        let Some(data_end) = data_end.filter(|end| *end <= directory_start) else {
            return Err(refuse(
                record,
                "overlap",
                "its data reaches into the central directory",
            ));
        };
        starts[*at] = local.data_start;
        position = match record.has_descriptor() {
            false => data_end,
            true => check_descriptor(reader, record, local.zip64, data_end, next)?,
        };
    }
    if position != directory_start {
        let rule = "there is data before the central directory that belongs to no entry";
        return Err(Origin::Zip.refuse_all("gap", rule));
    }
    Ok(starts)
}

struct Local {
    data_start: u64,
    zip64: bool,
}

impl Local {
    fn read<R: Read + Seek>(reader: &mut R, record: &Record, limit: u64) -> Result<Self> {
        let start = record.header_start;
        let misplaced = || {
            refuse(
                record,
                "local_header",
                "its local header is not where it is said to be",
            )
        };
        let header_end = start.checked_add(HEADER_BYTES).filter(|end| *end <= limit);
        let header_end = header_end.ok_or_else(misplaced)?;
        let mut header = [0; HEADER_BYTES as usize];
        reader
            .seek(SeekFrom::Start(start))
            .and_then(|_| reader.read_exact(&mut header))
            .map_err(unreadable)?;
        if !header.starts_with(&SIGNATURE) {
            return Err(misplaced());
        }
        let mut fields = Fields(&header[4..]);
        let needed = fields.u16();
        let (raw_flags, raw_method) = (fields.u16(), fields.u16());
        let _time: [u8; 4] = fields.take();
        let crc = fields.u32();
        let (compressed, size) = (fields.u32(), fields.u32());
        let (name_bytes, extra_bytes) = (fields.u16(), fields.u16());
        let data_start = header_end + u64::from(name_bytes) + u64::from(extra_bytes);
        if data_start > limit {
            return Err(misplaced());
        }
        let mut variable = vec![0; usize::from(name_bytes) + usize::from(extra_bytes)];
        reader.read_exact(&mut variable).map_err(unreadable)?;
        let (name, extra) = variable.split_at(usize::from(name_bytes));

        if name != record.name {
            let rule = format_args!(
                "its local header names it \"{}\"",
                crate::source::path::shown(name)
            );
            return Err(Origin::Zip.refuse(&record.name, "name_mismatch", rule));
        }
        directory::version_needed(name, needed)?;
        let same = |word: &str, what: &str, same: bool| {
            if same {
                return Ok(());
            }
            let rule = format!("its local and its central header differ in {what}");
            Err(Origin::Zip.refuse(name, word, rule))
        };
        same(
            "flags_mismatch",
            "flags",
            directory::flags(name, raw_flags)? == record.flags,
        )?;
        let method = directory::method(name, raw_method)?;
        same("method_mismatch", "method", method == record.method)?;
        let zip64 = extra::zip64(name, extra)?;
        let (size, compressed) = widened(record, zip64, size, compressed)?;
        // Where the true values stand behind the data, a header may leave them out.
        let open = record.has_descriptor();
        let agrees = |said: u64, is: u64| said == is || open && said == 0;
        same("size_mismatch", "size", agrees(size, record.size))?;
        same(
            "size_mismatch",
            "compressed size",
            agrees(compressed, record.compressed),
        )?;
        same(
            "crc_mismatch",
            "checksum",
            agrees(crc.into(), record.crc.into()),
        )?;
        Ok(Self {
            data_start,
            zip64: zip64.is_some(),
        })
    }
}

/// A local zip64 field holds both sizes. Writers that cannot go back put it there in advance, with
/// sizes that would have fitted; then the small fields hold the sizes or all ones.
fn widened(
    record: &Record,
    zip64: Option<&[u8]>,
    size: u32,
    compressed: u32,
) -> Result<(u64, u64)> {
    let refuse = |rule| Err(refuse(record, "zip64", rule));
    let Some(field) = zip64 else {
        return match (size, compressed) {
            (u32::MAX, _) | (_, u32::MAX) => refuse("a size is missing from its zip64 field"),
            _ => Ok((size.into(), compressed.into())),
        };
    };
    if field.len() != 16 {
        return refuse("the zip64 field of a local header holds two sizes");
    }
    let mut fields = Fields(field);
    let wide = (fields.u64(), fields.u64());
    let fits = |small: u32, wide: u64| small == u32::MAX || u64::from(small) == wide;
    if !fits(size, wide.0) || !fits(compressed, wide.1) {
        return refuse("its zip64 field and its header differ");
    }
    Ok(wide)
}

/// The descriptor fills the space up to the next entry, with or without its signature.
fn check_descriptor<R: Read + Seek>(
    reader: &mut R,
    record: &Record,
    zip64: bool,
    start: u64,
    next: u64,
) -> Result<u64> {
    let mismatch = |rule| refuse(record, "descriptor_mismatch", rule);
    let bytes = if zip64 { 20 } else { 12 };
    let signed = match next.checked_sub(start) {
        Some(space) if space == bytes => false,
        Some(space) if space == bytes + 4 => true,
        _ => {
            return Err(mismatch(
                "its data descriptor does not reach from its data to what follows",
            ));
        }
    };
    let mut descriptor = vec![0; usize::try_from(next - start).unwrap_or_default()];
    reader
        .seek(SeekFrom::Start(start))
        .and_then(|_| reader.read_exact(&mut descriptor))
        .map_err(unreadable)?;
    let mut fields = Fields(&descriptor);
    if signed && fields.take() != DESCRIPTOR {
        return Err(mismatch("its data descriptor does not begin as one"));
    }
    let crc = fields.u32();
    let (compressed, size) = match zip64 {
        true => (fields.u64(), fields.u64()),
        false => (fields.u32().into(), fields.u32().into()),
    };
    if (crc, compressed, size) != (record.crc, record.compressed, record.size) {
        return Err(mismatch(
            "its data descriptor and its central header differ",
        ));
    }
    Ok(next)
}

fn refuse(record: &Record, word: &str, rule: &str) -> Error {
    Origin::Zip.refuse(&record.name, word, rule)
}
