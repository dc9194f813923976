//! Types of values.

use std::collections::BTreeMap;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Yes or no.
    Bool,
    /// A number of any size.
    Number,
    /// Text.
    String,
    /// Many of one type, in an order.
    List(Box<Type>),
    /// Many of one type, each once.
    Set(Box<Type>),
    /// Many of one type, by key.
    Map(Box<Type>),
    /// Named attributes, each of its own type.
    Object(BTreeMap<String, Type>),
}

impl Type {
    /// A list of these.
    pub fn list(item: Self) -> Self {
        Self::List(Box::new(item))
    }

    /// A set of these.
    pub fn set(item: Self) -> Self {
        Self::Set(Box::new(item))
    }

    /// A map of these.
    pub fn map(item: Self) -> Self {
        Self::Map(Box::new(item))
    }

    /// An object with these attributes.
    pub fn object<N: Into<String>>(attributes: impl IntoIterator<Item = (N, Self)>) -> Self {
        let attributes = attributes.into_iter();
        Self::Object(attributes.map(|(name, kind)| (name.into(), kind)).collect())
    }

    /// The type as the protocol writes it.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::json;
        match self {
            Self::Bool => json!("bool"),
            Self::Number => json!("number"),
            Self::String => json!("string"),
            Self::List(item) => json!(["list", item.to_json()]),
            Self::Set(item) => json!(["set", item.to_json()]),
            Self::Map(item) => json!(["map", item.to_json()]),
            Self::Object(attributes) => {
                let attributes = attributes.iter();
                let attributes = attributes.map(|(name, kind)| (name.clone(), kind.to_json()));
                json!(["object", attributes.collect::<serde_json::Map<_, _>>()])
            }
        }
    }

    pub(crate) const fn noun(&self) -> &'static str {
        match self {
            Self::Bool => "a truth value",
            Self::Number => "a number",
            Self::String => "a text",
            Self::List(_) => "a list",
            Self::Set(_) => "a set",
            Self::Map(_) => "a map",
            Self::Object(_) => "an object",
        }
    }

    /// The type as the documentation of the registry names it.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Bool => "Boolean".to_owned(),
            Self::Number => "Number".to_owned(),
            Self::String => "String".to_owned(),
            Self::List(item) => format!("List of {}", item.title()),
            Self::Set(item) => format!("Set of {}", item.title()),
            Self::Map(item) => format!("Map of {}", item.title()),
            Self::Object(_) => "Object".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_the_protocol_says() {
        let kind = Type::object([
            ("tags", Type::map(Type::String)),
            ("on", Type::set(Type::Bool)),
        ]);
        assert_eq!(
            kind.to_json().to_string(),
            r#"["object",{"on":["set","bool"],"tags":["map","string"]}]"#
        );
        assert_eq!(
            Type::list(Type::Number).to_json().to_string(),
            r#"["list","number"]"#
        );
    }
}
