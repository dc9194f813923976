//! Schemas: attributes, and how plans treat them.

mod attribute;
mod normal;
mod plan;
mod validate;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use self::attribute::{Attribute, Kind};
use crate::{Type, Value};

/// What a provider, a resource or a data source is made of.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Goes up where stored states need a change: see
    /// [`Resource::upgrade`](crate::Resource::upgrade).
    pub(crate) version: i64,
    pub(crate) docs: String,
    pub(crate) attributes: Vec<Attribute>,
    /// Groups of attributes of which exactly one is given.
    pub(crate) exactly_one: Vec<Vec<&'static str>>,
}

impl Schema {
    /// A schema of these attributes. Its text, in Markdown, says what the thing is.
    pub fn new(docs: impl Into<String>, attributes: Vec<Attribute>) -> Self {
        Self {
            docs: docs.into(),
            attributes,
            ..Self::default()
        }
    }

    /// With another version than 0.
    #[must_use]
    pub fn with_version(mut self, version: i64) -> Self {
        self.version = version;
        self
    }

    /// Demands that exactly one of these attributes is given.
    #[must_use]
    pub fn exactly_one_of(mut self, names: &[&'static str]) -> Self {
        self.exactly_one.push(names.to_vec());
        self
    }

    /// The text.
    pub fn docs(&self) -> &str {
        &self.docs
    }

    /// The attributes.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// The type of its values.
    pub(crate) fn value_type(&self) -> Type {
        object(&self.attributes)
    }

    /// A value with every attribute, null where it was missing.
    pub(crate) fn complete(&self, value: Value) -> Value {
        let Value::Map(mut items) = value else {
            return value;
        };
        let attributes = self.attributes.iter();
        let complete = attributes.map(|attribute| {
            let value = items.remove(&attribute.name).unwrap_or_default();
            (attribute.name.clone(), value)
        });
        Value::Map(complete.collect::<BTreeMap<_, _>>())
    }
}

fn object(attributes: &[Attribute]) -> Type {
    Type::object(
        attributes
            .iter()
            .map(|attribute| (attribute.name.clone(), attribute.value_type())),
    )
}

/// A default as documentation shows it.
pub(crate) fn default_text(attribute: &Attribute) -> Option<String> {
    match attribute.default.as_ref()? {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Whether another value replaces the object.
pub(crate) fn replaces(attribute: &Attribute) -> bool {
    attribute.replaces()
}
