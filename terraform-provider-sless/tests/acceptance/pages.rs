//! The documentation says what the schemas say.

use std::{collections::BTreeSet, fs, path::Path};

use terraform_provider_sless::docs;

const AGAIN: &str =
    "make them again: cargo run -p terraform-provider-sless -- docs terraform-provider-sless/docs";

#[test]
fn the_pages_are_those_of_the_schemas() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut known = BTreeSet::new();
    for (path, text) in docs::pages() {
        let stored = fs::read_to_string(folder.join(&path)).unwrap_or_default();
        assert!(
            stored == text,
            "docs/{} is not what the schema says; {AGAIN}",
            path.display()
        );
        known.insert(folder.join(path));
    }
    for below in ["", "resources", "data-sources"] {
        for entry in fs::read_dir(folder.join(below)).unwrap() {
            let path = entry.unwrap().path();
            assert!(
                path.is_dir() || known.contains(&path),
                "{} is about nothing",
                path.display()
            );
        }
    }
}
