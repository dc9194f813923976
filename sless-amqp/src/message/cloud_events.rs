//! CloudEvents in binary mode: attributes from AMQP to HTTP.
//!
//! The AMQP protocol binding of CloudEvents 1.0 (section 3.1.3) writes an attribute as a header with
//! the prefix `cloudEvents:` or `cloudEvents_`; the HTTP binding (section 3.1.3) as a field `ce-…`, whose
//! value has all but printable ASCII, the space, the quote and the percent sign percent-encoded.

use std::{collections::BTreeMap, fmt::Write as _};

use lapin::types::{AMQPValue, ShortString};

use super::text;

const PREFIXES: [&str; 2] = ["cloudEvents:", "cloudEvents_"];

/// Names the attributes as HTTP does, where the message is a CloudEvent: where it says the version of
/// CloudEvents.
pub(super) fn apply(
    headers: &mut BTreeMap<String, String>,
    table: &BTreeMap<ShortString, AMQPValue>,
    content_type: &mut Option<String>,
) {
    let is_event = PREFIXES
        .iter()
        .any(|prefix| table.contains_key(format!("{prefix}specversion").as_str()));
    if !is_event {
        return;
    }
    for (name, value) in table {
        let attribute = PREFIXES
            .iter()
            .find_map(|prefix| name.as_str().strip_prefix(prefix));
        let Some(attribute) = attribute.filter(|attribute| !attribute.is_empty()) else {
            continue;
        };
        headers.remove(name.as_str());
        let value = text(value);
        if attribute == "datacontenttype" {
            // Its place is the content type; there it is as it was.
            content_type.get_or_insert(value);
        } else {
            headers.insert(
                format!("ce-{}", attribute.to_ascii_lowercase()),
                encoded(&value),
            );
        }
    }
}

fn encoded(value: &str) -> String {
    let mut field = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'"' | b'%' => write!(field, "%{byte:02X}").unwrap_or_default(),
            0x21..=0x7e => field.push(char::from(byte)),
            _ => write!(field, "%{byte:02X}").unwrap_or_default(),
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_http_binding_shows() {
        // The example of the HTTP binding, section 3.1.3.2.
        assert_eq!(encoded("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(encoded("a\"b%c~"), "a%22b%25c~");
    }
}
