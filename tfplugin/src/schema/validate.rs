//! Checks of a configuration.

use super::{Attribute, Kind, Schema};
use crate::{Diagnostics, Path, Value};

impl Schema {
    /// Runs the checks of all attributes whose values are known.
    pub(crate) fn validate(&self, config: &Value, found: &mut Diagnostics) {
        check(&self.attributes, config, &Path::ROOT, found);
        for names in &self.exactly_one {
            let given: Vec<_> = names
                .iter()
                .filter(|name| !config.at(name).is_null())
                .collect();
            // One that comes later may turn out to be null.
            let may_be: Vec<_> = given
                .iter()
                .filter(|name| config.at(name).is_unknown())
                .collect();
            let list = |names: &[&str]| {
                let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
                names.join(" or ")
            };
            match given.as_slice() {
                [] => found.error(
                    "Missing attribute",
                    format!("Expected one of {}.", list(names)),
                ),
                [_] => {}
                [first, second, ..] if given.len() - may_be.len() > 1 => found.error_at(
                    **second,
                    "Attributes exclude each other",
                    format!("`{first}` is given too; expected one of {}.", list(names)),
                ),
                _ => {}
            }
        }
    }
}

fn check(attributes: &[Attribute], config: &Value, at: &Path, found: &mut Diagnostics) {
    for attribute in attributes {
        let value = config.at(&attribute.name);
        if value.is_null() || value.is_unknown() {
            continue;
        }
        let path = at.attribute(&attribute.name);
        if let Some(instead) = &attribute.deprecated {
            found.warning_at(path.clone(), "Attribute is deprecated", instead);
        }
        if let Some(check) = attribute.check.as_ref().filter(|_| value.is_wholly_known())
            && let Err(problem) = check(value)
        {
            found.error_at(path.clone(), format!("Invalid value for `{path}`"), problem);
        }
        match &attribute.kind {
            Kind::Plain(_) => {}
            Kind::Single(inner) => check(inner, value, &path, found),
            Kind::List(inner) => {
                for (index, item) in value.as_list().unwrap_or_default().iter().enumerate() {
                    check(inner, item, &path.index(index), found);
                }
            }
            Kind::Map(inner) => {
                for (key, item) in value.as_map().into_iter().flatten() {
                    check(inner, item, &path.key(key), found);
                }
            }
        }
    }
}
