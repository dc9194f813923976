//! What is given beside a folder, in the place of what its manifest says.

use sless_api::{CreateFunction, Env};

/// Values that win over those of the manifest, one by one; environment variables are added to the
/// manifest's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The function's name.
    pub name: Option<String>,
    /// The language and its version.
    pub runtime: Option<String>,
    /// `module.function`.
    pub entrypoint: Option<String>,
    /// Environment variables.
    pub env: Env,
    /// How many copies run.
    pub replicas: Option<u32>,
    /// The most copies that calls may lead to.
    pub max_replicas: Option<u32>,
    /// How long one call may take.
    pub timeout_seconds: Option<u32>,
    /// The memory of one copy.
    pub memory: Option<String>,
    /// The processor share of one copy.
    pub cpu: Option<String>,
    /// How many calls one copy takes at once.
    pub concurrency: Option<u32>,
    /// How long without a call until it sleeps.
    pub idle_seconds: Option<u32>,
}

impl Overrides {
    pub(crate) fn apply(&self, request: &mut CreateFunction) {
        fn set<T: Clone>(given: &Option<T>, kept: &mut Option<T>) {
            if let Some(value) = given {
                *kept = Some(value.clone());
            }
        }
        if let Some(name) = &self.name {
            request.name.clone_from(name);
        }
        if let Some(runtime) = &self.runtime {
            request.runtime.clone_from(runtime);
        }
        set(&self.entrypoint, &mut request.entrypoint);
        set(&self.replicas, &mut request.replicas);
        set(&self.max_replicas, &mut request.max_replicas);
        set(&self.timeout_seconds, &mut request.timeout_seconds);
        set(&self.memory, &mut request.memory);
        set(&self.cpu, &mut request.cpu);
        set(&self.concurrency, &mut request.concurrency);
        set(&self.idle_seconds, &mut request.idle_seconds);
        if !self.env.0.is_empty() {
            let env = request.env.get_or_insert_default();
            env.0.extend(self.env.0.clone());
        }
    }
}
