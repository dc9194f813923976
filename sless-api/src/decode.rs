//! Reading a request body so that an error names the field.

use serde::Deserialize;

/// What was wrong with a body, in the words that an answer's `code` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The body is not JSON, or something follows the value.
    Syntax,
    /// A field that the request does not have.
    UnknownField,
    /// A field that the request must have is not there.
    MissingField,
    /// A field holds a value of another type or outside of its range.
    InvalidField,
}

impl DecodeErrorKind {
    /// The kind as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "invalid_json",
            Self::UnknownField => "unknown_field",
            Self::MissingField => "missing_field",
            Self::InvalidField => "invalid_field",
        }
    }
}

/// A body that is not what was expected. Its text names the field and what stood there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeError {
    kind: DecodeErrorKind,
    field: String,
    message: String,
}

impl DecodeError {
    /// What was wrong.
    pub const fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// The path of the field, such as `delivery.max_attempts`; empty where the body as a whole is
    /// meant.
    pub fn field(&self) -> &str {
        &self.field
    }
}

/// Reads one JSON value that fills the whole body.
///
/// # Errors
/// A [`DecodeError`] that names the field: the first one that is unknown, missing or wrong.
pub fn from_json<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        describe(path, error.into_inner())
    })?;
    reader
        .end()
        .map_err(|error| describe(String::new(), error))?;
    Ok(value)
}

fn describe(path: String, error: serde_json::Error) -> DecodeError {
    let text = error.to_string();
    let kind = if !error.is_data() {
        DecodeErrorKind::Syntax
    } else if text.starts_with("unknown field") {
        DecodeErrorKind::UnknownField
    } else if text.starts_with("missing field") {
        DecodeErrorKind::MissingField
    } else {
        DecodeErrorKind::InvalidField
    };
    let path = if path == "." { String::new() } else { path };
    let field = match (kind, quoted(&text)) {
        (DecodeErrorKind::Syntax, _) => String::new(),
        // serde's path ends at the object; the name of the field stands in its message.
        (DecodeErrorKind::UnknownField | DecodeErrorKind::MissingField, Some(name))
            if path.rsplit('.').next() != Some(name) =>
        {
            join(&path, name)
        }
        _ => path,
    };
    let message = match kind {
        DecodeErrorKind::Syntax => format!("the body is not valid JSON: {text}"),
        DecodeErrorKind::InvalidField if !field.is_empty() => format!("field {field}: {text}"),
        _ => text,
    };
    DecodeError {
        kind,
        field,
        message,
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The first word in backquotes.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('`')?;
    rest.split_once('`').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CreateFunction, CreateTrigger};

    fn refused<'a, T: Deserialize<'a> + std::fmt::Debug>(body: &'a str) -> DecodeError {
        from_json::<T>(body.as_bytes()).expect_err(body)
    }

    #[test]
    fn an_unknown_field_is_named() {
        let error = refused::<CreateFunction>(r#"{"name":"a","runtime":"nodejs20","cpus":2}"#);
        assert_eq!(error.kind(), DecodeErrorKind::UnknownField);
        assert_eq!(error.field(), "cpus");
        assert!(error.to_string().contains("`cpus`"), "{error}");
    }

    #[test]
    fn an_unknown_nested_field_is_named_with_its_path() {
        let body = r#"{"name":"a","type":"event","function_ref":"f","delivery":{"tries":2}}"#;
        let error = refused::<CreateTrigger>(body);
        assert_eq!(error.kind(), DecodeErrorKind::UnknownField);
        assert_eq!(error.field(), "delivery.tries");
    }

    #[test]
    fn a_missing_field_is_named() {
        let error = refused::<CreateFunction>(r#"{"name":"a"}"#);
        assert_eq!(error.kind(), DecodeErrorKind::MissingField);
        assert_eq!(error.field(), "runtime");
    }

    #[test]
    fn a_wrong_type_is_named_with_its_path() {
        let error = refused::<CreateFunction>(r#"{"name":"a","runtime":"x","env":{"A":1}}"#);
        assert_eq!(error.kind(), DecodeErrorKind::InvalidField);
        assert_eq!(error.field(), "env.A");
        assert!(error.to_string().starts_with("field env.A: "), "{error}");
    }

    #[test]
    fn what_is_not_json_says_so() {
        for body in ["", "{", "nul", r#"{"name":"a","runtime":"x"} x"#] {
            let error = refused::<CreateFunction>(body);
            assert_eq!(error.kind(), DecodeErrorKind::Syntax, "{body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_body_panics(body in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = from_json::<CreateFunction>(&body);
        }
    }
}
