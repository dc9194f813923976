//! The named limits of a source.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What a source may hold at most. An error that reports one names it with `source_` in front, as
/// in `source_zip_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SourceLimits {
    /// Bytes of a zip.
    pub zip_bytes: u64,
    /// Bytes of all files together.
    pub total_bytes: u64,
    /// Entries of a zip, directories included.
    pub entries: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of one path.
    pub path_bytes: usize,
    /// Segments of one path.
    pub path_depth: usize,
    /// How many times larger than its compressed form a file may be. It counts from
    /// [`RATIO_FREE_BYTES`](Self::RATIO_FREE_BYTES) on, since small regular files compress well.
    pub ratio: u64,
    /// Bytes of contents that a tree keeps in memory; a larger one keeps them in a temporary file,
    /// which has no name and goes with the tree.
    pub memory_bytes: usize,
    /// Where such a file is made; the system's folder for temporary files where absent.
    pub spool_dir: Option<PathBuf>,
}

impl SourceLimits {
    /// A file of up to so many bytes may have any ratio.
    pub const RATIO_FREE_BYTES: u64 = 1 << 20;

    /// Bytes of one path segment: what the file systems in use allow.
    pub const SEGMENT_BYTES: usize = 255;

    /// Bytes of extra fields and comment of one entry of a zip's directory: several times what
    /// packers write, so that what is kept of a directory while it is checked stays small.
    pub const HEADER_BYTES: usize = 1024;

    pub(super) fn check_zip_bytes(&self, bytes: u64) -> Result<()> {
        self.check("source_zip_bytes", bytes, self.zip_bytes, "bytes")
    }

    pub(super) fn check_total_bytes(&self, bytes: u64) -> Result<()> {
        self.check("source_total_bytes", bytes, self.total_bytes, "bytes")
    }

    pub(super) fn check_entries(&self, entries: u64) -> Result<()> {
        self.check("source_entries", entries, self.entries, "entries")
    }

    pub(super) fn check_file_bytes(&self, bytes: u64) -> Result<()> {
        self.check("source_file_bytes", bytes, self.file_bytes, "bytes")
    }

    pub(super) fn check_ratio(&self, size: u64, compressed: u64) -> Result<()> {
        if size <= Self::RATIO_FREE_BYTES || size <= compressed.saturating_mul(self.ratio) {
            return Ok(());
        }
        Err(Error::limit("source_ratio", self.ratio, "to 1"))
    }

    fn check(&self, name: &str, value: u64, limit: u64, unit: &str) -> Result<()> {
        if value <= limit {
            return Ok(());
        }
        Err(Error::limit(name, limit, unit))
    }
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            zip_bytes: 50 << 20,
            total_bytes: 250 << 20,
            entries: 10_000,
            file_bytes: 100 << 20,
            path_bytes: 512,
            path_depth: 32,
            ratio: 200,
            memory_bytes: 1 << 20,
            spool_dir: None,
        }
    }
}
