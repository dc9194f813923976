//! Plans and checks as they follow from properties.

use super::{plan::Planned, *};
use crate::{Diagnostics, Path, Plan};

fn schema() -> Schema {
    let timeout = |name| Attribute::string(name, "").optional();
    Schema::new(
        "",
        vec![
            Attribute::string("id", "").computed().keeps_state(),
            Attribute::string("name", "").required().requires_replace(),
            Attribute::bool("enabled", "").with_default(true),
            Attribute::string("size", "")
                .optional()
                .same_when(|one, other| one.as_str().map(str::len) == other.as_str().map(str::len)),
            Attribute::map_of("env", Type::String, "").empty_is_absent(),
            Attribute::string("secret", "").write_only(),
            Attribute::string("source", "").with_stand_in(""),
            Attribute::string("image", "")
                .computed()
                .changes_with(&["size"]),
            Attribute::string("phase", "").computed(),
            Attribute::single(
                "limits",
                vec![
                    Attribute::number("most", "").with_default(5),
                    Attribute::string("seen", "").computed(),
                    timeout("wait"),
                ],
                "",
            )
            .optional(),
        ],
    )
}

fn object(items: &[(&str, Value)]) -> Value {
    schema().complete(
        items
            .iter()
            .cloned()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// What Terraform proposes: what is given, else what was computed before.
fn propose(prior: &Value, config: &Value) -> Value {
    let mut proposed = config.clone();
    for attribute in schema().attributes() {
        if attribute.computed && config.at(attribute.name()).is_null() {
            proposed.put(attribute.name(), prior.at(attribute.name()).clone());
        }
    }
    proposed
}

fn plan(prior: &Value, config: &Value, say: impl FnOnce(&mut Plan)) -> Planned {
    let planned = schema().fill(prior, propose(prior, config), config);
    let mut plan = Plan {
        prior: prior.clone(),
        config: config.clone(),
        planned,
        decided: Vec::new(),
        replace: Vec::new(),
        private: crate::Private::default(),
        diagnostics: Diagnostics::default(),
    };
    say(&mut plan);
    schema().settle_plan(plan)
}

fn stored() -> Value {
    object(&[
        ("id", "1".into()),
        ("name", "a".into()),
        ("enabled", true.into()),
        ("size", "4GB".into()),
        ("image", "i1".into()),
        ("phase", "Ready".into()),
        ("source", "src".into()),
    ])
}

#[test]
fn a_new_object_has_defaults_and_unknowns() {
    let config = object(&[("name", "a".into()), ("secret", "hush".into())]);
    let planned = plan(&Value::Null, &config, |_| {}).state;
    assert_eq!(planned.at("enabled"), &Value::Bool(true));
    for computed in ["id", "image", "phase"] {
        assert!(planned.at(computed).is_unknown(), "{computed}");
    }
    for absent in ["secret", "env", "source", "size", "limits"] {
        assert!(planned.at(absent).is_null(), "{absent}");
    }
}

#[test]
fn no_change_is_the_state_itself() {
    let config = object(&[
        ("name", "a".into()),
        ("size", "8GB".into()),
        ("source", "src".into()),
        ("secret", "hush".into()),
    ]);
    let planned = plan(&stored(), &config, |_| {});
    assert_eq!(planned.state, stored(), "8GB is as long as 4GB");
    assert_eq!(planned.replace, []);
}

#[test]
fn a_change_makes_unknown_what_may_change_and_nothing_else() {
    let config = object(&[
        ("name", "a".into()),
        ("size", "4GB".into()),
        ("source", "src".into()),
        ("enabled", false.into()),
    ]);
    let planned = plan(&stored(), &config, |_| {}).state;
    assert_eq!(planned.at("id").as_str(), Some("1"));
    assert_eq!(planned.at("image").as_str(), Some("i1"));
    assert!(planned.at("phase").is_unknown());
    let config = object(&[("name", "a".into()), ("size", "16GB".into())]);
    let planned = plan(&stored(), &config, |_| {}).state;
    assert!(planned.at("image").is_unknown());
    assert!(planned.at("source").is_null());
    assert_eq!(
        planned.at("enabled"),
        &Value::Bool(true),
        "the default is back"
    );
}

#[test]
fn what_requires_it_replaces() {
    let config = object(&[
        ("name", "b".into()),
        ("size", "4GB".into()),
        ("source", "src".into()),
    ]);
    assert_eq!(
        plan(&stored(), &config, |_| {}).replace,
        [Path::from("name")]
    );
    let unknown = object(&[("name", Value::UNKNOWN), ("size", "4GB".into())]);
    assert_eq!(
        plan(&stored(), &unknown, |_| {}).replace,
        [Path::from("name")]
    );
    let same = object(&[
        ("name", "a".into()),
        ("size", "4GB".into()),
        ("source", "src".into()),
    ]);
    let planned = plan(&stored(), &same, |plan| {
        plan.decide("phase", "Failed");
        plan.replace_for("phase");
    });
    assert_eq!(planned.replace, [Path::from("phase")]);
}

#[test]
fn what_an_import_could_not_know_is_no_change_by_itself() {
    let mut imported = stored();
    imported.put("source", "");
    let config = object(&[
        ("name", "a".into()),
        ("size", "4GB".into()),
        ("source", "src".into()),
    ]);
    assert_eq!(plan(&imported, &config, |_| {}).state, imported);
    let config = object(&[
        ("name", "a".into()),
        ("size", "16GB".into()),
        ("source", "src".into()),
    ]);
    assert_eq!(
        plan(&imported, &config, |_| {}).state.at("source").as_str(),
        Some("src")
    );
}

#[test]
fn absent_and_empty_are_both_stable() {
    let absent = object(&[
        ("name", "a".into()),
        ("size", "4GB".into()),
        ("source", "src".into()),
    ]);
    let mut empty = absent.clone();
    empty.put("env", Value::Map(BTreeMap::new()));
    let mut stored_empty = stored();
    stored_empty.put("env", Value::Map(BTreeMap::new()));
    assert_eq!(plan(&stored_empty, &absent, |_| {}).state, stored_empty);
    assert_eq!(plan(&stored_empty, &empty, |_| {}).state, stored_empty);
    let mut filled = stored();
    filled.put("env", Value::from_iter([("A", "1")]));
    assert!(plan(&filled, &absent, |_| {}).state.at("env").is_null());
}

#[test]
fn what_is_decided_stays_so() {
    let config = object(&[
        ("name", "a".into()),
        ("size", "4GB".into()),
        ("source", "src".into()),
    ]);
    let planned = plan(&stored(), &config, |plan| plan.decide("image", "i2")).state;
    assert_eq!(planned.at("image").as_str(), Some("i2"));
    assert!(planned.at("phase").is_unknown());
}

#[test]
fn nested_attributes_have_rules_of_their_own() {
    let limits = Value::from_iter([
        ("most", Value::Null),
        ("seen", Value::Null),
        ("wait", "1s".into()),
    ]);
    let config = object(&[("name", "a".into()), ("limits", limits)]);
    let planned = plan(&Value::Null, &config, |_| {}).state;
    assert_eq!(planned.at("limits").at("most").as_i64(), Some(5));
    assert!(planned.at("limits").at("seen").is_unknown());
    assert_eq!(planned.at("limits").at("wait").as_str(), Some("1s"));
}

#[test]
fn what_is_read_keeps_the_words_of_the_state() {
    let mut read = stored();
    read.put("size", "8GB");
    read.put("phase", "Failed");
    read.put("secret", "hush");
    schema().settle(&stored(), &mut read);
    assert_eq!(read.at("size").as_str(), Some("4GB"));
    assert_eq!(read.at("phase").as_str(), Some("Failed"));
    assert!(read.at("secret").is_null(), "never stored");
}

#[test]
fn checks_point_at_the_attribute() {
    let short = |value: &Value| match value.as_str() {
        Some(text) if text.len() > 3 => Err("too long".to_owned()),
        _ => Ok(()),
    };
    let schema = Schema::new(
        "",
        vec![
            Attribute::string("a", "").optional().checked(short),
            Attribute::string("b", "").optional().deprecated("Use a."),
            Attribute::new(
                "many",
                Kind::Map(vec![Attribute::string("x", "").checked(short)]),
                "",
            ),
        ],
    )
    .exactly_one_of(&["a", "b"]);
    let found = |items: &[(&str, Value)]| {
        let config = items
            .iter()
            .cloned()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let mut found = Diagnostics::default();
        schema.validate(&config, &mut found);
        found
            .iter()
            .map(|one| format!("{}: {}", one.path, one.summary))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&[("a", "long".into())]), ["a: Invalid value for `a`"]);
    assert_eq!(found(&[("a", Value::UNKNOWN)]), [""; 0]);
    assert_eq!(found(&[]), [": Missing attribute"]);
    assert_eq!(
        found(&[("a", "1".into()), ("b", "2".into())]),
        [
            "b: Attribute is deprecated",
            "b: Attributes exclude each other"
        ]
    );
    assert_eq!(
        found(&[("a", Value::UNKNOWN), ("b", "2".into())]),
        ["b: Attribute is deprecated"]
    );
    let many = Value::from_iter([("k", Value::from_iter([("x", "long")]))]);
    assert_eq!(
        found(&[("a", "1".into()), ("many", many)]),
        [r#"many["k"].x: Invalid value for `many["k"].x`"#]
    );
}
