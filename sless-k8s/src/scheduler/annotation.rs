//! What is noted on objects of the cluster.

use std::collections::BTreeMap;

/// The digest of the manifest that was applied last, without the number of copies.
pub(super) const APPLIED: &str = "sless.io/applied";
/// The workload's revision.
pub(super) const REVISION: &str = "sless.io/revision";
/// The generation of the function's spec.
pub(super) const GENERATION: &str = "sless.io/generation";
/// How many copies are wanted; asleep there are none.
pub(super) const REPLICAS: &str = "sless.io/replicas";
/// How many copies there may be at most.
pub(super) const MAX_REPLICAS: &str = "sless.io/max-replicas";
/// Calls at once in one copy.
pub(super) const CONCURRENCY: &str = "sless.io/concurrency";
/// After how many milliseconds without a call it goes to sleep; zero is never.
pub(super) const IDLE: &str = "sless.io/idle-ms";
/// The revision that was ready when it went to sleep.
pub(super) const PROVEN: &str = "sless.io/proven";
/// Which run of a job.
pub(super) const RUN_ID: &str = "sless.io/run-id";
/// How a run ended: a `RunStatus` as JSON.
pub(super) const OUTCOME: &str = "sless.io/outcome";
/// When the artifact was built; what `kubectl rollout restart` writes.
pub(super) const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// The annotation, read as something.
pub(super) fn read<T: std::str::FromStr>(all: &BTreeMap<String, String>, name: &str) -> Option<T> {
    all.get(name)?.parse().ok()
}
