//! What was read, in the words of what is known already.

use super::{Attribute, Kind, Schema};
use crate::Value;

impl Schema {
    /// Keeps the words of the state where what was read means the same, and takes out what is never
    /// stored.
    pub(crate) fn settle(&self, state: &Value, read: &mut Value) {
        settle(&self.attributes, state, read);
    }
}

fn settle(attributes: &[Attribute], state: &Value, read: &mut Value) {
    let Value::Map(items) = read else { return };
    for attribute in attributes {
        let Some(value) = items.get_mut(&attribute.name) else {
            continue;
        };
        let before = state.at(&attribute.name);
        if attribute.write_only {
            *value = Value::Null;
        } else if attribute.is_same(before, value) {
            value.clone_from(before);
        } else if let Kind::Single(inner) = &attribute.kind {
            settle(inner, before, value);
        }
    }
}
