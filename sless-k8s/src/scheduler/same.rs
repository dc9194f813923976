//! Whether what is there is what is wanted.

use serde_json::Value;

/// Whether everything that `wanted` says is so in `there`, which may say more: the API server adds
/// defaults. Lists are of the same length. An amount counts as what it is worth, since the API server
/// writes `1000m` as `1`.
pub(super) fn holds(wanted: &Value, there: &Value) -> bool {
    match (wanted, there) {
        // Nothing is said of it.
        (Value::Null, _) => true,
        (Value::Object(wanted), Value::Object(there)) => wanted.iter().all(|(name, value)| {
            match there.get(name) {
                Some(found) => holds(value, found),
                // What is empty may be left out.
                None => is_empty(value),
            }
        }),
        (Value::Array(wanted), Value::Array(there)) => {
            wanted.len() == there.len()
                && wanted
                    .iter()
                    .zip(there)
                    .all(|(wanted, there)| holds(wanted, there))
        }
        (Value::String(one), Value::String(other)) => one == other || same_amount(one, other),
        (wanted, there) => wanted == there,
    }
}

/// The same for a child of a function: its labels, annotations and spec.
pub(super) fn child_holds(wanted: &Value, there: &Value) -> bool {
    let held = |part: &str| holds(&wanted["metadata"][part], &there["metadata"][part]);
    holds(&wanted["spec"], &there["spec"]) && held("labels") && held("annotations")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
    }
}

fn same_amount(one: &str, other: &str) -> bool {
    let amount = |text: &str| text.parse::<sless_core::Quantity>().ok();
    // Two texts that are amounts are no names, save where both look like one; then they are equal texts.
    matches!((amount(one), amount(other)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_child_does_not_say_may_be_as_it_is() {
        let wanted = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}});
        let there = json!({"metadata": {"labels": {"a": "b"}, "annotations": {}}, "spec": {"x": 1, "y": 2}});
        assert!(child_holds(&wanted, &there));
        let other =
            json!({"metadata": {"labels": {"a": "c"}, "annotations": {}}, "spec": {"x": 1}});
        assert!(!child_holds(&wanted, &other));
    }

    #[test]
    fn more_may_be_there_and_less_may_not() {
        let wanted = json!({"a": [{"n": "x", "cpu": "1000m"}], "off": false, "none": {}});
        let there = json!({"a": [{"n": "x", "cpu": "1", "added": 1}], "more": true});
        assert!(holds(&wanted, &there));
        for changed in [
            json!({"a": [{"n": "x", "cpu": "2"}]}),
            json!({"a": [{"n": "y", "cpu": "1"}]}),
            json!({"a": []}),
            json!({"a": [{"n": "x", "cpu": "1"}, {"n": "y"}]}),
            json!({"a": [{"n": "x", "cpu": "1"}], "off": true}),
        ] {
            assert!(!holds(&wanted, &changed), "{changed}");
        }
    }
}
