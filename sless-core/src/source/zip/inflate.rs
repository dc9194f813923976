//! The data of entries whose headers are checked.

use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};

use flate2::{Crc, bufread::DeflateDecoder};

use super::{
    directory::{Method, Record},
    unreadable,
};
use crate::{
    Error, Result,
    source::{path::Origin, tree_writer::TreeWriter},
};

/// Unpacks an entry into the tree.
pub(super) fn keep<R: Read + Seek>(
    reader: &mut R,
    record: &Record,
    start: u64,
    path: String,
    tree: &mut TreeWriter,
) -> Result<()> {
    unpack(reader, record, start, |content| {
        let broken = |source| broken(record, source);
        tree.add(path, record.executable, content, &broken)
    })
}

/// Unpacks an entry and forgets it.
pub(super) fn discard<R: Read + Seek>(reader: &mut R, record: &Record, start: u64) -> Result<()> {
    unpack(reader, record, start, |content| {
        io::copy(content, &mut io::sink()).map_err(|source| broken(record, source))
    })
}

/// Gives at most one byte more than the declared size to `taker`, which answers with the number of
/// bytes, and holds size, checksum and the length of the packed data against the record.
fn unpack<R: Read + Seek>(
    reader: &mut R,
    record: &Record,
    start: u64,
    taker: impl FnOnce(&mut dyn Read) -> Result<u64>,
) -> Result<()> {
    reader.seek(SeekFrom::Start(start)).map_err(unreadable)?;
    let mut packed = BufReader::with_capacity(32 << 10, reader.take(record.compressed));
    let most = record.size.saturating_add(1);
    let mut crc = Crc::new();
    let size = match record.method {
        Method::Stored => taker(&mut Checked {
            inner: (&mut packed).take(most),
            crc: &mut crc,
        }),
        Method::Deflated => taker(&mut Checked {
            inner: DeflateDecoder::new(&mut packed).take(most),
            crc: &mut crc,
        }),
    }?;
    let refuse = |word: &str, rule: &str| Err(Origin::Zip.refuse(&record.name, word, rule));
    if size != record.size {
        return refuse(
            "size_mismatch",
            "its data does not have the size that its headers give",
        );
    }
    if crc.sum() != record.crc {
        return refuse(
            "crc_mismatch",
            "its data does not have the checksum that its headers give",
        );
    }
    if !packed.fill_buf().map_err(unreadable)?.is_empty() {
        return refuse(
            "size_mismatch",
            "its packed data ends before its packed size is reached",
        );
    }
    Ok(())
}

/// Passes bytes on, and computes their checksum.
struct Checked<'crc, R> {
    inner: R,
    crc: &'crc mut Crc,
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.crc.update(&buffer[..read]);
        Ok(read)
    }
}

fn broken(record: &Record, source: io::Error) -> Error {
    // `flate2` says InvalidInput for data that is no deflate stream, and UnexpectedEof where it ends
    // early; anything else comes from the disk.
    let damaged = [
        io::ErrorKind::InvalidInput,
        io::ErrorKind::InvalidData,
        io::ErrorKind::UnexpectedEof,
    ];
    if damaged.contains(&source.kind()) {
        return Origin::Zip
            .refuse(&record.name, "data", "its packed data is damaged")
            .with_source(source);
    }
    unreadable(source)
}
