//! Terraform's values: null, not known yet, or known.

mod json;
mod msgpack;
mod number;
mod reader;
mod unknown;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use self::{
    json::{Extra, from_json},
    msgpack::{from_msgpack, to_msgpack},
};
pub use self::{
    number::{InvalidNumber, Number},
    unknown::Unknown,
};

/// A value of some [`Type`](crate::Type).
///
/// Lists, sets and tuples are a [`List`](Self::List); maps and objects are a [`Map`](Self::Map). Two
/// values are equal where Terraform takes them for the same: a number is its decimal value, and an
/// unknown value equals only one of which the same is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Nothing was given.
    #[default]
    Null,
    /// Something that is known later, during apply.
    Unknown(Unknown),
    /// Yes or no.
    Bool(bool),
    /// A number of any size, exactly.
    Number(Number),
    /// Text.
    String(String),
    /// A list or a set.
    List(Vec<Value>),
    /// A map or an object.
    Map(BTreeMap<String, Value>),
}

static NULL: Value = Value::Null;

impl Value {
    /// A value of which nothing is known.
    pub const UNKNOWN: Self = Self::Unknown(Unknown::ANY);

    /// Whether nothing was given.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether the value itself comes later. Parts of a known value may come later too: see
    /// [`is_wholly_known`](Self::is_wholly_known).
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }

    /// Whether neither the value nor any part of it comes later.
    pub fn is_wholly_known(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::List(items) => items.iter().all(Self::is_wholly_known),
            Self::Map(items) => items.values().all(Self::is_wholly_known),
            _ => true,
        }
    }

    /// Whether it is a list or a map that holds nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map(items) => items.is_empty(),
            _ => false,
        }
    }

    /// The text, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, where it is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, where it is one and whole and fits.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.to_i64(),
            _ => None,
        }
    }

    /// The items of a map or an object.
    pub const fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        match self {
            Self::Map(items) => Some(items),
            _ => None,
        }
    }

    /// The items of a list or a set.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// An attribute of an object; null where there is none.
    pub fn at(&self, name: &str) -> &Self {
        match self {
            Self::Map(items) => items.get(name).unwrap_or(&NULL),
            _ => &NULL,
        }
    }

    /// Sets an attribute. What is not an object becomes one.
    pub fn put(&mut self, name: &str, value: impl Into<Self>) {
        if !matches!(self, Self::Map(_)) {
            *self = Self::Map(BTreeMap::new());
        }
        if let Self::Map(items) = self {
            items.insert(name.to_owned(), value.into());
        }
    }

    /// The same value with null in the place of whatever is not known.
    #[must_use]
    pub fn known_or_null(self) -> Self {
        match self {
            Self::Unknown(_) => Self::Null,
            Self::List(items) => Self::List(items.into_iter().map(Self::known_or_null).collect()),
            Self::Map(items) => {
                let known = |(name, value): (String, Self)| (name, value.known_or_null());
                Self::Map(items.into_iter().map(known).collect())
            }
            known => known,
        }
    }
}

/// A value that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", place(.path))]
pub struct DecodeError {
    message: String,
    /// Innermost step first.
    path: Vec<String>,
}

fn place(path: &[String]) -> String {
    if path.is_empty() {
        return String::new();
    }
    let steps: Vec<_> = path.iter().rev().map(String::as_str).collect();
    format!(", at {}", steps.join("."))
}

impl DecodeError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            path: Vec::new(),
        }
    }

    pub(crate) fn below(mut self, step: impl ToString) -> Self {
        self.path.push(step.to_string());
        self
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Self::Number(number)
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(Number::from(i128::from(number)))
            }
        }
    )*};
}
from_integer!(i32, i64, u32, u64);

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let items = items.into_iter();
        Self::Map(
            items
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}
