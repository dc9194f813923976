//! Values of headers as text.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use lapin::types::AMQPValue;
use serde_json::Value;

/// A value of a header as text: text as it is, numbers and booleans as they are written, times as RFC
/// 3339 says, bytes that are no text in base64, and lists and tables as JSON.
pub(super) fn text(value: &AMQPValue) -> String {
    match json(value) {
        Value::String(text) => text,
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn json(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(value) => (*value).into(),
        AMQPValue::ShortShortInt(value) => (*value).into(),
        AMQPValue::ShortShortUInt(value) => (*value).into(),
        AMQPValue::ShortInt(value) => (*value).into(),
        AMQPValue::ShortUInt(value) => (*value).into(),
        AMQPValue::LongInt(value) => (*value).into(),
        AMQPValue::LongUInt(value) => (*value).into(),
        AMQPValue::LongLongInt(value) => (*value).into(),
        AMQPValue::Float(value) => float(f64::from(*value)),
        AMQPValue::Double(value) => float(*value),
        AMQPValue::DecimalValue(value) => decimal(value.value, value.scale).into(),
        AMQPValue::ShortString(value) => value.as_str().into(),
        AMQPValue::LongString(value) => match std::str::from_utf8(value.as_bytes()) {
            Ok(text) => text.into(),
            Err(_) => BASE64.encode(value.as_bytes()).into(),
        },
        AMQPValue::ByteArray(value) => BASE64.encode(value.as_slice()).into(),
        AMQPValue::Timestamp(seconds) => timestamp(*seconds).into(),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(json).collect(),
        AMQPValue::FieldTable(table) => table
            .inner()
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), json(value)))
            .collect(),
        AMQPValue::Void => Value::Null,
    }
}

/// JSON has no word for what is no number.
fn float(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| value.to_string().into(), Value::Number)
}

fn decimal(value: u32, scale: u8) -> String {
    let digits = format!("{value:0>width$}", width = usize::from(scale) + 1);
    let (whole, rest) = digits.split_at(digits.len() - usize::from(scale));
    if rest.is_empty() {
        whole.to_owned()
    } else {
        format!("{whole}.{rest}")
    }
}

fn timestamp(seconds: u64) -> String {
    let time = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.to_string())
}
