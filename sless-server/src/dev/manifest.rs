//! `sless.toml`: what a function's folder says about it. Its keys are those of the REST API, read by
//! the same types.

use std::{borrow::Cow, collections::BTreeSet, fmt, ops::Range};

use serde::Deserialize;
use sless_api::{CreateFunction, CreateTrigger};
use sless_core::{FunctionSpec, Name, TriggerSpec};
use toml::{
    Spanned,
    de::{DeTable, DeValue, Deserializer},
};

use crate::convert;

/// The manifest's name.
pub(super) const FILE: &str = "sless.toml";

/// A folder's manifest, checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Manifest {
    pub(super) name: Name,
    pub(super) spec: FunctionSpec,
    pub(super) triggers: Vec<(Name, TriggerSpec)>,
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
    pub(super) fn parse(text: &str) -> Result<Self, ManifestError> {
        let text = Text(text);
        let mut table = DeTable::parse(text.0).map_err(|error| text.read(&error))?;
        let given = table.get_mut().remove("trigger");
        let places = places(table.get_ref());
        let function = CreateFunction::deserialize(Deserializer::from(table))
            .map_err(|error| text.read(&error))?;
        let name = text.name(&function.name, &places)?;
        let spec = convert::function_spec(function)
            .map_err(|error| text.checked(error.message(), &places, 0..0))?;
        let checked = spec.validate();
        checked.map_err(|error| text.checked(error.message(), &places, 0..0))?;

        let mut triggers = Vec::new();
        let mut names = BTreeSet::new();
        for table in text.tables(given)? {
            let span = table.span();
            let places = places_of(&table);
            let (trigger, spec) = text.trigger(table, &name, &places)?;
            if !names.insert(trigger.clone()) {
                let message = format!(
                    "name is `{trigger}` again: expected a name of its own for each trigger"
                );
                return Err(text.checked(&message, &places, span));
            }
            triggers.push((trigger, spec));
        }
        Ok(Self {
            name,
            spec,
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
    ) -> Result<(Name, TriggerSpec), ManifestError> {
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
        let trigger = CreateTrigger::deserialize(Deserializer::from(table))
            .map_err(|error| self.read(&error))?;
        let name = Name::new(&trigger.name)
            .map_err(|error| self.checked(error.message(), places, span.clone()))?;
        let spec = convert::trigger_spec(trigger)
            .map_err(|error| self.checked(error.message(), places, span.clone()))?;
        let checked = spec.validate();
        checked.map_err(|error| self.checked(error.message(), places, span))?;
        Ok((name, spec))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use sless_core::{DeliveryOptions, Runtime, TriggerType};

    use super::*;

    const LEAST: &str = "name = 'hello'\nruntime = 'python3.11'\n";

    fn refused(text: &str) -> String {
        Manifest::parse(text).expect_err(text).to_string()
    }

    #[test]
    fn the_least_manifest_has_the_defaults_of_the_api() {
        let manifest = Manifest::parse(LEAST).unwrap();
        assert_eq!(manifest.name.as_str(), "hello");
        assert_eq!(manifest.spec, FunctionSpec::new(Runtime::Python311));
        assert!(manifest.triggers.is_empty());
    }

    #[test]
    fn every_key_is_the_field_of_the_api() {
        let text = r#"
            name = "thumbnailer"
            runtime = "nodejs20"
            entrypoint = "app.main"
            timeout_seconds = 20
            memory = "256Mi"
            cpu = "500m"
            concurrency = 4
            replicas = 0
            [env]
            MAX_WIDTH = "1024"
            [[trigger]]
            name = "every-morning"
            type = "cron"
            schedule = "0 9 * * 1-5"
            time_zone = "Europe/Berlin"
            enabled = false
            [[trigger]]
            name = "uploads"
            type = "event"
            queue = "uploads"
            [trigger.delivery]
            max_attempts = 5
            min_backoff = "2s"
            [[trigger]]
            name = "url"
            type = "http"
        "#;
        let Manifest { spec, triggers, .. } = Manifest::parse(text).unwrap();
        assert_eq!(
            (spec.timeout_seconds, spec.concurrency, spec.replicas),
            (20, 4, Some(0))
        );
        assert_eq!(spec.entrypoint.to_string(), "app.main");
        assert_eq!(spec.memory.unwrap().to_string(), "256Mi");
        assert_eq!(spec.env["MAX_WIDTH"], "1024");
        let kinds: Vec<_> = triggers.iter().map(|(_, spec)| spec.kind).collect();
        assert_eq!(
            kinds,
            [TriggerType::Cron, TriggerType::Event, TriggerType::Http]
        );
        let (cron, event) = (&triggers[0].1, &triggers[1].1);
        assert_eq!(cron.function_ref.as_str(), "thumbnailer");
        assert!(!cron.enabled && event.enabled);
        assert_eq!(cron.time_zone.as_deref(), Some("Europe/Berlin"));
        let delivery = event.delivery.unwrap();
        assert_eq!(delivery.min_backoff_ms, 2_000);
        assert_eq!(delivery.in_flight, DeliveryOptions::default().in_flight);
    }

    #[test]
    fn an_error_names_the_key_and_its_place() {
        for (text, place, named) in [
            ("name = 'a", "1:", ""),
            ("name = 'a'\n", "1:1: ", "missing field `runtime`"),
            ("runtime = 'python3.11'\n", "1:1: ", "missing field `name`"),
            (
                "name = 'A'\nruntime = 'nodejs20'\n",
                "1:1: ",
                "not a DNS label",
            ),
            ("name = 'a'\nruntime = 'go'\n", "2:1: ", "runtime"),
            (
                "name = 'a'\nruntime = 'nodejs20'\ncpus = 2\n",
                "3:1: ",
                "unknown field `cpus`",
            ),
            (
                "name = 'a'\nruntime = 'nodejs20'\nreplicas = -1\n",
                "3:12: ",
                "-1",
            ),
            (
                "name = 'a'\nruntime = 'nodejs20'\nmemory = '1 pint'\n",
                "3:1: ",
                "memory",
            ),
            (
                "name = 'a'\nruntime = 'nodejs20'\nentrypoint = 'x'\n",
                "3:1: ",
                "entrypoint",
            ),
            (
                "name = 'a'\nruntime = 'nodejs20'\ntimeout_seconds = 0\n",
                "3:1: ",
                "timeout_seconds",
            ),
            (
                "name = 'a'\nruntime = 'nodejs20'\n[env]\nN = 1\n",
                "4:5: ",
                "string",
            ),
            (
                "name = 'a'\nruntime = 'nodejs20'\ntrigger = 1\n",
                "3:11: ",
                "[[trigger]]",
            ),
        ] {
            let error = refused(text);
            assert!(error.starts_with(place), "{text}: {error}");
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn an_error_in_a_trigger_names_the_key_and_its_place() {
        for (lines, place, named) in [
            ("name = 't'", "3:1: ", "missing field `type`"),
            ("name = 't'\ntype = 'cron'", "5:1: ", "schedule is missing"),
            (
                "name = 't'\ntype = 'cron'\nschedule = '60 * * * *'",
                "6:1: ",
                "schedule",
            ),
            ("name = 't'\ntype = 'mail'", "5:8: ", "mail"),
            (
                "name = 't'\ntype = 'http'\nqueue = 'q'",
                "6:1: ",
                "does not belong",
            ),
            (
                "name = 't'\ntype = 'http'\nfunction_ref = 'x'",
                "6:1: ",
                "function_ref",
            ),
            (
                "name = 't'\ntype = 'http'\nwhen = 'x'",
                "6:1: ",
                "unknown field `when`",
            ),
            (
                "name = 't'\ntype = 'http'\n[[trigger]]\nname = 't'\ntype = 'http'",
                "7:1: ",
                "name is `t` again",
            ),
        ] {
            let error = refused(&format!("{LEAST}[[trigger]]\n{lines}\n"));
            assert!(error.starts_with(place), "{lines}: {error}");
            assert!(error.contains(named), "{lines}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = Manifest::parse(&text);
        }

        #[test]
        fn no_value_panics(
            key in "name|runtime|entrypoint|env|memory|cpu|replicas|trigger|x",
            value in "'[^'\n]{0,80}'|-?[0-9]{1,20}|[0-9.e-]{1,9}|\\[.{0,20}\\]|\\{.{0,20}\\}|true",
        ) {
            let _ = Manifest::parse(&format!("{key} = {value}\n{LEAST}"));
            let _ = Manifest::parse(&format!("{LEAST}{key} = {value}\n"));
            let _ = Manifest::parse(&format!("{LEAST}[[trigger]]\n{key} = {value}\n"));
        }
    }
}
