//! Writes zips field by field, so that a test can make any of them lie.

use std::io::Write as _;

use flate2::{Compression, Crc, write::DeflateEncoder};
use sless_core::{
    Error,
    source::{SourceArchive, SourceLimits, SourceTree},
};

/// One entry. `None` in a `local_` field means "as in the central directory".
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) local_name: Option<Vec<u8>>,
    pub(crate) method: u16,
    pub(crate) local_method: Option<u16>,
    pub(crate) flags: u16,
    pub(crate) local_flags: Option<u16>,
    pub(crate) crc: u32,
    pub(crate) local_crc: Option<u32>,
    pub(crate) size: u32,
    pub(crate) local_size: Option<u32>,
    pub(crate) compressed: u32,
    pub(crate) local_compressed: Option<u32>,
    pub(crate) extra: Vec<u8>,
    pub(crate) local_extra: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// System in the upper byte; 3 is Unix.
    pub(crate) made_by: u16,
    pub(crate) version: u16,
    /// The whole mode, with its kind.
    pub(crate) mode: u32,
    pub(crate) dos_attributes: u32,
    pub(crate) packed: Vec<u8>,
    /// What stands between the data and the next entry.
    pub(crate) after: Vec<u8>,
    /// Another place than its own for the local header.
    pub(crate) offset: Option<u32>,
}

impl Entry {
    pub(crate) fn stored(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref();
        let mut crc = Crc::new();
        crc.update(content);
        Self {
            name: name.as_ref().to_vec(),
            local_name: None,
            method: 0,
            local_method: None,
            flags: if name.as_ref().is_ascii() { 0 } else { 1 << 11 },
            local_flags: None,
            crc: crc.sum(),
            local_crc: None,
            size: u32::try_from(content.len()).unwrap(),
            local_size: None,
            compressed: u32::try_from(content.len()).unwrap(),
            local_compressed: None,
            extra: Vec::new(),
            local_extra: Vec::new(),
            comment: Vec::new(),
            made_by: 3 << 8 | 20,
            version: 20,
            mode: 0o100_644,
            dos_attributes: 0,
            packed: content.to_vec(),
            after: Vec::new(),
            offset: None,
        }
    }

    pub(crate) fn deflated(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Self {
        let mut entry = Self::stored(name, content.as_ref());
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(content.as_ref()).unwrap();
        entry.method = 8;
        entry.packed = encoder.finish().unwrap();
        entry.compressed = u32::try_from(entry.packed.len()).unwrap();
        entry
    }

    /// As a writer leaves it that cannot go back: sizes behind the data only.
    pub(crate) fn streamed(mut self, signed: bool) -> Self {
        self.flags |= 1 << 3;
        (self.local_crc, self.local_size, self.local_compressed) = (Some(0), Some(0), Some(0));
        if signed {
            self.after.extend(b"PK\x07\x08");
        }
        for field in [self.crc, self.compressed, self.size] {
            self.after.extend(field.to_le_bytes());
        }
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn local(&self) -> Vec<u8> {
        let mut out = b"PK\x03\x04".to_vec();
        let name = self.local_name.as_ref().unwrap_or(&self.name);
        u16s(
            &mut out,
            &[self.version, self.local_flags.unwrap_or(self.flags)],
        );
        u16s(&mut out, &[self.local_method.unwrap_or(self.method), 0, 33]);
        u32s(
            &mut out,
            &[
                self.local_crc.unwrap_or(self.crc),
                self.local_compressed.unwrap_or(self.compressed),
                self.local_size.unwrap_or(self.size),
            ],
        );
        u16s(&mut out, &[length(name), length(&self.local_extra)]);
        for part in [name, &self.local_extra, &self.packed, &self.after] {
            out.extend(part);
        }
        out
    }

    fn central(&self, offset: u32) -> Vec<u8> {
        let mut out = b"PK\x01\x02".to_vec();
        u16s(
            &mut out,
            &[self.made_by, self.version, self.flags, self.method, 0, 33],
        );
        u32s(&mut out, &[self.crc, self.compressed, self.size]);
        let lengths = [&self.name, &self.extra, &self.comment].map(|part| length(part));
        u16s(&mut out, &lengths);
        u16s(&mut out, &[0, 0]);
        u32s(&mut out, &[self.mode << 16 | self.dos_attributes]);
        u32s(&mut out, &[self.offset.unwrap_or(offset)]);
        for part in [&self.name, &self.extra, &self.comment] {
            out.extend(part);
        }
        out
    }
}

/// A whole zip.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forge {
    pub(crate) entries: Vec<Entry>,
    /// Before the first entry; offsets count from the start of the file.
    pub(crate) prefix: Vec<u8>,
    /// Between the last entry and the central directory.
    pub(crate) before_directory: Vec<u8>,
    /// Between the central directory and the end record.
    pub(crate) before_end: Vec<u8>,
    pub(crate) comment: Vec<u8>,
    /// Behind the end record.
    pub(crate) suffix: Vec<u8>,
    pub(crate) count: Option<u16>,
}

impl Forge {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.prefix.clone();
        let mut directory = Vec::new();
        for entry in &self.entries {
            directory.extend(entry.central(u32::try_from(out.len()).unwrap()));
            out.extend(entry.local());
        }
        out.extend(&self.before_directory);
        let start = u32::try_from(out.len()).unwrap();
        out.extend(&directory);
        out.extend(&self.before_end);
        let count = self
            .count
            .unwrap_or(u16::try_from(self.entries.len()).unwrap());
        out.extend(b"PK\x05\x06");
        u16s(&mut out, &[0, 0, count, count]);
        u32s(&mut out, &[u32::try_from(directory.len()).unwrap(), start]);
        u16s(&mut out, &[length(&self.comment)]);
        out.extend(&self.comment);
        out.extend(&self.suffix);
        out
    }
}

