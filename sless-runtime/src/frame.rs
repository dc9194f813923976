//! The framing between the host and a worker.
//!
//! A worker holds one control socket, one log socket and one socket per call slot, all inherited
//! Unix socket pairs. Everything on them is frames; numbers are big-endian.
//!
//! ```text
//! frame    = version:u8 (1)  kind:u8  flags:u8  reserved:u8 (0)  length:u32  payload[length]
//! flags    = 1 END: the request's or the response's body ends with this frame
//!            2 ERROR: this response stands for an error of the handler
//!            4 LOGGED: with END or FAIL, the call has written lines; all of them are on the log
//!              socket already
//!
//! slot, host to worker
//!   1  CALL      event:u8 reserved:u8 id:u16 charset:u16 method:u16 path:u32 query:u32
//!                headers:u32 timeout_ms:u32 body:u64 (whole length, 2^64-1 unknown) ticket:u64
//!                then those six parts, then the first bytes of the body
//!   2  DATA      the next bytes of the body
//!   3  CANCEL    the client has left, or the body broke off; ends the body
//! slot, worker to host
//!   17 RESPONSE  status:u16 media:u8 reserved:u8 headers:u32, headers, first bytes of the body
//!   2  DATA      the next bytes of the body
//!   18 FAIL      ends the body: type:u16, type, message
//! control, worker to host
//!   33 READY     empty; of a zygote its process id:u32, and why no worker can be forked from it,
//!                empty where one can
//!   34 REFUSED   the start failed: reason:u16, reason, message
//! control, host to zygote: a worker that was started without slots
//!   48 FORK      0:i32 0:i32, with the descriptors of a new worker: control, log, standard output,
//!                standard error, slots
//!   49 SERVE     0:i32 0:i32, with descriptors of slots: it becomes an ordinary worker
//!   50 REAP      a forked worker's process id:i32, 0:i32; the worker has ended
//! control, zygote to host
//!   51 FORKED    the process id:i32, negative an error number; 0:i32
//!   52 REAPED    the process id:i32, its status as of waitpid(2):i32
//! log, worker to host
//!   35 LOG       stream:u8 (1 out, 2 err) truncated:u8 id:u16 ticket:u64 (the call's, 0 of none),
//!                id, text
//!
//! headers  = ( name:u16 value:u32, name, value )*        text as Latin-1
//! event    = 0 no body, 1 JSON, 2 text, 3 bytes, 4 no media type given
//! media    = 0 as the headers say, 1 JSON, 2 text (UTF-8), 3 bytes
//! ```
//!
//! A slot runs one call at a time. The host ends each request's body by END or CANCEL, also
//! when the answer is already there, and the worker reads up to it before the next CALL; a
//! CANCEL that reaches a worker between calls means nothing. The worker ends each answer by END
//! or FAIL, also after a CANCEL. A host that closes a slot has given its call up; one that closes
//! the control socket wants the worker gone. A zygote answers one order before it reads the next.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};

pub(crate) const VERSION: u8 = 1;
pub(crate) const HEADER: usize = 8;
pub(crate) const RESPONSE_FIXED: usize = 8;

pub(crate) const END: u8 = 1;
pub(crate) const ERROR: u8 = 2;
pub(crate) const LOGGED: u8 = 4;

pub(crate) const CALL: u8 = 1;
pub(crate) const DATA: u8 = 2;
pub(crate) const CANCEL: u8 = 3;
pub(crate) const RESPONSE: u8 = 17;
pub(crate) const FAIL: u8 = 18;
pub(crate) const READY: u8 = 33;
pub(crate) const REFUSED: u8 = 34;
pub(crate) const LOG: u8 = 35;
pub(crate) const FORK: u8 = 48;
pub(crate) const SERVE: u8 = 49;
pub(crate) const REAP: u8 = 50;
pub(crate) const FORKED: u8 = 51;
pub(crate) const REAPED: u8 = 52;

/// A frame's first eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) length: usize,
}

impl Header {
    pub(crate) fn encode(self, to: &mut impl BufMut) {
        to.put_slice(&[VERSION, self.kind, self.flags, 0]);
        to.put_u32(self.length as u32);
    }

    /// `None` while there are too few bytes; consumes nothing.
    pub(crate) fn peek(from: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((head, _)) = from.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [version, kind, flags, _, a, b, c, d] = *head;
        if version != VERSION {
            return Err(Malformed("an unknown version"));
        }
        Ok(Some(Self {
            kind,
            flags,
            length: u32::from_be_bytes([a, b, c, d]) as usize,
        }))
    }

    pub(crate) fn ends(self) -> bool {
        self.flags & END != 0
    }
}

