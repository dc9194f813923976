//! The framing as its fuzz target sees it: no part of the API.

use bytes::{Buf, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use crate::answer::{Answer, Said};
use crate::frame::{self, Call, EventKind, MAX_RESPONSE_FIELDS};

/// What a worker may send in one head, as its limit.
const MAX_HEAD: usize = 64 * 1024;

/// Reads these bytes as whatever a worker can send, and panics where what is read depends on how the
/// bytes were cut, or is more than they hold; then sends them to a worker, and panics where another
/// reader would not find them again. The first byte says where to cut. Answers whether they are whole
/// answers.
pub fn frames(data: &[u8]) -> bool {
    let Some((cut, data)) = data.split_first() else {
        return false;
    };
    let whole = answers(&[data], false);
    let (first, second) = data.split_at(usize::from(*cut).min(data.len()));
    let cut_once = answers(&[first, second], false);
    assert_eq!(whole, cut_once, "cut at {cut}");
    let bytes: Vec<_> = data.chunks(1).collect();
    assert_eq!(whole, answers(&bytes, false), "byte by byte");
    assert_eq!(whole, answers(&[data], true), "whole bodies");
    control(data);
    order(data);
    call(data);
    whole.clean
}

/// What was read: a line for each part, bytes of a body joined.
#[derive(Debug, PartialEq)]
struct Told {
    parts: Vec<String>,
    body: Vec<u8>,
    malformed: Option<&'static str>,
    clean: bool,
}

/// Reads answers out of these pieces; `whole_bodies` takes a body at once where all of it is there.
fn answers(pieces: &[&[u8]], whole_bodies: bool) -> Told {
    let mut answer = Answer::new(MAX_HEAD);
    answer.begin();
    let mut told = Told {
        parts: Vec::new(),
        body: Vec::new(),
        malformed: None,
        clean: false,
    };
    let mut given = 0;
    for piece in pieces {
        answer.room().extend_from_slice(piece);
        given += piece.len();
        loop {
            match answer.take() {
                Ok(Some(said)) => told.add(said),
                Ok(None) => break,
                Err(malformed) => {
                    told.malformed = Some(malformed.0);
                    return told;
                }
            }
            if whole_bodies && let Some(body) = answer.take_whole_body() {
                told.body.extend_from_slice(&body);
                told.add(Said::End);
            }
            assert!(told.body.len() <= given, "more than came");
        }
    }
    told.clean = answer.is_clean();
    told
}

impl Told {
    fn add(&mut self, said: Said) {
        let part = match said {
            // How a body is cut says nothing.
            Said::Data(bytes) => return self.body.extend_from_slice(&bytes),
            Said::Head {
                head,
                is_error,
                length,
            } => {
                if let Ok(head) = &head {
                    assert!(head.status.as_u16() >= 200);
                    assert!(head.headers.len() <= MAX_RESPONSE_FIELDS);
                    assert!(!head.headers.contains_key("transfer-encoding"));
                    assert!(!head.headers.contains_key("connection"));
                }
                format!("{head:?} {is_error} {length:?} after {}", self.body.len())
            }
            other => format!("{other:?} after {}", self.body.len()),
        };
        self.parts.push(part);
    }
}

/// The control socket and the log socket.
fn control(data: &[u8]) {
    let mut buffer = BytesMut::from(data);
    while let Ok(Some((header, payload))) = frame::take_frame(&mut buffer, MAX_HEAD) {
        assert_eq!(header.length, payload.len());
        // A byte that is no UTF-8 becomes a character of three.
        let most = 3 * payload.len();
        if let Ok((word, rest)) = frame::word_and_rest(&payload) {
            assert!(word.len() + rest.len() <= most);
        }
        if let Ok(log) = frame::log(&payload) {
            assert!(log.text.len() + log.request_id.len() <= most);
        }
    }
}

/// What a zygote answers.
fn order(data: &[u8]) {
    if let Some(bytes) = data.first_chunk()
        && let Ok(order) = frame::Order::decode(bytes)
    {
        assert_eq!(frame::Order::decode(&order.encode()), Ok(order));
    }
}

/// What is sent to a worker is one frame that holds what the client sent, whatever that is: a line each
/// of id, method, path and query, then header fields.
fn call(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (request_id, method, path, query) = (line(), line(), line(), line());
    let mut headers = HeaderMap::new();
    for field in lines.take(MAX_RESPONSE_FIELDS) {
        if let Some((name, value)) = field.split_once(':')
            && let Ok(name) = HeaderName::try_from(name)
            && let Ok(value) = HeaderValue::try_from(value)
        {
            headers.append(name, value);
        }
    }
    // The server in front refuses longer ones.
    let method = if method.len() > 64 { "GET" } else { method };
    let (event, charset) = EventKind::of(headers.get(CONTENT_TYPE));
    let call = Call {
        event,
        request_id,
        charset,
        method,
        path,
        query,
        headers: &headers,
        timeout_ms: 1,
        body_length: None,
    };
    let mut encoded = BytesMut::new();
    call.encode(7, data, true, &mut encoded);
    let read = frame::take_frame(&mut encoded, 40 + call.head_length() + data.len());
    let Ok(Some((header, payload))) = read else {
        panic!("a call is no frame: {read:?}");
    };
    assert!(header.kind == frame::CALL && header.ends() && encoded.is_empty());
    assert_found_again(&call, &payload, data);
}

/// Reads a CALL by the layout that the module `frame` documents.
fn assert_found_again(call: &Call<'_>, payload: &[u8], body: &[u8]) {
    let (mut fixed, mut rest) = payload.split_at(40);
    assert_eq!(fixed.get_u8(), call.event as u8);
    fixed.advance(1);
    let short = [(); 3].map(|()| usize::from(fixed.get_u16()));
    let long = [(); 3].map(|()| fixed.get_u32() as usize);
    let numbers = (fixed.get_u32(), fixed.get_u64(), fixed.get_u64());
    assert_eq!(numbers, (1, u64::MAX, 7));
    let mut part = |length| {
        let (part, others) = rest.split_at(length);
        rest = others;
        part
    };
    let [id, charset, method] = short.map(&mut part);
    let [path, query, mut fields] = long.map(&mut part);
    assert_eq!(rest, body);
    assert!(call.request_id.as_bytes().starts_with(id));
    assert!(call.charset.as_bytes().starts_with(charset));
    assert_eq!(method, call.method.as_bytes());
    assert_eq!(path, call.path.as_bytes());
    assert_eq!(query, call.query.as_bytes());
    for (name, value) in call.headers {
        let lengths = (usize::from(fields.get_u16()), fields.get_u32() as usize);
        let (read, others) = fields.split_at(lengths.0);
        assert_eq!(read, name.as_str().as_bytes());
        let (read, others) = others.split_at(lengths.1);
        assert_eq!(read, value.as_bytes());
        fields = others;
    }
    assert!(fields.is_empty());
}
