//! Bodies on their way out.

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
    ops::Range,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::{GetResult, GetResultPayload};
use sless_core::{ByteStream, Error, ErrorKind};

use crate::fault::body_fault;

/// How many bytes of a file are read at once.
const FILE_CHUNK: u64 = 256 * 1024;

/// The bytes of an answer. A store that gives a file is read in larger pieces than it would read itself.
pub(crate) fn body_of(found: GetResult) -> ByteStream {
    let range = found.range.clone();
    match found.payload {
        GetResultPayload::File(file, _) => read_file(file, range),
        GetResultPayload::Stream(stream) => stream.map_err(body_fault).boxed(),
    }
}

fn read_file(file: File, range: Range<u64>) -> ByteStream {
    stream::try_unfold((file, range), |(mut file, range)| async move {
        if range.is_empty() {
            return Ok(None);
        }
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = Vec::new();
            file.seek(SeekFrom::Start(range.start))?;
            let size = (&file)
                .take(FILE_CHUNK.min(range.end - range.start))
                .read_to_end(&mut chunk)?;
            Ok((chunk, (file, range.start + size as u64..range.end)))
        });
        let read: std::io::Result<_> = read.await.map_err(ended)?;
        let (chunk, rest) = read.map_err(|cause| {
            Error::unavailable("the stored file cannot be read").with_source(cause)
        })?;
        // A file that was cut ends here; `whole` says so.
        Ok((!chunk.is_empty()).then_some((Bytes::from(chunk), rest)))
    })
    .boxed()
}

fn ended(cause: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Interrupted, "the read was cut off").with_source(cause)
}

/// Passes a body on, and ends it in `Interrupted` if it is shorter than it should be.
pub(crate) fn whole(body: ByteStream, expected: u64) -> ByteStream {
    stream::try_unfold((body, expected), |(mut body, left)| async move {
        match body.try_next().await? {
            Some(chunk) => {
                let left = left.saturating_sub(chunk.len() as u64);
                Ok(Some((chunk, (body, left))))
            }
            None if left == 0 => Ok(None),
            None => Err(Error::new(
                ErrorKind::Interrupted,
                format!("the body ends {left} bytes too early"),
            )),
        }
    })
    .boxed()
}