/// What a host and a zygote say to each other: all of it has one length, so that descriptors arrive with
/// the message that they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) kind: u8,
    pub(crate) process: i32,
    pub(crate) status: i32,
}

impl Order {
    pub(crate) const LENGTH: usize = HEADER + 8;

    /// One without a process or a status.
    pub(crate) const fn of(kind: u8) -> Self {
        Self {
            kind,
            process: 0,
            status: 0,
        }
    }

    pub(crate) fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let mut to = &mut bytes[..];
        let length = Self::LENGTH - HEADER;
        Header {
            kind: self.kind,
            flags: 0,
            length,
        }
        .encode(&mut to);
        to.put_i32(self.process);
        to.put_i32(self.status);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::LENGTH]) -> Result<Self, Malformed> {
        let header = Header::peek(bytes)?.filter(|header| header.length == Self::LENGTH - HEADER);
        let header = header.ok_or(Malformed("an order of another length"))?;
        let mut numbers = &bytes[HEADER..];
        Ok(Self {
            kind: header.kind,
            process: numbers.get_i32(),
            status: numbers.get_i32(),
        })
    }
}

/// What is wrong with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Malformed(pub(crate) &'static str);

/// How the worker makes the event out of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EventKind {
    Empty = 0,
    Json = 1,
    Text = 2,
    Bytes = 3,
    Unnamed = 4,
}

impl EventKind {
    /// From the media type, with the charset of a text.
    pub(crate) fn of(content_type: Option<&HeaderValue>) -> (Self, &str) {
        let Some(value) = content_type else {
            return (EventKind::Unnamed, "");
        };
        let Ok(value) = value.to_str() else {
            return (EventKind::Bytes, "");
        };
        let mut parts = value.split(';');
        let essence = parts.next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") || ends_with(essence, "+json") {
            return (EventKind::Json, "");
        }
        if !essence
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("text/"))
        {
            return (EventKind::Bytes, "");
        }
        let charset = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let named = name.trim().eq_ignore_ascii_case("charset");
            named.then(|| value.trim().trim_matches('"'))
        });
        (EventKind::Text, charset.unwrap_or_default())
    }
}

fn ends_with(text: &str, end: &str) -> bool {
    let start = text.len().checked_sub(end.len());
    start
        .and_then(|at| text.get(at..))
        .is_some_and(|tail| tail.eq_ignore_ascii_case(end))
}

/// What a CALL frame is made of.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) event: EventKind,
    pub(crate) request_id: &'a str,
    pub(crate) charset: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) timeout_ms: u32,
    pub(crate) body_length: Option<u64>,
}

/// Request ids and charsets are cut here; the frame gives each sixteen bits.
const MAX_SHORT: usize = 256;

impl Call<'_> {
    /// The length of the six parts.
    pub(crate) fn head_length(&self) -> usize {
        short(self.request_id).len()
            + short(self.charset).len()
            + self.method.len()
            + self.path.len()
            + self.query.len()
            + headers_length(self.headers)
    }

    /// Writes the frame with the first bytes of the body.
    pub(crate) fn encode(&self, ticket: u64, body: &[u8], end: bool, to: &mut BytesMut) {
        let (id, charset) = (short(self.request_id), short(self.charset));
        let length = 40 + self.head_length() + body.len();
        to.reserve(HEADER + length);
        Header {
            kind: CALL,
            flags: if end { END } else { 0 },
            length,
        }
        .encode(to);
        to.put_u8(self.event as u8);
        to.put_u8(0);
        to.put_u16(id.len() as u16);
        to.put_u16(charset.len() as u16);
        to.put_u16(self.method.len() as u16);
        to.put_u32(self.path.len() as u32);
        to.put_u32(self.query.len() as u32);
        to.put_u32(headers_length(self.headers) as u32);
        to.put_u32(self.timeout_ms);
        to.put_u64(self.body_length.unwrap_or(u64::MAX));
        to.put_u64(ticket);
        for part in [id, charset, self.method, self.path, self.query] {
            to.put_slice(part.as_bytes());
        }
        for (name, value) in self.headers {
            to.put_u16(name.as_str().len() as u16);
            to.put_u32(value.len() as u32);
            to.put_slice(name.as_str().as_bytes());
            to.put_slice(value.as_bytes());
        }
        to.put_slice(body);
    }
}

