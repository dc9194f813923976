//! Values as JSON, the form in which states are stored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DecodeError, Number, Value};
use crate::Type;

/// What to do with an attribute that the type does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    Refuse,
    /// A stored state may hold attributes that this version of the schema has no more.
    Ignore,
}

/// Reads a value of this type. Numbers are read as they are written, not through a float.
pub(crate) fn from_json(bytes: &[u8], kind: &Type, extra: Extra) -> Result<Value, DecodeError> {
    let raw: &RawValue = serde_json::from_slice(bytes).map_err(refused)?;
    read(raw, kind, extra)
}

fn refused(error: serde_json::Error) -> DecodeError {
    // Category only: the text around may be a secret.
    DecodeError::new(format!("the JSON does not fit ({:?})", error.classify()))
}

fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue, kind: &Type) -> Result<T, DecodeError> {
    serde_json::from_str(raw.get())
        .map_err(|_| DecodeError::new(format!("expected {}", kind.noun())))
}

fn read(raw: &RawValue, kind: &Type, extra: Extra) -> Result<Value, DecodeError> {
    let text = raw.get();
    if text == "null" {
        return Ok(Value::Null);
    }
    Ok(match kind {
        Type::Bool => Value::Bool(parse(raw, kind)?),
        Type::String => Value::String(parse(raw, kind)?),
        Type::Number => {
            // A large one may be stored as text.
            let text = if text.starts_with('"') {
                parse::<String>(raw, kind)?
            } else {
                text.to_owned()
            };
            let number = text.parse::<Number>();
            Value::Number(number.map_err(|error| DecodeError::new(error.to_string()))?)
        }
        Type::List(item) | Type::Set(item) => {
            let items = parse::<Vec<&RawValue>>(raw, kind)?.into_iter().enumerate();
            let items = items.map(|(at, raw)| read(raw, item, extra).map_err(|e| e.below(at)));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Type::Map(item) => {
            let mut items = BTreeMap::new();
            for (key, raw) in parse::<BTreeMap<String, &RawValue>>(raw, kind)? {
                let value = read(raw, item, extra).map_err(|error| error.below(&key))?;
                items.insert(key, value);
            }
            Value::Map(items)
        }
        Type::Object(attributes) => {
            let mut given = parse::<BTreeMap<String, &RawValue>>(raw, kind)?;
            let mut items = BTreeMap::new();
            for (name, kind) in attributes {
                let value = match given.remove(name) {
                    Some(raw) => read(raw, kind, extra).map_err(|error| error.below(name))?,
                    None => Value::Null,
                };
                items.insert(name.clone(), value);
            }
            if let (Some(name), Extra::Refuse) = (given.into_keys().next(), extra) {
                return Err(DecodeError::new("there is no such attribute").below(name));
            }
            Value::Map(items)
        }
    })
}
