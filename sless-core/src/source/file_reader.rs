//! Where the bytes of a tree are, and how one file of it is read.

use std::{
    io::{self, Read, Seek, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tempfile::SpooledTempFile;

/// The bytes of all files of a tree.
#[derive(Debug)]
pub(super) enum Contents {
    /// One after the other, in memory up to a limit and in an unnamed file beyond it.
    Spool(Mutex<SpooledTempFile>),
    /// As an embedder gave them, in the order of the files.
    Memory(Vec<Bytes>),
}

/// Reads one file of a [`SourceTree`](super::SourceTree), from its start to its end.
///
/// Readers of one tree can be used at once; each read locks the tree's contents for its own time.
#[derive(Debug)]
pub struct FileReader(Inner);

#[derive(Debug)]
enum Inner {
    Spool {
        contents: Arc<Contents>,
        at: u64,
        left: u64,
    },
    Memory(io::Cursor<Bytes>),
}

impl FileReader {
    /// `place` is an offset in a spool and an index in memory.
    pub(super) fn new(contents: &Arc<Contents>, place: u64, size: u64) -> Self {
        Self(match &**contents {
            Contents::Spool(_) => Inner::Spool {
                contents: Arc::clone(contents),
                at: place,
                left: size,
            },
            Contents::Memory(all) => {
                let bytes = usize::try_from(place).ok().and_then(|at| all.get(at));
                Inner::Memory(io::Cursor::new(bytes.cloned().unwrap_or_default()))
            }
        })
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Memory(cursor) => cursor.read(buffer),
            Inner::Spool { contents, at, left } => {
                let most = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                let Contents::Spool(spool) = &**contents else {
                    return Ok(0);
                };
                if most == 0 {
                    return Ok(0);
                }
                // A panic while the lock is held cannot leave a wrong position behind: every read
                // seeks first.
                let mut spool = spool.lock().unwrap_or_else(PoisonError::into_inner);
                spool.seek(SeekFrom::Start(*at))?;
                let read = spool.read(&mut buffer[..most])?;
                drop(spool);
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *at += read as u64;
                *left -= read as u64;
                Ok(read)
            }
        }
    }
}
