//! Names for calls: the request id and the W3C trace context.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

/// The name of a call in every log.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// The longest request id that a client may choose, in bytes.
const REQUEST_ID_MAX: usize = 128;

/// The request id of a call: the client's, where it is one word of plain characters, else a new one.
/// The fields hold it afterwards.
pub(super) fn request_id(fields: &mut HeaderMap) -> Arc<str> {
    let mut given = fields.get_all(REQUEST_ID).iter();
    let chosen = match (given.next(), given.next()) {
        (Some(only), None) => only
            .to_str()
            .ok()
            .filter(|text| is_plain(text))
            .map(Arc::from),
        _ => None,
    };
    let id = chosen.unwrap_or_else(|| {
        let mut text = [0; 32];
        hex(&random::<16>(), &mut text);
        // Digits are text.
        String::from_utf8_lossy(&text).into()
    });
    if let Ok(value) = HeaderValue::from_str(&id) {
        fields.insert(REQUEST_ID, value);
    }
    id
}

fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(&byte);
    (1..=REQUEST_ID_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// Sees to it that a call has a trace context (W3C Trace Context, section 3): the caller's is passed
/// on as it is; where there is none, or none that can be read, a new trace begins, without the state
/// of the old one.
pub(super) fn trace_parent(fields: &mut HeaderMap) {
    let mut given = fields.get_all(TRACE_PARENT).iter();
    let valid = match (given.next(), given.next()) {
        (Some(only), None) => is_trace_parent(only.as_bytes()),
        _ => false,
    };
    if valid {
        return;
    }
    fields.remove(TRACE_STATE);
    // Not sampled: nobody has asked for a record of it.
    let mut parent = *b"00-tttttttttttttttttttttttttttttttt-pppppppppppppppp-00";
    hex(&nonzero::<16>(), &mut parent[3..35]);
    hex(&nonzero::<8>(), &mut parent[36..52]);
    if let Ok(value) = HeaderValue::from_bytes(&parent) {
        fields.insert(TRACE_PARENT, value);
    }
}

/// Section 3.2.2: version, trace id, parent id and flags in lower-case hex. A higher version may be
/// longer, with a dash behind what is known here.
fn is_trace_parent(value: &[u8]) -> bool {
    let hex = |part: &[u8]| {
        part.iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let some = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    if value.len() < 55 || value[2] != b'-' || value[35] != b'-' || value[52] != b'-' {
        return false;
    }
    let (version, trace) = (&value[..2], &value[3..35]);
    let (parent, flags) = (&value[36..52], &value[53..55]);
    let whole = value.len() == 55 || (version != b"00" && value[55] == b'-');
    whole
        && hex(version)
        && version != b"ff"
        && hex(trace)
        && some(trace)
        && hex(parent)
        && some(parent)
        && hex(flags)
}

/// Two digits for each byte, in place: this is on the way of every call. To format each byte took an eighth of
/// the instructions of a small request, its allocations aside.
fn hex(bytes: &[u8], text: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
}

/// Random bytes, which name something and guard nothing: so the system need not be asked each time.
fn random<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    fastrand::fill(&mut bytes);
    bytes
}

fn nonzero<const LENGTH: usize>() -> [u8; LENGTH] {
    let mut bytes = random();
    if bytes.iter().all(|byte| *byte == 0) {
        bytes[0] = 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn with(lines: &[(HeaderName, &str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(name, HeaderValue::from_str(value).unwrap());
        }
        fields
    }

    #[test]
    fn a_context_that_is_right_is_passed_on() {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future";
        for parent in [PARENT, later] {
            let given = [
                (TRACE_PARENT, parent),
                (TRACE_STATE, "a=1"),
                (TRACE_STATE, "b=2"),
            ];
            let mut fields = with(&given);
            trace_parent(&mut fields);
            assert_eq!(fields, with(&given));
        }
    }

    #[test]
    fn a_context_that_is_wrong_begins_a_new_trace() {
        let wrong = [
            "",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.x",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        ];
        for parent in wrong {
            let mut fields = with(&[(TRACE_PARENT, parent), (TRACE_STATE, "a=1")]);
            trace_parent(&mut fields);
            assert_ne!(fields[TRACE_PARENT], parent);
            assert!(is_trace_parent(fields[TRACE_PARENT].as_bytes()));
            assert!(!fields.contains_key(TRACE_STATE));
        }
        let mut twice = with(&[(TRACE_PARENT, PARENT), (TRACE_PARENT, PARENT)]);
        trace_parent(&mut twice);
        assert_eq!(twice.get_all(TRACE_PARENT).iter().count(), 1);
        assert_ne!(twice[TRACE_PARENT], PARENT);
    }

    #[test]
    fn a_request_id_is_kept_where_it_is_plain() {
        let mut fields = with(&[(REQUEST_ID, "abc-123")]);
        assert_eq!(&*request_id(&mut fields), "abc-123");
        let long = "a".repeat(REQUEST_ID_MAX + 1);
        for wrong in ["", "a b", "a\"b", "a,b", &long] {
            let mut fields = with(&[(REQUEST_ID, wrong)]);
            let id = request_id(&mut fields);
            assert_eq!(id.len(), 32, "{wrong}");
            assert_eq!(fields[REQUEST_ID], *id);
        }
        let mut twice = with(&[(REQUEST_ID, "a"), (REQUEST_ID, "b")]);
        let id = request_id(&mut twice);
        assert_eq!(twice.get_all(REQUEST_ID).iter().collect::<Vec<_>>(), [&*id]);
    }

    #[test]
    fn digits_are_those_of_the_bytes() {
        let mut text = [0; 8];
        hex(&[0x00, 0x1f, 0xa0, 0xff], &mut text);
        assert_eq!(&text, b"001fa0ff");
    }

    proptest! {
        #[test]
        fn there_is_always_one_right_context(value in "[ -~]{0,80}") {
            let mut fields = with(&[(TRACE_PARENT, &value)]);
            trace_parent(&mut fields);
            prop_assert!(is_trace_parent(fields[TRACE_PARENT].as_bytes()));
        }
    }
}
