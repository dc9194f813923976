use lapin::types::{DecimalValue, FieldArray};
use proptest::prelude::*;

use super::*;

fn table(entries: impl IntoIterator<Item = (&'static str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

fn long(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

fn came(properties: BasicProperties) -> Parcel {
    Parcel::from_parts(
        properties,
        "shop",
        "orders.new",
        Bytes::from_static(b"body"),
    )
}

/// What comes back after a detour through a broker, which adds what a broker adds.
fn detour(parcel: &Parcel, attempts: u32, death: Option<Death>) -> Parcel {
    let wrapped = parcel.wrapped(attempts, death);
    assert_eq!(*wrapped.delivery_mode(), Some(PERSISTENT));
    assert_eq!(*wrapped.expiration(), None);
    assert_eq!(*wrapped.user_id(), None);
    let mut headers = inner(wrapped.headers().as_ref());
    for name in DEATHS.into_iter().chain(ROUTING) {
        assert!(!headers.contains_key(name), "{name} is on the detour");
    }
    if headers.contains_key(Note::HEADER) {
        headers.insert(
            "x-death".into(),
            AMQPValue::FieldArray(FieldArray::default()),
        );
        headers.insert("x-first-death-queue".into(), long("sless.delay"));
        headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(3));
    }
    let properties = note::copy(&wrapped, |_| true);
    let properties = match wrapped.headers() {
        Some(_) => properties.with_headers(headers.into()),
        None => properties,
    };
    Parcel::from_parts(properties, "", "queue", parcel.body.clone())
}

fn rich() -> BasicProperties {
    let deaths = vec![AMQPValue::FieldTable(table([(
        "count",
        AMQPValue::LongLongInt(1),
    )]))];
    BasicProperties::default()
        .with_content_type("text/plain".into())
        .with_content_encoding("gzip".into())
        .with_headers(table([
            ("CC", AMQPValue::FieldArray(vec![long("copies")].into())),
            ("x-death", AMQPValue::FieldArray(deaths.into())),
            ("x-sless", long("the sender's own")),
            ("x-one", AMQPValue::LongInt(1)),
        ]))
        .with_delivery_mode(1)
        .with_priority(7)
        .with_correlation_id("c".into())
        .with_reply_to(ShortString::from("amq.rabbitmq.reply-to"))
        .with_expiration("60000".into())
        .with_message_id("m".into())
        .with_timestamp(1_700_000_000)
        .with_type("t".into())
        .with_user_id("somebody".into())
        .with_app_id("a".into())
        .with_cluster_id("k".into())
}

#[test]
fn a_message_is_its_sender_s_after_any_number_of_detours() {
    for properties in [
        rich(),
        BasicProperties::default(),
        BasicProperties::default().with_headers(FieldTable::default()),
    ] {
        let first = came(properties.clone());
        let mut parcel = first.clone();
        for attempts in 1..=3 {
            parcel = detour(&parcel, attempts, None);
            assert_eq!(parcel.note.attempts, attempts);
            assert_eq!(parcel.properties, first.properties, "of {properties:?}");
        }
        let death = Death::new("no use");
        parcel = detour(&parcel, 4, Some(death.clone()));
        assert_eq!(parcel.properties, first.properties);
        let letter = parcel.letter();
        assert_eq!((letter.id, letter.reason), (death.id, death.reason));
        assert_eq!((letter.attempts, letter.died_at), (4, death.died_at));
        // Redriven, it is as new.
        let again = detour(&parcel, 0, None);
        assert_eq!(again.properties, first.properties);
        assert_eq!((again.note.attempts, again.note.death.clone()), (0, None));
        let message = again.message();
        assert_eq!(
            message.headers.get("x-amqp-exchange").map(String::as_str),
            Some("shop")
        );
    }
}

#[test]
fn a_plain_message_is_redriven_without_any_header_of_ours() {
    let sent = BasicProperties::default().with_delivery_mode(PERSISTENT);
    let parcel = Parcel::from_parts(sent.clone(), "", "queue", Bytes::new());
    let dead = detour(&parcel, 2, Some(Death::new("x")));
    assert_eq!(dead.wrapped(0, None), sent);
}

#[test]
fn the_stored_form_of_the_note_is_as_it_was() {
    let mut parcel = came(rich());
    parcel.note.queue = Some("orders".to_owned());
    let death = Death {
        id: "00061a80f1b2c3-0badcafe".to_owned(),
        reason: "no use".to_owned(),
        died_at: Timestamp::from_microsecond(1_700_000_000_000_000).expect("a time"),
    };
    let wrapped = parcel.wrapped(5, Some(death));
    let headers = serde_json::to_string_pretty(wrapped.headers()).expect("JSON");
    let golden = include_str!("../../tests/golden/note.v1.json");
    assert_eq!(
        headers.trim(),
        golden.trim(),
        "a stored form changes by a new version"
    );
    // And what was stored is read.
    let stored: Option<FieldTable> = serde_json::from_str(golden).expect("a table");
    let stored = note::copy(&wrapped, |_| true).with_headers(stored.expect("headers"));
    let read = Parcel::from_parts(stored, "", "x", Bytes::from_static(b"body"));
    assert_eq!(read.properties, parcel.properties);
    assert_eq!(read.note.queue.as_deref(), Some("orders"));
    assert_eq!(read.note.key.as_deref(), Some("orders.new"));
}

#[test]
fn a_cloud_event_gets_the_names_of_http() {
    let properties = BasicProperties::default().with_headers(table([
        ("cloudEvents:specversion", long("1.0")),
        ("cloudEvents:id", long("a b")),
        ("cloudEvents_time", AMQPValue::Timestamp(0)),
        ("cloudEvents:myInt", AMQPValue::LongInt(-5)),
        (
            "cloudEvents:bytes",
            AMQPValue::ByteArray(vec![0, 255].into()),
        ),
        ("cloudEvents:datacontenttype", long("text/xml")),
        ("other", AMQPValue::Boolean(true)),
    ]));
    let message = came(properties).message();
    let expected = [
        ("ce-bytes", "AP8="),
        ("ce-id", "a%20b"),
        ("ce-myint", "-5"),
        ("ce-specversion", "1.0"),
        ("ce-time", "1970-01-01T00:00:00Z"),
        ("other", "true"),
        ("x-amqp-exchange", "shop"),
        ("x-amqp-routing-key", "orders.new"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(message.headers, expected.into());
    assert_eq!(message.content_type.as_deref(), Some("text/xml"));
    // Without a version it is none, and its headers are as they were.
    let none =
        came(BasicProperties::default().with_headers(table([("cloudEvents:id", long("1"))])));
    assert_eq!(
        none.message()
            .headers
            .get("cloudEvents:id")
            .map(String::as_str),
        Some("1")
    );
}

#[test]
fn every_kind_of_value_is_text() {
    let decimal = |value, scale| AMQPValue::DecimalValue(DecimalValue { scale, value });
    for (value, expected) in [
        (AMQPValue::Boolean(false), "false"),
        (AMQPValue::ShortShortInt(-1), "-1"),
        (AMQPValue::LongLongInt(i64::MIN), "-9223372036854775808"),
        (AMQPValue::Double(0.5), "0.5"),
        (AMQPValue::Double(f64::NAN), "NaN"),
        (decimal(1234, 2), "12.34"),
        (decimal(5, 3), "0.005"),
        (decimal(5, 0), "5"),
        (AMQPValue::LongString(vec![0xff].into()), "/w=="),
        (AMQPValue::Timestamp(u64::MAX), "18446744073709551615"),
        (AMQPValue::Void, ""),
        (
            AMQPValue::FieldTable(table([(
                "a",
                AMQPValue::FieldArray(vec![long("b")].into()),
            )])),
            r#"{"a":["b"]}"#,
        ),
    ] {
        assert_eq!(text(&value), expected, "{value:?}");
    }
}

fn value() -> impl Strategy<Value = AMQPValue> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(AMQPValue::Boolean),
        any::<i64>().prop_map(AMQPValue::LongLongInt),
        any::<Vec<u8>>().prop_map(|bytes| AMQPValue::LongString(bytes.into())),
        any::<u64>().prop_map(AMQPValue::Timestamp),
        Just(AMQPValue::Void),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(|list| AMQPValue::FieldArray(list.into()))
    })
}

proptest! {
    #[test]
    fn any_headers_survive_a_detour(
        headers in prop::collection::btree_map("[a-zA-Z-]{1,12}|CC|x-sless|x-death", value(), 0..6),
        mode in prop::option::of(0_u8..4),
        attempts in 1_u32..100,
    ) {
        let mut properties = BasicProperties::default();
        if let Some(mode) = mode.filter(|mode| *mode != 0) {
            properties = properties.with_delivery_mode(mode);
        }
        let names = headers.into_iter().map(|(name, value)| (ShortString::from(name.as_str()), value));
        let properties = properties.with_headers(FieldTable::from(names.collect::<BTreeMap<_, _>>()));
        let first = came(properties);
        let back = detour(&first, attempts, None);
        prop_assert_eq!(back.properties, first.properties);
        prop_assert_eq!(back.note.attempts, attempts);
    }
}
