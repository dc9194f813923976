//! The difference of two JSON values as a merge patch.

use serde_json::{Map, Value};

/// The patch that makes `after` of `before` (RFC 7396); `None` where there is no difference. A member that
/// is gone is null, so neither value may hold a null that means something.
pub(super) fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return Some(after.clone());
    };
    let mut patch = Map::new();
    for (name, old) in before {
        match after.get(name) {
            None => {
                patch.insert(name.clone(), Value::Null);
            }
            Some(new) => {
                if let Some(difference) = merge_patch(old, new) {
                    patch.insert(name.clone(), difference);
                }
            }
        }
    }
    for (name, new) in after {
        if !before.contains_key(name) {
            patch.insert(name.clone(), new.clone());
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// RFC 7396, section 2.
    fn apply(target: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else {
            return patch.clone();
        };
        let mut target = target.as_object().cloned().unwrap_or_default();
        for (name, value) in patch {
            if value.is_null() {
                target.remove(name);
            } else {
                let old = target.remove(name).unwrap_or(Value::Null);
                target.insert(name.clone(), apply(&old, value));
            }
        }
        Value::Object(target)
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn only_what_differs_is_sent() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        let after = json!({"a": 1, "b": {"c": 2, "x": 4}, "e": [1, 2]});
        assert_eq!(
            merge_patch(&before, &after),
            Some(json!({"b": {"d": null, "x": 4}, "e": [1, 2]}))
        );
        assert_eq!(merge_patch(&after, &after), None);
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_one_of_the_other(
            before in prop::collection::btree_map("[a-d]", value(), 0..4),
            after in prop::collection::btree_map("[a-d]", value(), 0..4),
        ) {
            let before = Value::Object(before.into_iter().collect());
            let after = Value::Object(after.into_iter().collect());
            match merge_patch(&before, &after) {
                None => prop_assert_eq!(before, after),
                Some(patch) => prop_assert_eq!(apply(&before, &patch), after),
            }
        }
    }
}
