//! `sless.toml`: what a function's folder says about it. Its keys are those of the REST API, read by
//! the same types. `docs/manifest.md` describes it for people.

use std::{borrow::Cow, collections::BTreeSet, fmt, ops::Range};

use serde::Deserialize;
use sless_api::{CreateFunction, CreateTrigger};
use sless_core::{FunctionSpec, Name, TriggerSpec};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use crate::wire;

/// The manifest's name.
pub const FILE: &str = "sless.toml";

/// A folder's manifest, checked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Manifest {
    /// The function's name.
    pub name: Name,
    /// What is wanted of the function: what was left out has its default.
    pub spec: FunctionSpec,
    /// The function as it stands in the manifest, ready to be sent: what was left out is left out.
    pub request: CreateFunction,
    /// The triggers, in the order of the manifest.
    pub triggers: Vec<Declared>,
}

/// A trigger of a manifest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Declared {
    /// Its name.
    pub name: Name,
    /// What is wanted of it: what was left out has its default.
    pub spec: TriggerSpec,
    /// As it stands in the manifest, with the function's name.
    pub request: CreateTrigger,
}

/// What is wrong with a manifest, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    line: usize,
    column: usize,
    message: String,
}

impl fmt::Display for ManifestError {
    /// In the form that editors make a link of, behind the file's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and column.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let text = Text(text);
        let mut table = DeTable::parse(text.0).map_err(|error| text.read(&error))?;
        let given = table.get_mut().remove("trigger");
        let places = places(table.get_ref());
        let function = CreateFunction::deserialize(Deserializer::from(table))
            .map_err(|error| text.read(&error))?;
        let name = text.name(&function.name, &places)?;
        let spec = wire::function_spec(function.clone())
            .map_err(|error| text.checked(error.message(), &places, 0..0))?;
        let checked = spec.validate();
        checked.map_err(|error| text.checked(error.message(), &places, 0..0))?;

        let mut triggers = Vec::new();
        let mut names = BTreeSet::new();
        for table in text.tables(given)? {
            let span = table.span();
            let places = places_of(&table);
            let trigger = text.trigger(table, &name, &places)?;
            if !names.insert(trigger.name.clone()) {
                let message = format!(
                    "name is `{}` again: expected a name of its own for each trigger",
                    trigger.name
                );
                return Err(text.checked(&message, &places, span));
            }
            triggers.push(trigger);
        }
        Ok(Self {
            name,
            spec,
            request: function,
            triggers,
        })
    }
}

/// The keys of a table, and where each stands.
type Places = Vec<(String, Range<usize>)>;

fn places(table: &DeTable<'_>) -> Places {
    let keys = table.iter();
    keys.map(|(key, _)| (key.get_ref().to_string(), key.span()))
        .collect()
}

fn places_of(table: &Spanned<DeTable<'_>>) -> Places {
    places(table.get_ref())
}

/// The text of a manifest, to tell places in it.
#[derive(Clone, Copy)]
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn at(self, span: Range<usize>, message: impl Into<String>) -> ManifestError {
        let mut at = span.start.min(self.0.len());
        while !self.0.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.0[..at];
        let line_begins = before.rfind('\n').map_or(0, |newline| newline + 1);
        ManifestError {
            line: before.matches('\n').count() + 1,
            column: before[line_begins..].chars().count() + 1,
            message: message.into(),
        }
    }

    fn read(self, error: &toml::de::Error) -> ManifestError {
        self.at(error.span().unwrap_or_default(), error.message())
    }

    /// An error about a value, at the key that it names: the first one in its text.
    fn checked(self, message: &str, places: &Places, whole: Range<usize>) -> ManifestError {
        let words = message.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let place = words
            .filter_map(|word| places.iter().find(|(key, _)| key == word))
            .map(|(_, span)| span.clone())
            .next();
        self.at(place.unwrap_or(whole), message)
    }

    fn name(self, given: &str, places: &Places) -> Result<Name, ManifestError> {
        Name::new(given).map_err(|error| self.checked(error.message(), places, 0..0))
    }

    /// The tables of `[[trigger]]`.
    fn tables(
        self,
        given: Option<Spanned<DeValue<'a>>>,
    ) -> Result<Vec<Spanned<DeTable<'a>>>, ManifestError> {
        const EXPECTED: &str = "expected tables: [[trigger]]";
        let Some(given) = given else {
            return Ok(Vec::new());
        };
        let span = given.span();
        let DeValue::Array(items) = given.into_inner() else {
            return Err(self.at(span, EXPECTED));
        };
        let tables = items.into_iter().map(|item| {
            let span = item.span();
            match item.into_inner() {
                DeValue::Table(table) => Ok(Spanned::new(span, table)),
                _ => Err(self.at(span, EXPECTED)),
            }
        });
        tables.collect()
    }

    fn trigger(
        self,
        mut table: Spanned<DeTable<'a>>,
        function: &Name,
        places: &Places,
    ) -> Result<Declared, ManifestError> {
        const FUNCTION: &str = "function_ref";
        let span = table.span();
        if let Some((_, span)) = places.iter().find(|(key, _)| key == FUNCTION) {
            let message = "unknown field `function_ref`: a trigger is one of its folder's function";
            return Err(self.at(span.clone(), message));
        }
        table.get_mut().insert(
            Spanned::new(span.clone(), Cow::Borrowed(FUNCTION)),
            Spanned::new(
                span.clone(),
                DeValue::String(Cow::Owned(function.to_string())),
            ),
        );
        let request = CreateTrigger::deserialize(Deserializer::from(table))
            .map_err(|error| self.read(&error))?;
        let name = Name::new(&request.name)
            .map_err(|error| self.checked(error.message(), places, span.clone()))?;
        let spec = wire::trigger_spec(request.clone())
            .map_err(|error| self.checked(error.message(), places, span.clone()))?;
        let checked = spec.validate();
        checked.map_err(|error| self.checked(error.message(), places, span))?;
        Ok(Declared {
            name,
            spec,
            request,
        })
    }
}

#[cfg(test)]
mod tests;
