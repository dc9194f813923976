//! A field of a patch: left out, null, or a value.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A field of a `PATCH` body, in which leaving it out and giving `null` differ.
///
/// Fields of this type carry `#[serde(default, skip_serializing_if = "Field::is_absent")]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// The field is not in the body: what is stored stays.
    #[default]
    Absent,
    /// The field is `null`: back to the default.
    Null,
    /// The new value.
    Value(T),
}

impl<T> Field<T> {
    /// Whether the field is not in the body.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Applies the patch to what is stored: absent keeps, null clears, a value replaces.
    pub fn apply(self, stored: &mut Option<T>) {
        match self {
            Self::Absent => {}
            Self::Null => *stored = None,
            Self::Value(value) => *stored = Some(value),
        }
    }

    /// `None` where the field is absent, `Some(None)` where it is null.
    pub fn into_option(self) -> Option<Option<T>> {
        match self {
            Self::Absent => None,
            Self::Null => Some(None),
            Self::Value(value) => Some(Some(value)),
        }
    }

    /// The same field with its value converted.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Null => Field::Null,
            Self::Value(value) => Field::Value(convert(value)),
        }
    }
}

impl<T> From<T> for Field<T> {
    fn from(value: T) -> Self {
        Self::Value(value)
    }
}

impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Absent | Self::Null => serializer.serialize_none(),
            Self::Value(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<T>::deserialize(deserializer)?.map_or(Self::Null, Self::Value))
    }
}

/// Reads a field that may be left out but not be null.
pub(crate) fn not_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer)?
        .map(Some)
        .ok_or_else(|| {
            serde::de::Error::custom("null is not a value here; leave the field out to keep it")
        })
}
