//! HTTP/2 (RFC 9113): what a client may make the server hold.

use std::{future::Future, sync::Arc, time::Duration};

use hyper_util::{rt::TokioTimer, server::conn::auto};

use super::{
    ServeConfig,
    pace::{PACE, Pace},
};

/// Requests that were taken back before the server saw them, at once; one more ends the connection.
const UNSEEN_TAKEN_BACK: usize = 20;

/// Streams that the server has reset for a mistake of the client; one more ends the connection.
const MISTAKES: usize = 100;

/// How much of an answer is kept for a stream whose client does not take it, in bytes.
const SEND_BUFFER: usize = 64 << 10;

/// How much of a request's body is taken before somebody reads it, in bytes: of one stream, and of
/// all streams of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 512 << 10;

/// How often a client is asked whether it is still there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Sets the limits. Of frames that go on and on (CONTINUATION), of answers to pings and settings, and
/// of the table of fields `h2` has limits of its own, some of which follow from these.
pub(super) fn limit(http2: &mut auto::Http2Builder<'_, Streams>, config: &ServeConfig) {
    let of_32_bits = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    http2
        .timer(TokioTimer::new())
        .max_concurrent_streams(of_32_bits(config.streams))
        .max_header_list_size(of_32_bits(config.header_bytes))
        .max_pending_accept_reset_streams(UNSEEN_TAKEN_BACK)
        .max_local_error_reset_streams(MISTAKES)
        .max_send_buf_size(SEND_BUFFER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
}

/// Runs the streams of connections. One whose answer is not taken in time is reset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    pub(super) stall_timeout: Duration,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (pace, limit) = (Arc::new(Pace::default()), self.stall_timeout);
        // It ends with its connection.
        tokio::spawn(PACE.scope(pace.clone(), async move {
            tokio::select! {
                () = stream => {}
                () = pace.stalled(limit) => tracing::debug!("an answer was not taken in time"),
            }
        }));
    }
}