fn short(text: &str) -> &str {
    let mut end = text.len().min(MAX_SHORT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn headers_length(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| 6 + name.as_str().len() + value.len())
        .sum()
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// Why a handler's head cannot be sent: the text names the field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadHead(pub(crate) String);

/// Header fields of an answer at most. Whoever adds some on the way has room: a [`HeaderMap`] holds 24,576
/// names, and panics at one more.
pub(crate) const MAX_RESPONSE_FIELDS: usize = 10_000;

/// Reads the head from its fixed part and the bytes of its headers.
pub(crate) fn response_head(
    status: u16,
    media: u8,
    mut bytes: &[u8],
) -> Result<Result<ResponseHead, BadHead>, Malformed> {
    let mut headers = HeaderMap::with_capacity(4);
    if let Some(value) = media_type(media) {
        headers.insert(http::header::CONTENT_TYPE, value);
    }
    let mut bad = None;
    while !bytes.is_empty() {
        if bytes.len() < 6 {
            return Err(Malformed("a cut header field"));
        }
        let (name, value) = (bytes.get_u16() as usize, bytes.get_u32() as usize);
        if bytes.len() < name.saturating_add(value) {
            return Err(Malformed("a cut header field"));
        }
        let (name, rest) = bytes.split_at(name);
        let (value, rest) = rest.split_at(value);
        bytes = rest;
        match (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            (Ok(_), Ok(_)) if headers.len() >= MAX_RESPONSE_FIELDS => {
                bad = Some(format!(
                    "the answer has more than {MAX_RESPONSE_FIELDS} header fields (the limit max_response_fields)"
                ));
                break;
            }
            (Ok(name), Ok(value)) => {
                if !is_hop_by_hop(&name) {
                    headers.append(name, value);
                }
            }
            (Err(_), _) => {
                let name = String::from_utf8_lossy(name).into_owned();
                bad = Some(format!("{name:?} is no header name"));
            }
            (Ok(name), Err(_)) => {
                bad = Some(format!(
                    "the header {name} has a value with a line break or another control character"
                ))
            }
        }
    }
    let status = match StatusCode::from_u16(status) {
        Ok(status) if status.as_u16() >= 200 => status,
        _ => {
            return Ok(Err(BadHead(format!(
                "{status} is no status code of an answer; expected 200 to 999"
            ))));
        }
    };
    Ok(match bad {
        Some(bad) => Err(BadHead(bad)),
        None => Ok(ResponseHead { status, headers }),
    })
}

/// Fields that only the connection in front may set.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    use http::header::{CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
    [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || name.as_str() == "keep-alive"
        || name.as_str() == "proxy-connection"
}

fn media_type(media: u8) -> Option<HeaderValue> {
    Some(HeaderValue::from_static(match media {
        1 => "application/json",
        2 => "text/plain; charset=utf-8",
        3 => "application/octet-stream",
        _ => return None,
    }))
}

/// A `u16` length, that many bytes, and the rest: the form of FAIL and REFUSED.
pub(crate) fn word_and_rest(mut payload: &[u8]) -> Result<(String, String), Malformed> {
    if payload.len() < 2 {
        return Err(Malformed("a cut frame"));
    }
    let length = payload.get_u16() as usize;
    if payload.len() < length {
        return Err(Malformed("a cut frame"));
    }
    let (word, rest) = payload.split_at(length);
    Ok((lossy(word), lossy(rest)))
}

/// A LOG frame's parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) stream: u8,
    pub(crate) truncated: bool,
    pub(crate) ticket: u64,
    pub(crate) request_id: String,
    pub(crate) text: String,
}

pub(crate) fn log(mut payload: &[u8]) -> Result<Log, Malformed> {
    if payload.len() < 12 {
        return Err(Malformed("a cut log frame"));
    }
    let (stream, truncated) = (payload.get_u8(), payload.get_u8() != 0);
    let length = payload.get_u16() as usize;
    let ticket = payload.get_u64();
    if payload.len() < length {
        return Err(Malformed("a cut log frame"));
    }
    let (id, text) = payload.split_at(length);
    Ok(Log {
        stream,
        truncated,
        ticket,
        request_id: lossy(id),
        text: lossy(text),
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes one whole frame out of `buffer`, or nothing while it is incomplete. For the control and
/// the log socket, whose frames are small; `limit` bounds the payload.
pub(crate) fn take_frame(
    buffer: &mut BytesMut,
    limit: usize,
) -> Result<Option<(Header, Bytes)>, Malformed> {
    let Some(header) = Header::peek(buffer)? else {
        return Ok(None);
    };
    if header.length > limit {
        return Err(Malformed("a frame longer than its limit"));
    }
    if buffer.len() < HEADER + header.length {
        return Ok(None);
    }
    buffer.advance(HEADER);
    Ok(Some((header, buffer.split_to(header.length).freeze())))
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
