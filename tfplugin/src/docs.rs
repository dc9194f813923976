//! Documentation pages in the layout of the Terraform registry, made from schemas.

use std::fmt::Write as _;

use crate::{Attribute, Kind, Schema, schema};

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject {
    /// The provider itself: `docs/index.md`.
    Provider,
    /// A resource: `docs/resources/NAME.md`.
    Resource,
    /// A data source: `docs/data-sources/NAME.md`.
    DataSource,
}

/// What a page holds beside what the schema says.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Extras<'a> {
    /// A configuration to show.
    pub example: &'a str,
    /// The identifiers to import by, each with a comment; none where there is no import.
    pub import: &'a str,
}

impl<'a> Extras<'a> {
    /// With this example.
    pub const fn example(example: &'a str) -> Self {
        Self {
            example,
            import: "",
        }
    }

    /// With this text about importing.
    #[must_use]
    pub const fn with_import(mut self, import: &'a str) -> Self {
        self.import = import;
        self
    }
}

/// The page of a provider, a resource or a data source: `name` is `sless` or `sless_function`.
pub fn page(
    subject: Subject,
    provider: &str,
    name: &str,
    schema: &Schema,
    extras: Extras<'_>,
) -> String {
    let (title, heading) = match subject {
        Subject::Provider => (
            format!("{provider} Provider"),
            format!("{provider} Provider"),
        ),
        Subject::Resource => (
            format!("{name} Resource - {provider}"),
            format!("{name} (Resource)"),
        ),
        Subject::DataSource => (
            format!("{name} Data Source - {provider}"),
            format!("{name} (Data Source)"),
        ),
    };
    let docs = schema.docs().trim();
    let summary = docs.lines().next().unwrap_or_default();
    let mut page = format!(
        "---\npage_title: \"{title}\"\nsubcategory: \"\"\ndescription: |-\n  {summary}\n---\n\n\
         # {heading}\n\n{docs}\n"
    );
    if !extras.example.is_empty() {
        let _ = write!(
            page,
            "\n## Example Usage\n\n```terraform\n{}\n```\n",
            extras.example.trim()
        );
    }
    let _ = write!(page, "\n## Schema\n");
    let mut nested = Vec::new();
    attributes(&mut page, "###", schema.attributes(), "", &mut nested);
    let mut at = 0;
    while at < nested.len() {
        let (path, inner) = (nested[at].0.clone(), nested[at].1);
        let anchor = path.replace('.', "--");
        let _ = write!(
            page,
            "\n<a id=\"nestedatt--{anchor}\"></a>\n### Nested Schema for `{path}`\n"
        );
        attributes(&mut page, "", inner, &path, &mut nested);
        at += 1;
    }
    if !extras.import.is_empty() {
        let _ = write!(page, "\n## Import\n\n{}\n", extras.import.trim());
    }
    page
}

type Nested<'a> = Vec<(String, &'a [Attribute])>;

fn attributes<'a>(
    page: &mut String,
    level: &str,
    attributes: &'a [Attribute],
    below: &str,
    nested: &mut Nested<'a>,
) {
    type Belongs = fn(&Attribute) -> bool;
    let groups: [(&str, Belongs); 3] = [
        ("Required", |one| one.required),
        ("Optional", |one| one.optional),
        ("Read-Only", |one| !one.required && !one.optional),
    ];
    for (title, belongs) in groups {
        let mut group: Vec<_> = attributes.iter().filter(|one| belongs(one)).collect();
        if group.is_empty() {
            continue;
        }
        group.sort_by(|one, other| one.name.cmp(&other.name));
        let _ = match level {
            "" => write!(page, "\n{title}:\n\n"),
            level => write!(page, "\n{level} {title}\n\n"),
        };
        for attribute in group {
            line(page, attribute, below, nested);
        }
    }
}

fn line<'a>(page: &mut String, attribute: &'a Attribute, below: &str, nested: &mut Nested<'a>) {
    let (title, inner) = match &attribute.kind {
        Kind::Plain(kind) => (kind.title(), None),
        Kind::Single(inner) => ("Attributes".to_owned(), Some(inner)),
        Kind::List(inner) => ("Attributes List".to_owned(), Some(inner)),
        Kind::Map(inner) => ("Attributes Map".to_owned(), Some(inner)),
    };
    let mut notes = vec![title];
    for (note, holds) in [
        ("Sensitive", attribute.sensitive),
        ("Write-only", attribute.write_only),
        ("Deprecated", attribute.deprecated.is_some()),
    ] {
        if holds {
            notes.push(note.to_owned());
        }
    }
    let _ = write!(
        page,
        "- `{}` ({}) {}",
        attribute.name,
        notes.join(", "),
        attribute.docs
    );
    if let Some(default) = schema::default_text(attribute) {
        let _ = write!(page, " Default: `{default}`.");
    }
    if schema::replaces(attribute) {
        page.push_str(" Another value replaces the object.");
    }
    if let Some(instead) = &attribute.deprecated {
        let _ = write!(page, " {instead}");
    }
    if let Some(inner) = inner {
        let path = match below {
            "" => attribute.name.clone(),
            below => format!("{below}.{}", attribute.name),
        };
        let _ = write!(
            page,
            " (see [below for nested schema](#nestedatt--{}))",
            path.replace('.', "--")
        );
        nested.push((path, inner));
    }
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_registrys_layout() {
        let schema = Schema::new(
            "A thing.\n\nIt has more to say.",
            vec![
                Attribute::string("name", "Its name.")
                    .required()
                    .requires_replace(),
                Attribute::number("size", "Its size.").with_default(3),
                Attribute::string("key", "A secret.")
                    .write_only()
                    .sensitive(),
                Attribute::string("id", "Its id.").computed(),
                Attribute::single(
                    "limits",
                    vec![Attribute::bool("hard", "Whether.").optional()],
                    "Limits.",
                )
                .optional(),
            ],
        );
        let extras = Extras::example("resource \"x_thing\" \"t\" {}\n").with_import("By name.");
        let page = page(Subject::Resource, "x", "x_thing", &schema, extras);
        assert_eq!(page, include_str!("../tests/golden/page.md"));
    }
}
