//! [`LogTail`]: the end of what one call wrote to its log.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header::TRAILER};
use http_body::{Frame, SizeHint};

use crate::{Body, Error, Invocation, Result};

/// Takes the end of what one call wrote to its log, from whoever runs the call to whoever records it.
///
/// It travels in [`CallContext`](crate::CallContext). The backend fills it at most once: before the
/// body of the response ends or breaks off, or before [`invoke`](crate::Invoke::invoke) fails. A call
/// that wrote nothing leaves it empty. Clones are the same one; [`LogTail::default`] is one that
/// nobody reads, and costs nothing.
///
/// A runtime that is reached over HTTP is asked for it by the field [`LogTail::FIELD`] in the request
/// and answers in a field of the same name, see [`LogTail::ask`] and [`LogTail::take_from`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTail(Option<Arc<OnceLock<String>>>);

impl LogTail {
    /// The header field in which a runtime behind HTTP is asked for the tail, with the most bytes as
    /// its value, and in which it answers: in the head where the tail is known by then, else in the
    /// trailers (RFC 9110, section 6.5). The answer is the text as a JSON string, in UTF-8.
    pub const FIELD: HeaderName = HeaderName::from_static("x-sless-log-tail");

    /// An empty one that somebody will read.
    pub fn wanted() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether somebody will read it.
    pub const fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Gives the lines, oldest first, and keeps their end: at most [`Invocation::LOG_TAIL_MAX`] bytes,
    /// from the start of a line where one begins within them. What comes after the first time, or is
    /// empty, is passed over.
    pub fn fill(&self, text: &str) {
        if let Some(cell) = &self.0
            && !text.is_empty()
        {
            cell.get_or_init(|| end_of(text).to_owned());
        }
    }

    /// What was given.
    pub fn text(&self) -> Option<&str> {
        self.0.as_ref()?.get().map(|text| end_of(text))
    }

    /// The place where the text goes, for a runtime that knows nothing of this crate. What is put
    /// there is cut when it is read.
    pub const fn cell(&self) -> Option<&Arc<OnceLock<String>>> {
        self.0.as_ref()
    }

    /// Asks for the tail, in the head of a request to a runtime. `te: trailers` is for the connection
    /// and has to be sent by whoever makes the connection.
    pub fn ask(&self, fields: &mut HeaderMap) {
        fields.remove(Self::FIELD);
        if self.is_wanted() {
            fields.insert(Self::FIELD, HeaderValue::from(Invocation::LOG_TAIL_MAX));
        }
    }

    /// Takes the tail out of the head or the trailers of a runtime's answer. The field never goes on
    /// to the caller; one that cannot be read is as good as none.
    pub fn take(&self, fields: &mut HeaderMap) {
        if let Some(value) = fields.remove(Self::FIELD)
            && let Ok(text) = serde_json::from_slice::<String>(value.as_bytes())
        {
            self.fill(&text);
        }
    }

    /// Takes the tail out of a runtime's answer: out of its head, and out of its trailers as the body
    /// ends. Other trailers stay.
    #[must_use]
    pub fn take_from(&self, mut response: http::Response<Body>) -> http::Response<Body> {
        self.take(response.headers_mut());
        let announced = |value: &HeaderValue| {
            let names = value.to_str().unwrap_or_default().split(',');
            let mut names = names.map(str::trim);
            names.any(|name| name.eq_ignore_ascii_case(Self::FIELD.as_str()))
        };
        let trailers = response.headers().get_all(TRAILER);
        if !trailers.iter().any(announced) {
            return response;
        }
        let tail = self.clone();
        response.map(|body| Body::wrap(Trailed { body, tail }))
    }
}

/// A body whose trailers may hold the tail.
struct Trailed {
    body: Body,
    tail: LogTail,
}

