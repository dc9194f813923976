#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn encoded_headers(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.put_u16(name.len() as u16);
        bytes.put_u32(value.len() as u32);
        bytes.put_slice(name);
        bytes.put_slice(value);
    }
    bytes
}

#[test]
fn the_media_type_decides_the_event() {
    let of = |text: &'static str| {
        let value = HeaderValue::from_static(text);
        let (kind, charset) = EventKind::of(Some(&value));
        (kind, charset.to_owned())
    };
    assert_eq!(
        of("Application/JSON; charset=utf-8"),
        (EventKind::Json, String::new())
    );
    assert_eq!(
        of("application/cloudevents+json"),
        (EventKind::Json, String::new())
    );
    assert_eq!(of("text/plain"), (EventKind::Text, String::new()));
    assert_eq!(
        of("text/csv; a=b; Charset=\"latin-1\""),
        (EventKind::Text, "latin-1".into())
    );
    assert_eq!(
        of("application/x-www-form-urlencoded"),
        (EventKind::Bytes, String::new())
    );
    assert_eq!(of(""), (EventKind::Bytes, String::new()));
    assert_eq!(EventKind::of(None).0, EventKind::Unnamed);
}

#[test]
fn several_fields_of_one_name_stay_several() {
    let bytes = encoded_headers(&[(b"set-cookie", b"a=1"), (b"Set-Cookie", b"b=2")]);
    let head = response_head(200, 0, &bytes).unwrap().unwrap();
    let cookies: Vec<_> = head.headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["a=1", "b=2"]);
}

#[test]
fn fields_of_the_connection_are_dropped() {
    let bytes = encoded_headers(&[
        (b"Connection", b"close"),
        (b"transfer-encoding", b"chunked"),
    ]);
    assert!(
        response_head(200, 0, &bytes)
            .unwrap()
            .unwrap()
            .headers
            .is_empty()
    );
}

#[test]
fn a_head_that_cannot_be_sent_says_which_field() {
    let bytes = encoded_headers(&[(b"x-a", b"b\r\nc")]);
    let BadHead(text) = response_head(200, 0, &bytes).unwrap().unwrap_err();
    assert!(text.contains("x-a"), "{text}");
    let BadHead(text) = response_head(99, 0, &[]).unwrap().unwrap_err();
    assert!(text.contains("99"), "{text}");
    assert!(response_head(200, 0, &[0, 9, 0]).is_err());
}

/// A map of headers panics at more than 24,576 names, and more than that fit into a head.
#[test]
fn more_header_fields_than_a_map_holds_are_refused() {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let name = |number: usize| [number / 1296, number / 36 % 36, number % 36].map(|at| DIGITS[at]);
    let names: Vec<[u8; 3]> = (0..25_000).map(name).collect();
    let fields: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &[][..])).collect();
    let all = encoded_headers(&fields);
    assert!(all.len() < crate::Limits::default().max_response_head_bytes);
    let BadHead(text) = response_head(200, 0, &all).unwrap().unwrap_err();
    assert!(text.contains("max_response_fields"), "{text}");
    let enough = encoded_headers(&fields[..MAX_RESPONSE_FIELDS]);
    let head = response_head(200, 0, &enough).unwrap().unwrap();
    assert_eq!(head.headers.len(), MAX_RESPONSE_FIELDS);
}

const TICKET: u64 = 0x0102_0304_0506_0708;

/// Reads a CALL back, as a worker does.
fn decode_call(mut frame: &[u8]) -> (Vec<Vec<u8>>, Vec<u8>, bool) {
    let header = Header::peek(frame).unwrap().unwrap();
    assert_eq!(header.kind, CALL);
    assert_eq!(frame.len(), HEADER + header.length);
    frame.advance(HEADER + 2);
    let mut lengths = vec![0; 6];
    for length in &mut lengths[..3] {
        *length = frame.get_u16() as usize;
    }
    for length in &mut lengths[3..] {
        *length = frame.get_u32() as usize;
    }
    frame.advance(12);
    assert_eq!(frame.get_u64(), TICKET);
    let parts = lengths
        .into_iter()
        .map(|length| {
            let part = frame[..length].to_vec();
            frame.advance(length);
            part
        })
        .collect();
    (parts, frame.to_vec(), header.ends())
}

proptest! {
    #[test]
    fn a_call_comes_back(
        id in "[a-zA-Z0-9äö-]{0,300}", path in "/[a-z%0-9/]{0,50}", query in "[a-z=&]{0,30}",
        fields in prop::collection::vec(("[a-z]{1,10}", "[ -~]{0,20}"), 0..10),
        body in prop::collection::vec(any::<u8>(), 0..100), end in any::<bool>(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in &fields {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        let call = Call {
            event: EventKind::Json, request_id: &id, charset: "", method: "POST", path: &path,
            query: &query, headers: &headers, timeout_ms: 7, body_length: None,
        };
        let mut bytes = BytesMut::new();
        call.encode(TICKET, &body, end, &mut bytes);
        let (parts, rest, ends) = decode_call(&bytes);
        prop_assert!(id.as_bytes().starts_with(&parts[0]) && parts[0].len() <= MAX_SHORT);
        prop_assert_eq!(&parts[3], path.as_bytes());
        prop_assert_eq!(&parts[4], query.as_bytes());
        prop_assert_eq!(rest, body);
        prop_assert_eq!(ends, end);
        let mut expected = headers.clone();
        expected.remove("te");
        expected.remove("trailer");
        expected.remove("connection");
        expected.remove("upgrade");
        let got = response_head(200, 0, &parts[5]).unwrap().unwrap().headers;
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), status in any::<u16>(), media in any::<u8>()) {
        let _ = Header::peek(&bytes);
        let _ = response_head(status, media, &bytes);
        let _ = word_and_rest(&bytes);
        let _ = log(&bytes);
        let _ = take_frame(&mut BytesMut::from(&bytes[..]), 64);
    }

    #[test]
    fn frames_come_out_of_any_split(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8), cut in 1usize..20,
    ) {
        let mut wire = BytesMut::new();
        for payload in &payloads {
            Header { kind: LOG, flags: 0, length: payload.len() }.encode(&mut wire);
            wire.extend_from_slice(payload);
        }
        let mut buffer = BytesMut::new();
        let mut out = Vec::new();
        for part in wire.chunks(cut) {
            buffer.extend_from_slice(part);
            while let Some((header, payload)) = take_frame(&mut buffer, 64).unwrap() {
                prop_assert_eq!(header.kind, LOG);
                out.push(payload.to_vec());
            }
        }
        prop_assert!(buffer.is_empty());
        prop_assert_eq!(out, payloads);
    }
}
