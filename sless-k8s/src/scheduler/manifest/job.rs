//! The Job of one run.

use serde_json::{Value, json};
use sless_core::{JobId, JobRun};

use super::pod::{self, Command, EVENT_FILE};
use crate::{SchedulerConfig, labels, names, scheduler::annotation};

/// The longest event that goes into the environment, in bytes: the kernel allows 128 KiB for one
/// variable. A longer one goes into a file.
pub(in crate::scheduler) const EVENT_INLINE_BYTES: usize = 32 << 10;

/// The Job. It runs one pod, once; whatever becomes of that pod, there is no other.
pub(in crate::scheduler) fn job(config: &SchedulerConfig, run: &JobRun) -> Value {
    let JobId { namespace, uid, .. } = &run.job;
    let name = names::job(&run.job, run.run_id);
    let labels = labels::of_owner(&run.job.key(), uid);
    let long = run.event.len() > EVENT_INLINE_BYTES;
    let command = Command::Once {
        timeout: run.timeout,
        request_id: format!("{uid}-{}", run.run_id),
        event: (!long).then(|| run.event.clone()),
        event_map: long.then(|| name.clone()),
    };
    let deadline = config.start().as_secs() + run.timeout.as_secs() + 600;
    let annotations = json!({annotation::RUN_ID: run.run_id.to_string()});
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace.workloads().as_str(),
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": deadline,
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": pod::spec(config, &run.workload, &command),
            },
        },
    })
}

/// What holds a long event.
pub(in crate::scheduler) fn event_config_map(run: &JobRun) -> Value {
    let JobId { namespace, uid, .. } = &run.job;
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names::job(&run.job, run.run_id),
            "namespace": namespace.workloads().as_str(),
            "labels": labels::of_owner(&run.job.key(), uid),
        },
        "immutable": true,
        "data": {EVENT_FILE: run.event},
    })
}
