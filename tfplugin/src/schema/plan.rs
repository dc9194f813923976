//! Plans, as they follow from the properties of attributes.

use super::{Attribute, Kind, Schema, attribute::Stability};
use crate::{Path, Plan, Value};

/// A plan of one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) state: Value,
    pub(crate) replace: Vec<Path>,
}

impl Schema {
    /// The first part: what is given, with defaults, and with the state's words where they mean the
    /// same. What the provider fills in has the state's value still.
    pub(crate) fn fill(&self, prior: &Value, proposed: Value, config: &Value) -> Value {
        let mut planned = proposed;
        fill(&self.attributes, prior, &mut planned, config);
        planned
    }

    /// The second part, after the provider had its say: what is not known if anything changes, and
    /// what is a reason to replace the object.
    pub(crate) fn settle_plan(&self, plan: Plan) -> Planned {
        let Plan {
            prior,
            config,
            mut planned,
            decided,
            replace,
            ..
        } = plan;
        let is_new = prior.is_null();
        let attributes = &self.attributes;
        let changes = |attribute: &&Attribute| differs(attribute, &prior, &planned);
        if !is_new && !attributes.iter().any(|attribute| changes(&attribute)) {
            // Nothing but what an import could not know.
            return Planned {
                state: prior,
                replace: Vec::new(),
            };
        }
        let changed: Vec<_> = attributes
            .iter()
            .filter(changes)
            .map(|one| one.name.clone())
            .collect();
        let scope = Scope {
            is_new,
            changed: &changed,
            decided: &decided,
        };
        unknown(attributes, &scope, &prior, &mut planned, &config);
        let mut paths = Vec::new();
        if !is_new {
            for attribute in attributes.iter().filter(|one| one.requires_replace) {
                if differs(attribute, &prior, &planned) {
                    paths.push(Path::ROOT.attribute(&attribute.name));
                }
            }
            paths.extend(
                replace
                    .into_iter()
                    .filter(|path| !paths.contains(path))
                    .collect::<Vec<_>>(),
            );
        }
        Planned {
            state: planned,
            replace: paths,
        }
    }
}

fn fill(attributes: &[Attribute], prior: &Value, planned: &mut Value, config: &Value) {
    let Value::Map(items) = planned else { return };
    for attribute in attributes {
        let (given, before) = (config.at(&attribute.name), prior.at(&attribute.name));
        let value = items.entry(attribute.name.clone()).or_default();
        if attribute.write_only {
            *value = Value::Null;
            continue;
        }
        if given.is_null() {
            if let Some(default) = &attribute.default {
                value.clone_from(default);
            } else if attribute.stand_in.is_some() {
                *value = Value::Null;
            } else if attribute.empty_is_absent {
                *value = if before.is_empty() {
                    before.clone()
                } else {
                    Value::Null
                };
            }
            continue;
        }
        if attribute.is_same(before, given) {
            value.clone_from(before);
            continue;
        }
        match &attribute.kind {
            Kind::Plain(_) => {}
            Kind::Single(inner) => fill(inner, before, value, given),
            Kind::List(inner) => {
                if let (Value::List(items), Some(given)) = (value, given.as_list()) {
                    let before = before.as_list().unwrap_or_default();
                    for (at, (item, given)) in items.iter_mut().zip(given).enumerate() {
                        fill(inner, before.get(at).unwrap_or(&Value::Null), item, given);
                    }
                }
            }
            Kind::Map(inner) => {
                if let (Value::Map(items), Some(given)) = (value, given.as_map()) {
                    for (key, item) in items {
                        let given = given.get(key).unwrap_or(&Value::Null);
                        fill(inner, before.at(key), item, given);
                    }
                }
            }
        }
    }
}

/// Whether a plan changes this attribute. What was given to somebody else counts as what is given.
fn differs(attribute: &Attribute, prior: &Value, planned: &Value) -> bool {
    let before = prior.at(&attribute.name);
    let is_stand_in = attribute
        .stand_in
        .as_ref()
        .is_some_and(|stand_in| before == stand_in);
    !is_stand_in && before != planned.at(&attribute.name)
}

/// What of an object changes.
struct Scope<'a> {
    is_new: bool,
    changed: &'a [String],
    decided: &'a [String],
}

impl Scope<'_> {
    /// What a value that the provider fills in is in the plan.
    fn filled_in(&self, attribute: &Attribute, before: &Value) -> Value {
        let keeps = match &attribute.stability {
            Stability::Changes => false,
            Stability::Keeps => true,
            Stability::ChangesWith(names) => !names
                .iter()
                .any(|name| self.changed.iter().any(|changed| changed == name)),
        };
        if keeps && !self.is_new {
            before.clone()
        } else {
            Value::UNKNOWN
        }
    }
}

fn unknown(
    attributes: &[Attribute],
    scope: &Scope<'_>,
    prior: &Value,
    planned: &mut Value,
    config: &Value,
) {
    let Value::Map(items) = planned else { return };
    for attribute in attributes {
        if scope.decided.contains(&attribute.name) {
            continue;
        }
        let (given, before) = (config.at(&attribute.name), prior.at(&attribute.name));
        let Some(value) = items.get_mut(&attribute.name) else {
            continue;
        };
        if given.is_null() && attribute.is_filled_in() {
            *value = scope.filled_in(attribute, before);
        } else if let (Kind::Single(inner), false) = (&attribute.kind, given.is_null()) {
            // Names of other attributes are those of the whole object.
            let scope = Scope {
                decided: &[],
                ..*scope
            };
            unknown(inner, &scope, before, value, given);
        }
    }
}
