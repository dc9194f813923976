//! Which triggers and jobs speak of which function.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{PoisonError, RwLock},
};

use crate::{Kind, Name, Namespace, Object, TriggerType, resource::ObjectKey};

/// Follows the objects that the engine has read. It is right about each as of its last reconcile;
/// a change that was not seen yet is hinted by the catalog and comes.
#[derive(Debug, Default)]
pub(super) struct Index(RwLock<State>);

type FunctionName = (Namespace, Name);

#[derive(Debug, Default)]
struct State {
    function_of: HashMap<ObjectKey, FunctionName>,
    links: HashMap<FunctionName, BTreeMap<ObjectKey, Link>>,
}

/// What is known of a trigger or a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    /// Whether it is a trigger of type http, and enabled.
    http: Option<bool>,
}

impl Index {
    /// Takes note of an object. Answers whether anything is new that its function must know of.
    pub(super) fn put(&self, object: &Object) -> bool {
        let (function, link) = match object {
            Object::Function(_) => return false,
            Object::Trigger(trigger) => {
                let http = (trigger.spec.kind == TriggerType::Http).then_some(trigger.spec.enabled);
                (&trigger.spec.function_ref, Link { http })
            }
            Object::FunctionJob(job) => {
                // A job that has ended waits for nothing.
                if job.status.phase.is_terminal() && job.status.run_id == job.spec.run_id {
                    self.remove(&object.key());
                    return false;
                }
                (&job.spec.function_ref, Link { http: None })
            }
        };
        let key = object.key();
        let function = (key.namespace.clone(), function.clone());
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if state
            .function_of
            .get(&key)
            .is_some_and(|before| *before != function)
        {
            state.remove(&key);
        }
        state.function_of.insert(key.clone(), function.clone());
        let before = state.links.entry(function).or_default().insert(key, link);
        before.and_then(|link| link.http) != link.http
    }

    /// Forgets an object. Answers the function that it spoke of.
    pub(super) fn remove(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (namespace, name) = state.remove(key)?;
        Some(ObjectKey::new(Kind::Function, namespace, name))
    }

    /// The triggers and jobs that speak of a function.
    pub(super) fn dependents(&self, namespace: &Namespace, function: &Name) -> Vec<ObjectKey> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let links = state.links.get(&(namespace.clone(), function.clone()));
        links
            .map(|links| links.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// Whether a function has jobs that have not ended, whose runs are of a version that may not be the
    /// newest.
    pub(super) fn has_runs(&self, namespace: &Namespace, function: &Name) -> bool {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let links = state.links.get(&(namespace.clone(), function.clone()));
        links.is_some_and(|links| links.keys().any(|key| key.kind == Kind::FunctionJob))
    }

    /// Whether a function has triggers of type http, all of which are disabled.
    pub(super) fn is_stopped(&self, namespace: &Namespace, function: &Name) -> bool {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(links) = state.links.get(&(namespace.clone(), function.clone())) else {
            return false;
        };
        let mut enabled = links.values().filter_map(|link| link.http).peekable();
        enabled.peek().is_some() && enabled.all(|enabled| !enabled)
    }
}

impl State {
    fn remove(&mut self, key: &ObjectKey) -> Option<FunctionName> {
        let function = self.function_of.remove(key)?;
        if let Some(links) = self.links.get_mut(&function) {
            links.remove(key);
            if links.is_empty() {
                self.links.remove(&function);
            }
        }
        Some(function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metadata, Trigger, TriggerSpec};

    fn trigger(name: &str, function: &str, enabled: bool) -> Object {
        let namespace = Namespace::new("ns").expect("a label");
        let name = Name::new(name).expect("a label");
        let mut spec = TriggerSpec::http(Name::new(function).expect("a label"));
        spec.enabled = enabled;
        Trigger::new(Metadata::new(namespace, name), spec).into()
    }

    #[test]
    fn a_function_stops_when_all_its_http_triggers_are_disabled() {
        let (index, namespace) = (Index::default(), Namespace::new("ns").expect("a label"));
        let f = Name::new("f").expect("a label");
        assert!(!index.is_stopped(&namespace, &f));
        assert!(index.put(&trigger("a", "f", false)));
        assert!(!index.put(&trigger("a", "f", false)), "nothing new");
        assert!(index.is_stopped(&namespace, &f));
        assert!(index.put(&trigger("b", "f", true)));
        assert!(!index.is_stopped(&namespace, &f));
        index.remove(&trigger("b", "f", true).key());
        assert!(index.is_stopped(&namespace, &f));
    }

    #[test]
    fn a_trigger_that_moves_to_another_function_leaves_the_first() {
        let (index, namespace) = (Index::default(), Namespace::new("ns").expect("a label"));
        index.put(&trigger("a", "f", false));
        index.put(&trigger("a", "g", false));
        assert!(
            index
                .dependents(&namespace, &Name::new("f").expect("a label"))
                .is_empty()
        );
        assert_eq!(
            index
                .dependents(&namespace, &Name::new("g").expect("a label"))
                .len(),
            1
        );
    }
}
