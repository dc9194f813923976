//! The end of a call's log, sent along with its answer to a scheduler that asks for it.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, TE, TRAILER};
use http::{Response, header};
use http_body::{Body as _, Frame, SizeHint};
use sless_runtime::{Body, CallContext, CallError};

/// The field that asks, and that answers.
const LOG_TAIL: HeaderName = HeaderName::from_static("x-sless-log-tail");
/// The most bytes that may be asked for; a head of usual size still holds them, quoted.
const LOG_TAIL_BYTES_MAX: usize = 16 * 1024;

/// Somebody asked for the end of a call's log.
#[derive(Debug)]
pub(crate) struct Asked {
    cell: Arc<OnceLock<String>>,
    /// The peer reads trailers (RFC 9110, section 10.1.4).
    trailers: bool,
}

impl Asked {
    /// Reads whether it is asked for, and sees to it that it will be there.
    pub(crate) fn take(fields: &HeaderMap, context: &mut CallContext) -> Option<Self> {
        let limit: usize = fields.get(LOG_TAIL)?.to_str().ok()?.parse().ok()?;
        let cell = Arc::new(OnceLock::new());
        let limit = limit.min(LOG_TAIL_BYTES_MAX);
        *context = std::mem::take(context).with_log_tail(Arc::clone(&cell), limit);
        let trailers = fields.get_all(TE).iter().any(|value| {
            let words = value.to_str().unwrap_or_default().split(',');
            words
                .map(str::trim)
                .any(|word| word.eq_ignore_ascii_case("trailers"))
        });
        Some(Self { cell, trailers })
    }

    /// Puts the text into the head or the trailers, if there is one.
    pub(crate) fn put(&self, fields: &mut HeaderMap) {
        if let Some(value) = self.cell.get().and_then(|text| quoted(text)) {
            fields.insert(LOG_TAIL, value);
        }
    }

    /// An answer that tells it: in its head where it is known, else after its body.
    pub(crate) fn into_answer(self, mut response: Response<Body>) -> Response<Answer> {
        let whole = response.body().size_hint().exact().is_some() && self.cell.get().is_some();
        self.put(response.headers_mut());
        let streams = response.body().size_hint().exact().is_none();
        if whole || !streams || !self.trailers {
            return response.map(Answer::from);
        }
        // Announced, and only sent in chunks (RFC 9112, section 7.1.2).
        let name = HeaderValue::from_static("x-sless-log-tail");
        response.headers_mut().append(TRAILER, name);
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.map(|body| Answer {
            body,
            tail: Some(self),
        })
    }
}

/// A text as the value of a field: a JSON string in UTF-8.
fn quoted(text: &str) -> Option<HeaderValue> {
    // DEL is the one control character that JSON does not escape and a field does not hold.
    let json = serde_json::to_string(text)
        .ok()?
        .replace('\u{7f}', "\\u007f");
    HeaderValue::from_bytes(json.as_bytes()).ok()
}

/// A body, and the trailers after it.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Body,
    tail: Option<Asked>,
}

impl From<Body> for Answer {
    fn from(body: Body) -> Self {
        Self { body, tail: None }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = CallError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CallError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none()
            && let Some(tail) = self.tail.take()
        {
            let mut trailers = HeaderMap::new();
            tail.put(&mut trailers);
            if !trailers.is_empty() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.tail.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_field_and_is_read_back() {
        for text in [
            "",
            "a\nb\r\n\t\"\\",
            "höllo \u{7f}\u{0}\u{1b}[0m\u{2028}\n",
            "\u{80}",
        ] {
            let value = quoted(text).unwrap();
            let read: String = serde_json::from_slice(value.as_bytes()).unwrap();
            assert_eq!(read, text);
        }
    }
}
