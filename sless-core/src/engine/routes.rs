//! Where calls go: the functions that were called lately, ready at hand.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use crate::{FunctionId, Invoke, Name, Namespace};

/// What a call needs to know of a function.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) function: FunctionId,
    pub(super) target: Target,
    pub(super) timeout: Duration,
}

#[derive(Clone, Debug)]
pub(super) enum Target {
    /// It runs, or wakes on a call.
    Open(Arc<dyn Invoke>),
    /// It is off, with the machine word and sentence that say why.
    Stopped { reason: String, message: String },
}

/// Routes by name. A route is a copy of what the catalog says: it is dropped when the catalog hints
/// at a change of its function, and read again by the next call.
#[derive(Debug)]
pub(super) struct Routes {
    state: RwLock<State>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    routes: HashMap<Namespace, HashMap<Name, Arc<Route>>>,
    count: usize,
    /// Counts the changes hinted so far, so that a route that was read before a change is not kept
    /// after it.
    changes: u64,
}

impl Routes {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            state: RwLock::default(),
            capacity,
        }
    }

    pub(super) fn find(&self, namespace: &Namespace, function: &Name) -> Option<Arc<Route>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.routes.get(namespace)?.get(function).cloned()
    }

    /// Where the history of changes stands: to be read before what a route is made of.
    pub(super) fn position(&self) -> u64 {
        self.state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .changes
    }

    /// Keeps a route that was made of what was read at `position`, unless something changed since.
    pub(super) fn keep(&self, route: Arc<Route>, position: u64) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.changes != position {
            return;
        }
        if state.count >= self.capacity {
            // All at once, and rarely: the capacity is far above the functions in use.
            state.routes.clear();
            state.count = 0;
        }
        let FunctionId {
            namespace, name, ..
        } = route.function.clone();
        if state
            .routes
            .entry(namespace)
            .or_default()
            .insert(name, route)
            .is_none()
        {
            state.count += 1;
        }
    }

    /// Drops the route of a function.
    pub(super) fn forget(&self, namespace: &Namespace, function: &Name) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.changes += 1;
        let Some(of_namespace) = state.routes.get_mut(namespace) else {
            return;
        };
        if of_namespace.remove(function).is_some() {
            let empty = of_namespace.is_empty();
            state.count -= 1;
            if empty {
                state.routes.remove(namespace);
            }
        }
    }

    /// Drops all routes.
    pub(super) fn clear(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.changes += 1;
        state.routes.clear();
        state.count = 0;
    }
}
