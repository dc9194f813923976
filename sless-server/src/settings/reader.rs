//! Reads settings one by one and notes what is wrong.

use super::{
    Problem, Shown, Sources,
    source::{Given, Origin},
    table::{self, SETTINGS},
};

/// Says that a problem was noted, so that the value is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted;

pub(super) struct Reader<'a> {
    sources: &'a Sources,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sources: &'a Sources) -> Self {
        Self {
            sources,
            problems: sources.problems().to_vec(),
        }
    }

    pub(super) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The problems in the order of the table, those of files first.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        let place = |problem: &Problem| SETTINGS.iter().position(|set| set.name == problem.name);
        self.problems.sort_by_key(place);
        self.problems.dedup();
        self.problems
    }

    /// The value of a setting that has a default.
    pub(super) fn value<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Noted> {
        if let Some(value) = self.optional(name, &parse)? {
            return Ok(value);
        }
        match table::find(name).and_then(|setting| setting.default) {
            Some(default) => parse(default).map_err(|expected| {
                self.note(name, format!("has a default that is wrong: {expected}"))
            }),
            None => Err(self.missing(name, "since it has no default")),
        }
    }

    /// The value of a setting that may be absent.
    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Noted> {
        let Some(given) = self.sources.given(name) else {
            return Ok(None);
        };
        parse(&given.text).map(Some).map_err(|expected| {
            let text = describe(name, given, &expected);
            self.note(name, text)
        })
    }

    /// The value where it is given and right; nothing is noted.
    pub(super) fn peek<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        parse(&self.sources.given(name)?.text).ok()
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.sources.given(name).is_some()
    }

    pub(super) fn missing(&mut self, name: &'static str, why: &str) -> Noted {
        self.note(name, format!("is missing: it is needed {why}"))
    }

    pub(super) fn note(&mut self, name: &str, text: String) -> Noted {
        self.problems.push(Problem {
            name: name.to_owned(),
            text,
        });
        Noted
    }

    pub(super) fn tools(&self) -> sless_local::ToolsConfig {
        self.sources.tools().clone()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.sources.warnings().to_vec()
    }

    pub(super) fn shown(&self) -> Vec<Shown> {
        let shown = SETTINGS.iter().map(|setting| {
            let given = self.sources.given(setting.name);
            let value = given.map(|given| given.text.as_str()).or(setting.default);
            let value = value.filter(|value| !value.is_empty());
            Shown {
                name: setting.name,
                value: value.map(|value| if setting.secret { "…" } else { value }.to_owned()),
                origin: given.map_or(Origin::Default, |given| given.origin.clone()),
            }
        });
        shown.collect()
    }
}

/// The longest value that a message repeats, in characters.
const SHOWN_MAX: usize = 200;

fn describe(name: &str, given: &Given, expected: &str) -> String {
    let place = &given.origin;
    let secret = table::find(name).is_none_or(|setting| setting.secret);
    if secret {
        return format!("(not shown, from {place}) is wrong: {expected}");
    }
    let value: String = given
        .text
        .chars()
        .take(SHOWN_MAX)
        .flat_map(char::escape_debug)
        .collect();
    format!("is `{value}` (from {place}): {expected}")
}
