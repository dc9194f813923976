//! Environment variables: three attributes, one set of variables on the server.

use std::collections::{BTreeMap, BTreeSet};

use sless_api::Env;
use tfplugin::{Diagnostics, Operation, Path, Value};

/// The attributes, in the order of increasing secrecy.
pub(super) const ATTRIBUTES: [&str; 3] = ["env", "env_sensitive", "env_wo"];

/// The names of the write-only variables, kept beside the state. Names are no secrets.
const WRITE_ONLY: &str = "env_wo";

/// Refuses a name that is given twice.
pub(super) fn validate(config: &Value, found: &mut Diagnostics) {
    let mut seen = BTreeMap::new();
    for attribute in ATTRIBUTES {
        for name in config
            .at(attribute)
            .as_map()
            .into_iter()
            .flat_map(BTreeMap::keys)
        {
            if let Some(first) = seen.insert(name, attribute) {
                found.error_at(
                    Path::from(attribute).key(name),
                    "Environment variable given twice",
                    format!("`{name}` is in `{first}` too."),
                );
            }
        }
    }
}

/// All variables that are given and known.
pub(super) fn all(config: &Value) -> Env {
    let maps = ATTRIBUTES
        .iter()
        .filter_map(|attribute| config.at(attribute).as_map());
    let known = maps
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?)));
    known.collect()
}

/// Keeps the names of the write-only ones.
pub(super) fn remember(operation: &Operation, config: &Value) {
    let names: Vec<_> = config
        .at("env_wo")
        .as_map()
        .into_iter()
        .flat_map(BTreeMap::keys)
        .collect();
    remember_names(
        operation,
        &names.into_iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

pub(super) fn remember_names(operation: &Operation, names: &[&str]) {
    operation.change_private(|private| {
        if names.is_empty() {
            private.remove(WRITE_ONLY);
        } else {
            private.write(WRITE_ONLY, names.join(","));
        }
    });
}

/// Sorts what the server has into the attributes. What is not known to be a secret is in `env`, where
/// it shows.
pub(super) fn sort(operation: &Operation, server: &Env, state: &mut Value) {
    let private = operation.private();
    let write_only: BTreeSet<_> = private
        .read(WRITE_ONLY)
        .into_iter()
        .flat_map(|names| names.split(','))
        .collect();
    let sensitive = state
        .at("env_sensitive")
        .as_map()
        .cloned()
        .unwrap_or_default();
    let (mut plain, mut secret) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in &server.0 {
        if write_only.contains(name.as_str()) {
            continue;
        }
        let to = if sensitive.contains_key(name) {
            &mut secret
        } else {
            &mut plain
        };
        to.insert(name.clone(), Value::from(value.as_str()));
    }
    for (attribute, variables) in [("env", plain), ("env_sensitive", secret)] {
        // Absent and empty are the same to the server; the state's word for it stays.
        if variables.is_empty() && state.at(attribute).is_null() {
            continue;
        }
        state.put(attribute, Value::Map(variables));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once() {
        let one = |value: &str| Value::from_iter([("A", value)]);
        let config = Value::from_iter([("env", one("1")), ("env_wo", one("2"))]);
        let mut found = Diagnostics::default();
        validate(&config, &mut found);
        let told = found.iter().next().expect("an error");
        assert_eq!(told.path.to_string(), r#"env_wo["A"]"#);
        assert!(told.detail.contains("`env`"), "{}", told.detail);
    }

    #[test]
    fn all_attributes_make_one_set() {
        let one = |name: &str, value: Value| Value::from_iter([(name, value)]);
        let config = Value::from_iter([
            ("env", one("A", "1".into())),
            ("env_sensitive", one("B", "2".into())),
            ("env_wo", one("C", Value::UNKNOWN)),
        ]);
        assert_eq!(all(&config), [("A", "1"), ("B", "2")].into_iter().collect());
    }
}
