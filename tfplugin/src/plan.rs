//! A plan while it is made.

use crate::{Diagnostics, Path, Value};

/// A plan while it is made: what a [`Resource`](crate::Resource) can look at and have a say in.
///
/// Defaults are filled in. What the provider computes has the state's value still; it becomes unknown
/// afterwards, as its properties say, unless it is decided here.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) prior: Value,
    pub(crate) config: Value,
    pub(crate) planned: Value,
    pub(crate) decided: Vec<String>,
    pub(crate) replace: Vec<Path>,
    pub(crate) private: crate::Private,
    /// What to tell; an error ends the plan.
    pub diagnostics: Diagnostics,
}

impl Plan {
    /// Whether there is no object yet.
    pub const fn is_new(&self) -> bool {
        self.prior.is_null()
    }

    /// The state before; null for a new object.
    pub const fn prior(&self) -> &Value {
        &self.prior
    }

    /// What is written in the configuration.
    pub const fn config(&self) -> &Value {
        &self.config
    }

    /// What is planned so far.
    pub const fn planned(&self) -> &Value {
        &self.planned
    }

    /// What the provider keeps beside the state.
    pub const fn private(&self) -> &crate::Private {
        &self.private
    }

    /// Says what an attribute will be: a value, null, or unknown. For a computed attribute, or for one
    /// that is given, back to the state's value where that means the same.
    pub fn decide(&mut self, name: &str, value: impl Into<Value>) {
        self.planned.put(name, value);
        if !self.decided.iter().any(|known| known == name) {
            self.decided.push(name.to_owned());
        }
    }

    /// Says that this attribute is a reason to replace the object.
    pub fn replace_for(&mut self, path: impl Into<Path>) {
        self.replace.push(path.into());
    }
}
