//! Reads what a worker writes.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::UnixStream;

use crate::frame;
use crate::log::{LineCutter, LogLine, LogStream, Tail};

const READ: usize = 64 * 1024;
/// A LOG frame's own fields and the request id, beside the line.
const LOG_OVERHEAD: usize = 4 + 1024;

/// Reads LOG frames to the end. A worker that breaks the protocol is read on and ignored, so
/// that it does not hang.
pub(crate) async fn read_log(mut from: UnixStream, tail: Arc<Tail>, limit: usize) {
    let mut buffer = BytesMut::with_capacity(READ);
    let mut broken = false;
    loop {
        while !broken {
            match frame::take_frame(&mut buffer, limit + LOG_OVERHEAD) {
                Ok(Some((header, payload))) if header.kind == frame::LOG => {
                    let Ok(log) = frame::log(&payload) else {
                        continue;
                    };
                    tail.write(LogLine {
                        time: SystemTime::now(),
                        stream: if log.stream == 2 {
                            LogStream::Stderr
                        } else {
                            LogStream::Stdout
                        },
                        request_id: Some(log.request_id).filter(|id| !id.is_empty()),
                        text: log.text,
                        truncated: log.truncated,
                    });
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => broken = true,
            }
        }
        if broken {
            buffer.clear();
        }
        buffer.reserve(READ);
        if !matches!(from.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

/// Reads what was written to an inherited descriptor, by the interpreter itself or by
/// subprocesses, and cuts it into lines.
pub(crate) async fn read_raw(
    mut from: impl AsyncRead + Unpin,
    stream: LogStream,
    tail: Arc<Tail>,
    limit: usize,
) {
    let give = |text: String, truncated: bool| {
        tail.write(LogLine {
            time: SystemTime::now(),
            stream,
            request_id: None,
            text,
            truncated,
        });
    };
    let mut cutter = LineCutter::new(limit);
    let mut buffer = vec![0; 8 * 1024];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => cutter.push(&buffer[..length], give),
        }
    }
    cutter.finish(give);
}
