//! What the conformance suites do not ask: restarts, simulations, limits.

mod builder;
mod catalog;
mod dispatcher;
mod scheduler;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::*;
use crate::{
    Artifact, ArtifactKind, Clock, Digest, Entrypoint, Function, FunctionId, FunctionSpec,
    Metadata, Name, Namespace, Runtime, Uid, VirtualClock, Workload,
};

const SECOND: Duration = Duration::from_secs(1);

fn namespace() -> Namespace {
    Namespace::new("n").expect("a label")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a label")
}

fn clocks() -> (VirtualClock, Arc<dyn Clock>) {
    let clock = VirtualClock::default();
    (clock.clone(), Arc::new(clock))
}

/// A workload for a handler of `handler.handle`.
pub(crate) fn workload(replicas: u32, concurrency: u32) -> Workload {
    let uid = Uid::new("u");
    Workload {
        generation: 1,
        function: FunctionId {
            namespace: namespace(),
            name: name("f"),
            uid,
        },
        artifact: Artifact {
            kind: ArtifactKind::Memory,
            reference: "a".to_owned(),
            digest: Digest::of("a"),
        },
        runtime: Runtime::Python311,
        entrypoint: Entrypoint::default(),
        env: BTreeMap::new(),
        replicas,
        max_replicas: replicas,
        timeout: 60 * SECOND,
        memory: None,
        cpu: None,
        concurrency,
        idle: None,
        built_at: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// A function that is to be created.
fn function(text: &str) -> Function {
    Function::new(
        Metadata::new(namespace(), name(text)),
        FunctionSpec::new(Runtime::Python311),
    )
}