pub(crate) fn zip(entries: impl IntoIterator<Item = Entry>) -> Vec<u8> {
    let entries = entries.into_iter().collect();
    Forge {
        entries,
        ..Forge::default()
    }
    .bytes()
}

pub(crate) fn open(bytes: impl AsRef<[u8]>) -> Result<SourceTree, Error> {
    let limits = SourceLimits::default();
    SourceArchive::open(std::io::Cursor::new(bytes.as_ref()), &limits)
}

pub(crate) fn accepted(bytes: impl AsRef<[u8]>) -> SourceTree {
    open(bytes).unwrap_or_else(|error| panic!("refused: {}", error.chain()))
}

/// The refusal, which has to carry this word and, where an entry is at fault, its name.
#[track_caller]
pub(crate) fn refused(bytes: impl AsRef<[u8]>, reason: &str, name: &str) -> Error {
    let started = std::time::Instant::now();
    let Err(error) = open(bytes) else {
        panic!("accepted; expected {reason}");
    };
    let took = started.elapsed();
    assert_eq!(error.reason(), reason, "{}", error.chain());
    assert!(error.message().contains(name), "no {name:?} in: {error}");
    assert!(took.as_millis() < 1000, "took {took:?}");
    let client = matches!(
        error.kind(),
        sless_core::ErrorKind::Invalid | sless_core::ErrorKind::LimitExceeded
    );
    assert!(client, "{error:?}");
    error
}

/// A deflate stream of so many MiB of zeroes, made of one MiB that is repeated.
pub(crate) fn zeroes_mib(count: usize) -> Vec<u8> {
    let mut compress = flate2::Compress::new(Compression::best(), false);
    let mib = vec![0; 1 << 20];
    let mut block = Vec::with_capacity(1 << 16);
    compress
        .compress_vec(&mib, &mut block, flate2::FlushCompress::Full)
        .unwrap();
    assert_eq!(compress.total_in(), 1 << 20);
    let mut stream = block.repeat(count);
    // An empty last block.
    stream.extend([3, 0]);
    stream
}

fn u16s(out: &mut Vec<u8>, fields: &[u16]) {
    out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
}

fn u32s(out: &mut Vec<u8>, fields: &[u32]) {
    out.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
}

fn length(part: &[u8]) -> u16 {
    u16::try_from(part.len()).unwrap()
}
