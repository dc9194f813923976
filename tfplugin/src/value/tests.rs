//! Values through their two forms.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::Type;

/// A type, and values of it.
fn typed() -> impl Strategy<Value = (Type, Value)> {
    types().prop_flat_map(|kind| {
        let values = values(&kind);
        (Just(kind), values)
    })
}

fn types() -> BoxedStrategy<Type> {
    let simple = prop_oneof![Just(Type::Bool), Just(Type::Number), Just(Type::String)];
    simple
        .prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                inner.clone().prop_map(Type::list),
                inner.clone().prop_map(Type::map),
                prop::collection::btree_map("[a-z]{1,6}", inner, 0..4).prop_map(Type::Object),
            ]
        })
        .boxed()
}

fn values(kind: &Type) -> BoxedStrategy<Value> {
    let known = match kind {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Number => prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "-?[0-9]{1,25}\\.[0-9]{1,25}"
                .prop_map(|text| Value::Number(text.parse().expect("number"))),
        ]
        .boxed(),
        Type::String => "\\PC{0,40}".prop_map(Value::String).boxed(),
        Type::List(item) | Type::Set(item) => prop::collection::vec(values(item), 0..20)
            .prop_map(Value::List)
            .boxed(),
        Type::Map(item) => prop::collection::btree_map("\\PC{0,6}", values(item), 0..20)
            .prop_map(Value::Map)
            .boxed(),
        Type::Object(attributes) => {
            let attributes: Vec<_> = attributes
                .iter()
                .map(|(name, kind)| {
                    values(kind).prop_map({
                        let name = name.clone();
                        move |value| (name.clone(), value)
                    })
                })
                .collect();
            attributes
                .prop_map(|items| Value::Map(items.into_iter().collect()))
                .boxed()
        }
    };
    prop_oneof![
        1 => Just(Value::Null),
        1 => Just(Value::UNKNOWN),
        8 => known,
    ]
    .boxed()
}

fn json(value: &Value) -> String {
    let text = |text: &str| serde_json::to_string(text).expect("text");
    match value {
        Value::Null | Value::Unknown(_) => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(value) => text(value),
        Value::List(items) => format!("[{}]", items.iter().map(json).collect::<Vec<_>>().join(",")),
        Value::Map(items) => {
            let items = items
                .iter()
                .map(|(name, value)| format!("{}:{}", text(name), json(value)));
            format!("{{{}}}", items.collect::<Vec<_>>().join(","))
        }
    }
}

proptest! {
    #[test]
    fn messagepack_brings_back_what_was_written((kind, value) in typed()) {
        let bytes = to_msgpack(&value, &kind);
        prop_assert_eq!(from_msgpack(&bytes, &kind), Ok(value));
    }

    #[test]
    fn json_brings_back_what_is_known((kind, value) in typed()) {
        let value = value.known_or_null();
        let read = from_json(json(&value).as_bytes(), &kind, Extra::Refuse);
        prop_assert_eq!(read, Ok(value));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in types()) {
        let _ = from_msgpack(&bytes, &kind);
        let _ = from_json(&bytes, &kind, Extra::Ignore);
    }

    #[test]
    fn what_is_cut_off_is_refused((kind, value) in typed(), keep in 0.0..1.0_f64) {
        let bytes = to_msgpack(&value, &kind);
        let keep = (bytes.len() as f64 * keep) as usize;
        prop_assume!(0 < keep && keep < bytes.len());
        prop_assert!(from_msgpack(&bytes[..keep], &kind).is_err());
    }
}

/// The bytes that Terraform itself sends; they are the promise, so they are written out.
#[test]
fn the_wire_form_is_terraforms() {
    let object = Type::object([
        ("a", Type::String),
        ("b", Type::Number),
        ("c", Type::list(Type::Bool)),
        ("d", Type::String),
        ("e", Type::map(Type::Number)),
    ]);
    let mut value = Value::Null;
    value.put("a", "hi");
    value.put("b", Value::Number("0.1".parse().expect("number")));
    value.put("c", Value::List(vec![Value::Bool(true), Value::Null]));
    value.put("d", Value::UNKNOWN);
    value.put("e", Value::from_iter([("k", 300)]));
    let golden: &[u8] =
        b"\x85\xa1a\xa2hi\xa1b\xa30.1\xa1c\x92\xc3\xc0\xa1d\xd4\x00\x00\xa1e\x81\xa1k\xd1\x01\x2c";
    let written = to_msgpack(&value, &object);
    // An integer may be written in any width that holds it.
    assert_eq!(from_msgpack(golden, &object), Ok(value.clone()));
    assert_eq!(from_msgpack(&written, &object), Ok(value));
    assert_eq!(written.len(), golden.len());
}

#[test]
fn a_refined_unknown_comes_back_as_it_was_and_tells_what_is_known() {
    // Extension 12 of 10 bytes: not null, and the text begins with "arn:".
    let bytes = b"\xc7\x08\x0c\x82\x01\xc2\x02\xa4arn:";
    let bytes = {
        let mut whole = bytes.to_vec();
        whole[1] = u8::try_from(bytes.len() - 3).expect("short");
        whole
    };
    let value = from_msgpack(&bytes, &Type::String).expect("refined");
    let Value::Unknown(unknown) = &value else {
        panic!("{value:?}")
    };
    assert!(unknown.is_not_null());
    assert_eq!(unknown.prefix().as_deref(), Some("arn:"));
    assert_eq!(
        from_msgpack(&to_msgpack(&value, &Type::String), &Type::String),
        Ok(value.clone())
    );
    assert_ne!(value, Value::UNKNOWN);
    assert!(!Unknown::ANY.is_not_null());
}

#[test]
fn a_value_of_another_type_is_refused_with_its_place() {
    let kind = Type::object([("list", Type::list(Type::object([("n", Type::Number)])))]);
    let bytes = b"\x81\xa4list\x91\x81\xa1n\xc3";
    let error = from_msgpack(bytes, &kind)
        .expect_err("a truth value")
        .to_string();
    assert_eq!(error, "expected a number, found a truth value, at list.0.n");
    let error = from_msgpack(b"\x81\xa1x\xc0", &kind)
        .expect_err("no x")
        .to_string();
    assert_eq!(error, "there is no such attribute, at x");
}

#[test]
fn a_claimed_length_costs_no_memory() {
    let bytes = b"\xdd\xff\xff\xff\xff";
    assert!(from_msgpack(bytes, &Type::list(Type::Bool)).is_err());
}

#[test]
fn a_stored_number_is_not_rounded() {
    let text = b"{\"n\": 0.1000000000000000000000000000000001, \"gone\": 1}";
    let kind = Type::Object(BTreeMap::from([("n".to_owned(), Type::Number)]));
    let value = from_json(text, &kind, Extra::Ignore).expect("state");
    let number = "0.1000000000000000000000000000000001"
        .parse()
        .expect("number");
    assert_eq!(value.at("n"), &Value::Number(number));
    assert!(from_json(text, &kind, Extra::Refuse).is_err());
}
