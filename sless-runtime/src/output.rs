//! Reads what a worker writes on descriptors that know no calls.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::log::{LineCutter, LogLine, LogStream, Tail};
use crate::pace::PAUSE_MAX;

/// What is read at once, in bytes: each of them may be the end of a line, of which a record is made before
/// anybody else gets this thread.
const READ: usize = 1024;

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
    let mut buffer = vec![0; READ];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => {
                tail.pace.spend(length);
                cutter.push(&buffer[..length], give);
                if length == READ {
                    tokio::task::yield_now().await;
                }
            }
        }
        // Short enough that what a worker wrote before its end is read within the patience for it.
        if let Some(pause) = tail.pace.pause() {
            tokio::time::sleep(pause.min(PAUSE_MAX / 2)).await;
        }
    }
    cutter.finish(give);
}
