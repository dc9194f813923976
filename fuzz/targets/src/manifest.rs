//! `sless.toml`.

use std::collections::BTreeSet;

use sless_source::Manifest;
use toml::{Table, Value};

pub(crate) fn run(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let manifest = match Manifest::parse(text) {
        Ok(manifest) => manifest,
        Err(error) => {
            assert_points_into(text, &error.to_string());
            return false;
        }
    };
    // What is accepted is valid everywhere else too.
    manifest.spec.validate().expect("an accepted function");
    let mut names = BTreeSet::new();
    for trigger in &manifest.triggers {
        trigger.spec.validate().expect("an accepted trigger");
        assert_eq!(trigger.spec.function_ref, manifest.name);
        assert!(names.insert(&trigger.name), "a name twice");
    }
    // Written down again, it is the same one.
    let again = Manifest::parse(&written(&manifest)).expect("what is written can be read");
    assert_eq!(again, manifest);
    true
}

fn written(manifest: &Manifest) -> String {
    let mut all = Table::try_from(&manifest.request).expect("a function can be written");
    let triggers = manifest.triggers.iter().map(|trigger| {
        let mut table = Table::try_from(&trigger.request).expect("a trigger can be written");
        assert!(table.remove("function_ref").is_some());
        Value::Table(table)
    });
    let triggers: Vec<_> = triggers.collect();
    if !triggers.is_empty() {
        all.insert("trigger".to_owned(), Value::Array(triggers));
    }
    toml::to_string(&all).expect("a table can be written")
}

/// An error names a place that is there: a line, and a column of it or the one behind it.
fn assert_points_into(text: &str, error: &str) {
    let mut parts = error.splitn(3, ':');
    let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
    let (line, column) = (number().expect("a line"), number().expect("a column"));
    let Some(pointed) = line.checked_sub(1).and_then(|at| text.split('\n').nth(at)) else {
        panic!("no such line: {error}");
    };
    let columns = pointed.chars().count() + 1;
    assert!((1..=columns).contains(&column), "no such column: {error}");
    let message = parts.next().map(str::trim);
    assert!(message.is_some_and(|text| !text.is_empty()), "{error}");
}