impl http_body::Body for Trailed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
            return Poll::Ready(None);
        };
        Poll::Ready(match frame.map(Frame::into_trailers) {
            Ok(Ok(mut fields)) => {
                self.tail.take(&mut fields);
                (!fields.is_empty()).then(|| Ok(Frame::trailers(fields)))
            }
            Ok(Err(data)) => Some(Ok(data)),
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The end of a text that [`Invocation::log_tail`] has room for.
pub(crate) fn end_of(text: &str) -> &str {
    let Some(mut from) = text.len().checked_sub(Invocation::LOG_TAIL_MAX) else {
        return text;
    };
    if from == 0 {
        return text;
    }
    while !text.is_char_boundary(from) {
        from += 1;
    }
    if text.as_bytes()[from - 1] == b'\n' {
        return &text[from..];
    }
    // From the line that begins within, unless that leaves nothing.
    match text[from..].find('\n') {
        Some(newline) if from + newline + 1 < text.len() => &text[from + newline + 1..],
        _ => &text[from..],
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http_body::Body as _;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_is_kept_as_it_is() {
        let tail = LogTail::wanted();
        assert_eq!(tail.text(), None);
        tail.fill("");
        assert_eq!(tail.text(), None);
        tail.fill("one\ntwo\n");
        tail.fill("three\n");
        assert_eq!(tail.text(), Some("one\ntwo\n"), "the first one counts");
        LogTail::default().fill("nobody reads this");
        assert_eq!(LogTail::default().text(), None);
    }

    #[test]
    fn a_long_text_is_cut_at_a_line() {
        let text: String = (0..2_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        let tail = LogTail::wanted();
        tail.fill(&text);
        let kept = tail.text().unwrap();
        assert!(
            kept.starts_with("line 1") && kept.ends_with("line 1999\n"),
            "{kept}"
        );
        assert!(
            kept.len() <= Invocation::LOG_TAIL_MAX && kept.len() > Invocation::LOG_TAIL_MAX - 12
        );
        // Where a line begins exactly at the cut, it is kept.
        let exact = format!("x\n{}", "a".repeat(Invocation::LOG_TAIL_MAX));
        assert_eq!(end_of(&exact), &exact[2..]);
        // A single long line is cut at a character.
        let long = "ä".repeat(Invocation::LOG_TAIL_MAX);
        assert_eq!(end_of(&long).len(), Invocation::LOG_TAIL_MAX);
        let ended = format!("{long}\n");
        assert!(end_of(&ended).starts_with('ä') && end_of(&ended).ends_with("ä\n"));
    }

    #[test]
    fn the_field_goes_there_and_back() {
        let tail = LogTail::wanted();
        let mut fields = HeaderMap::new();
        fields.insert(LogTail::FIELD, HeaderValue::from_static("a client's"));
        LogTail::default().ask(&mut fields);
        assert!(fields.is_empty());
        tail.ask(&mut fields);
        assert_eq!(fields[LogTail::FIELD], "4096");
        let value = HeaderValue::from_bytes("\"a\\n\\u007fü\\n\"".as_bytes()).unwrap();
        fields.insert(LogTail::FIELD, value);
        tail.take(&mut fields);
        assert!(fields.is_empty());
        assert_eq!(tail.text(), Some("a\n\u{7f}ü\n"));
    }

    #[tokio::test]
    async fn the_field_is_taken_out_of_trailers() {
        let tail = LogTail::wanted();
        let mut trailers = HeaderMap::new();
        trailers.insert(LogTail::FIELD, HeaderValue::from_static("\"line\\n\""));
        trailers.insert("x-other", HeaderValue::from_static("stays"));
        let frames = [
            Ok::<_, Error>(Frame::data(Bytes::from("data"))),
            Ok(Frame::trailers(trailers)),
        ];
        let body = http_body_util::StreamBody::new(futures::stream::iter(frames));
        let mut response = http::Response::new(Body::wrap(body));
        let announced = HeaderValue::from_static("x-other, X-Sless-Log-Tail");
        response.headers_mut().insert(TRAILER, announced);
        let mut body = tail.take_from(response).into_body();
        let mut seen = Vec::new();
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
        {
            seen.push(frame.unwrap());
        }
        assert_eq!(seen[0].data_ref().unwrap(), "data");
        let left = seen[1].trailers_ref().unwrap();
        assert_eq!(
            (left.len(), &left["x-other"]),
            (1, &HeaderValue::from_static("stays"))
        );
        assert_eq!(tail.text(), Some("line\n"));
    }

    proptest! {
        #[test]
        fn the_end_is_an_end_and_fits(text in "[a-zä\n]{0,9000}") {
            let end = end_of(&text);
            prop_assert!(text.ends_with(end));
            prop_assert!(end.len() <= Invocation::LOG_TAIL_MAX);
            prop_assert_eq!(end.is_empty(), text.is_empty());
            if text.len() <= Invocation::LOG_TAIL_MAX {
                prop_assert_eq!(end, &text);
            }
        }
    }
}
