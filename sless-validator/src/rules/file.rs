//! One file as the rules see it, and one rule.

use std::borrow::Cow;

use regex::bytes::{Regex, RegexBuilder};
use unicode_normalization::UnicodeNormalization as _;

use crate::text::{is_bidirectional, is_hidden};

/// What is said of a file with characters that turn the direction of text.
pub(super) const TURNED: &str =
    "obfuscation: characters that make code read otherwise than it runs";

/// Which files a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Python, JavaScript, TypeScript, shell and Go.
    Code,
    /// Python.
    Python,
    /// JavaScript and TypeScript.
    Script,
    /// Shell, and what other code hands to a shell.
    Shell,
    /// Code, and the JSON, YAML and SQL beside it.
    All,
}

/// A rule as it stands in the table.
#[derive(Debug)]
pub(super) struct Spec {
    /// Which files.
    pub(super) about: About,
    /// What it found, for the uploader.
    pub(super) says: &'static str,
    /// Found in one file, all of them; the line is that of the first. In two patterns, `NAME` stands for
    /// what the first one captures.
    pub(super) all: &'static [&'static str],
    /// Where this is found too, the rule does not hold.
    pub(super) unless: Option<&'static str>,
    /// How often the first has to be found.
    pub(super) times: usize,
}

/// A rule that can be looked for.
#[derive(Debug)]
pub(super) struct Rule {
    about: About,
    pub(super) says: &'static str,
    all: Vec<Regex>,
    /// A pattern about a name that the first one captured.
    of_name: Option<&'static str>,
    unless: Option<Regex>,
    times: usize,
}

fn compile(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern)
        .unicode(false)
        .multi_line(true)
        .case_insensitive(true)
        .build()
        .ok()
}

/// Where a match begins, without the space in front that a pattern takes in.
fn begin(found: &regex::bytes::Match<'_>) -> usize {
    let bytes = found.as_bytes();
    found.start() + (bytes.len() - bytes.trim_ascii_start().len())
}

impl Rule {
    /// The patterns are constants, and a test compiles all of them.
    pub(super) fn of(spec: &Spec) -> Self {
        let (named, plain): (Vec<_>, Vec<_>) = spec
            .all
            .iter()
            .copied()
            .partition(|text| text.contains("NAME"));
        Self {
            about: spec.about,
            says: spec.says,
            all: plain.into_iter().filter_map(compile).collect(),
            of_name: named.first().copied(),
            unless: spec.unless.and_then(compile),
            times: spec.times,
        }
    }

    /// The line in which it holds.
    pub(super) fn find(&self, file: &File<'_>) -> Option<usize> {
        let text = file.text.as_bytes();
        if !file.is(self.about) {
            return None;
        }
        let (first, others) = self.all.split_first()?;
        let at = begin(&first.find_iter(text).nth(self.times - 1)?);
        if !others.iter().all(|other| other.is_match(text)) {
            return None;
        }
        if self
            .unless
            .as_ref()
            .is_some_and(|unless| unless.is_match(text))
        {
            return None;
        }
        let at = match self.of_name {
            None => at,
            Some(pattern) => first.captures_iter(text).find_map(|found| {
                let name = std::str::from_utf8(found.get(1)?.as_bytes()).ok()?;
                compile(&pattern.replace("NAME", &regex::escape(name)))?
                    .find(text)
                    .map(|found| begin(&found))
            })?,
        };
        Some(1 + text[..at].iter().filter(|byte| **byte == b'\n').count())
    }
}

/// A file, with its text made plain.
#[derive(Debug)]
pub(super) struct File<'a> {
    ending: String,
    content: &'a str,
    text: String,
}

impl<'a> File<'a> {
    pub(super) fn new(path: &str, content: &'a str) -> Self {
        let ending = path.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
        let comment = match ending.as_str() {
            "js" | "ts" | "go" => "//",
            "sql" => "--",
            "json" => "",
            _ => "#",
        };
        let text = plain(content)
            .split('\n')
            .map(|line| {
                let only = !comment.is_empty() && line.trim_start().starts_with(comment);
                if only { "" } else { line }
            })
            .collect::<Vec<_>>()
            .join("\n");
        Self {
            ending,
            content,
            text,
        }
    }

    fn is(&self, about: About) -> bool {
        let ending = self.ending.as_str();
        match about {
            About::Python => ending == "py",
            About::Script => matches!(ending, "js" | "ts"),
            About::Code | About::Shell => matches!(ending, "py" | "js" | "ts" | "sh" | "go"),
            About::All => ending != "txt",
        }
    }

    /// The first line with a character that turns the direction of text, in code.
    pub(super) fn turned_line(&self) -> Option<usize> {
        if self.content.is_ascii() || !self.is(About::Code) {
            return None;
        }
        let lines = self.content.split('\n');
        let turned = |line: &str| line.contains(is_bidirectional);
        Some(1 + lines.take_while(|line| !turned(line)).count())
            .filter(|line| self.content.split('\n').nth(line - 1).is_some())
    }
}

fn plain(content: &str) -> Cow<'_, str> {
    if content.is_ascii() {
        return Cow::Borrowed(content);
    }
    let seen = content.chars().filter(|c| !is_hidden(*c));
    Cow::Owned(seen.nfkc().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{RULES, table};

    #[test]
    fn every_pattern_compiles_and_every_rule_can_hold() {
        for (rule, spec) in RULES.iter().zip(table::RULES) {
            let patterns = rule.all.len() + usize::from(rule.of_name.is_some());
            assert_eq!(patterns, spec.all.len(), "{}", spec.says);
            assert_eq!(rule.unless.is_some(), spec.unless.is_some());
            assert!(!rule.all.is_empty() && spec.times > 0, "{}", spec.says);
            let of_name = rule.of_name.map(|text| text.replace("NAME", "x"));
            assert!(of_name.is_none_or(|text| compile(&text).is_some()));
        }
    }
}
