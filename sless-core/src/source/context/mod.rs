//! The build context: one tar.gz that holds all that a build needs.
//!
//! Format 1: gzip (no name, no time) around a tar of regular files in GNU format. First a
//! `Dockerfile`, then the files of the source, sorted, with mode 0644 or 0755, owner 0, one fixed
//! time, and no entries for directories. The Dockerfile begins with two comment lines that give the
//! format's version and the digest of the source; [`read`] holds the files against it.
//!
//! The tar is the same to the byte wherever and whenever it is written. The gzip around it is the
//! same as long as the deflate library in the build is; name a context by its source's digest.

mod dockerfile;
mod reader;
mod writer;

pub use self::{
    dockerfile::dockerfile,
    reader::{Context, read},
    writer::{ContextInfo, write},
};

/// The version of the format that [`write()`] writes.
pub const VERSION: u32 = 1;

const DOCKERFILE: &str = "Dockerfile";

/// The time of every file: 2000-01-01. Not the epoch, since what builds wheels out of these files
/// cannot hold a time before 1980.
const MTIME: u64 = 946_684_800;
