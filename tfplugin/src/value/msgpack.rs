//! Values as MessagePack, the form in which they travel.

use std::collections::BTreeMap;

use rmp::encode::{self, ByteBuf};

use super::{
    DecodeError, Number, Unknown, Value,
    reader::{Item, Reader},
};
use crate::Type;

/// The extension type of a value of which something is known.
const REFINED: i8 = 12;

/// Reads a value of this type. No bytes are null.
pub(crate) fn from_msgpack(bytes: &[u8], kind: &Type) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader, kind)?;
    reader.end()?;
    Ok(value)
}

fn read(reader: &mut Reader<'_>, kind: &Type) -> Result<Value, DecodeError> {
    let wrong = |found: &str| {
        Err(DecodeError::new(format!(
            "expected {}, found {found}",
            kind.noun()
        )))
    };
    Ok(match (reader.next()?, kind) {
        (Item::Nil, _) => Value::Null,
        (Item::Extension(REFINED, refined), _) => Value::Unknown(Unknown {
            refined: Some(refined.into()),
        }),
        (Item::Extension(..), _) => Value::UNKNOWN,
        (Item::Bool(value), Type::Bool) => Value::Bool(value),
        (Item::Number(number), Type::Number) => Value::Number(number),
        // What no integer and no float holds exactly travels as text.
        (Item::Text(text), Type::Number) => {
            let number = text.parse::<Number>();
            Value::Number(number.map_err(|error| DecodeError::new(error.to_string()))?)
        }
        (Item::Text(text), Type::String) => Value::String(text.to_owned()),
        (Item::List(count), Type::List(item) | Type::Set(item)) => {
            let items = (0..count).map(|at| read(reader, item).map_err(|error| error.below(at)));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        (Item::Map(count), Type::Map(item)) => {
            let mut items = BTreeMap::new();
            for _ in 0..count {
                let key = reader.text()?;
                let value = read(reader, item).map_err(|error| error.below(&key))?;
                items.insert(key, value);
            }
            Value::Map(items)
        }
        (Item::Map(count), Type::Object(attributes)) => {
            let mut items = BTreeMap::new();
            for _ in 0..count {
                let name = reader.text()?;
                let Some(kind) = attributes.get(&name) else {
                    return Err(DecodeError::new("there is no such attribute").below(name));
                };
                let value = read(reader, kind).map_err(|error| error.below(&name))?;
                items.insert(name, value);
            }
            for name in attributes.keys() {
                items.entry(name.clone()).or_default();
            }
            Value::Map(items)
        }
        (Item::Bool(_), _) => return wrong("a truth value"),
        (Item::Number(_), _) => return wrong("a number"),
        (Item::Text(_), _) => return wrong("a text"),
        (Item::List(_), _) => return wrong("a list"),
        (Item::Map(_), _) => return wrong("a map"),
    })
}

/// Writes a value of this type. An attribute that an object lacks is null.
pub(crate) fn to_msgpack(value: &Value, kind: &Type) -> Vec<u8> {
    let mut buffer = ByteBuf::new();
    // Writing into memory cannot fail, so that the error type has no value.
    let Ok(()) = write(&mut buffer, value, kind);
    buffer.into_vec()
}

type Written = Result<(), std::convert::Infallible>;

fn write(buffer: &mut ByteBuf, value: &Value, kind: &Type) -> Written {
    match (value, kind) {
        (Value::Null, _) => encode::write_nil(buffer)?,
        (Value::Unknown(Unknown { refined: None }), _) => {
            buffer.as_mut_vec().extend([0xd4, 0, 0]);
        }
        (
            Value::Unknown(Unknown {
                refined: Some(refined),
            }),
            _,
        ) => {
            let Ok(_) =
                encode::write_ext_meta(buffer, length(refined.len()), REFINED).map_err(never);
            buffer.as_mut_vec().extend_from_slice(refined);
        }
        (Value::Bool(value), _) => encode::write_bool(buffer, *value)?,
        (Value::Number(number), _) => write_number(buffer, number),
        (Value::String(text), _) => write_text(buffer, text),
        (Value::List(items), kind) => {
            let Ok(_) = encode::write_array_len(buffer, length(items.len())).map_err(never);
            let item = match kind {
                Type::List(item) | Type::Set(item) => item,
                other => other,
            };
            items
                .iter()
                .try_for_each(|value| write(buffer, value, item))?;
        }
        (Value::Map(items), Type::Object(attributes)) => {
            let Ok(_) = encode::write_map_len(buffer, length(attributes.len())).map_err(never);
            for (name, kind) in attributes {
                write_text(buffer, name);
                write(buffer, items.get(name).unwrap_or(&Value::Null), kind)?;
            }
        }
        (Value::Map(items), kind) => {
            let Ok(_) = encode::write_map_len(buffer, length(items.len())).map_err(never);
            let item = match kind {
                Type::Map(item) => item,
                other => other,
            };
            for (name, value) in items {
                write_text(buffer, name);
                write(buffer, value, item)?;
            }
        }
    }
    Ok(())
}

/// Writing into memory fails never; the encoder's error type does not say so by itself.
fn never(error: encode::ValueWriteError<std::convert::Infallible>) -> std::convert::Infallible {
    match error {
        encode::ValueWriteError::InvalidMarkerWrite(never)
        | encode::ValueWriteError::InvalidDataWrite(never) => never,
    }
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn write_text(buffer: &mut ByteBuf, text: &str) {
    let Ok(()) = encode::write_str(buffer, text).map_err(never);
}

fn write_number(buffer: &mut ByteBuf, number: &Number) {
    if let Some(integer) = number.to_i64() {
        let Ok(_) = encode::write_sint(buffer, integer).map_err(never);
    } else if let Some(integer) = number.to_u64() {
        let Ok(_) = encode::write_uint(buffer, integer).map_err(never);
    } else {
        write_text(buffer, &number.to_string());
    }
}
