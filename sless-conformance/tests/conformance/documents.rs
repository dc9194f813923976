//! The contracts' documents against the suites: no clause without a test, no test without a clause.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use sless_conformance::{
    Clause, builder, catalog, dispatcher, invocation_log, lease, scheduler, storage, validator,
};

/// Number and test of the clauses of a suite.
fn pairs<H: ?Sized>(clauses: &[Clause<H>]) -> Vec<(String, String)> {
    clauses
        .iter()
        .map(|clause| (clause.id.to_owned(), clause.name.to_owned()))
        .collect()
}

fn suites() -> BTreeMap<&'static str, Vec<(String, String)>> {
    BTreeMap::from([
        ("builder", pairs(builder::clauses())),
        ("catalog", pairs(catalog::clauses())),
        ("dispatcher", pairs(dispatcher::clauses())),
        ("invocation-log", pairs(invocation_log::clauses())),
        ("lease", pairs(lease::clauses())),
        ("scheduler", pairs(scheduler::clauses())),
        ("storage", pairs(storage::clauses())),
        ("validator", pairs(validator::clauses())),
    ])
}

/// Number and test of the clauses of a document: items that begin with the number in bold, and end
/// with the name of the test.
fn documented(text: &str) -> Vec<(String, String)> {
    let items = text.split("\n- **").skip(1);
    items
        .filter_map(|item| {
            let (id, rest) = item.split_once("**")?;
            let (sentence, rest) = rest.split_once("\n  Test: `")?;
            assert!(
                sentence.trim_end().ends_with(['.', ')']),
                "{id} is no sentence: {sentence}"
            );
            let (name, _) = rest.split_once('`')?;
            Some((id.to_owned(), name.to_owned()))
        })
        .collect()
}

#[test]
fn every_clause_has_a_test_and_every_test_a_clause() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/contracts");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&folder).expect("the contracts") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name != "README" {
            found.insert(name);
        }
    }
    let suites = suites();
    let expected: BTreeSet<_> = suites.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, expected, "the documents, against the suites");
    for (contract, clauses) in suites {
        let text = fs::read_to_string(folder.join(format!("{contract}.md"))).expect("a contract");
        let mut documented = documented(&text);
        let number = |id: &str| {
            id.rsplit('-')
                .next()
                .and_then(|number| number.parse::<u32>().ok())
        };
        documented.sort_by_key(|(id, _)| number(id));
        assert_eq!(
            documented, clauses,
            "the clauses of {contract}.md, against its suite"
        );
    }
}

#[test]
fn numbers_grow_and_names_are_used_once() {
    let mut names = BTreeSet::new();
    for (contract, clauses) in suites() {
        let mut last = 0;
        for (id, name) in clauses {
            let number = id
                .strip_prefix(contract)
                .and_then(|rest| rest.strip_prefix('-'));
            let number: u32 = number
                .and_then(|number| number.parse().ok())
                .expect("a number");
            assert!(number > last, "{id} comes after number {last}");
            last = number;
            // So that the tests of two suites can stand in one module.
            assert!(
                names.insert(name.clone()),
                "{name} is the test of two clauses"
            );
        }
    }
}
