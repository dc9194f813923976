//! Names of what is made for a resource, in the namespace of its workloads.
//!
//! One user's workloads share a namespace, so a resource's name tells them apart, and a hash of its uid
//! tells it from an earlier one of the same name, which may still be ending. The prefix keeps kinds apart
//! and makes a name that begins with a digit a DNS-1035 label, as Services want it.

use sless_core::{BuildId, Digest, FunctionId, JobId, Uid, derived, resource::TriggerId};

/// The longest name of an object whose name becomes a DNS label or a label's value.
pub(crate) const LABEL_MAX: usize = 63;
/// The longest name of a CronJob: 11 characters go to the time in its Jobs' names.
pub(crate) const CRON_JOB_MAX: usize = 52;
/// The longest name of a Deployment and of a Job whose pods are named after it in full.
const POD_OWNER_MAX: usize = 46;

/// Of a function's Deployment, Service and Ingress.
pub(crate) fn function(function: &FunctionId) -> String {
    derived(
        &["fn", function.name.as_str(), &short(&function.uid)],
        POD_OWNER_MAX,
    )
}

/// Of the Job of one run.
pub(crate) fn job(job: &JobId, run_id: i64) -> String {
    let run_id = run_id.to_string();
    derived(
        &["job", job.name.as_str(), &short(&job.uid), &run_id],
        LABEL_MAX,
    )
}

/// Of the Job of a build.
pub(crate) fn build(build: &BuildId) -> String {
    derived(
        &["build", build.function.name.as_str(), &build.short()],
        LABEL_MAX,
    )
}

/// Of a trigger's CronJob.
pub(crate) fn cron(trigger: &TriggerId) -> String {
    derived(
        &["cron", trigger.name.as_str(), &short(&trigger.uid)],
        CRON_JOB_MAX,
    )
}

fn short(uid: &Uid) -> String {
    Digest::of(uid.as_str()).hex()[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use sless_core::{Name, Namespace};

    use super::*;

    fn id(name: &str, uid: &str) -> FunctionId {
        FunctionId {
            namespace: Namespace::new("n").expect("a label"),
            name: Name::new(name).expect("a label"),
            uid: Uid::new(uid),
        }
    }

    fn job_of(id: &FunctionId) -> JobId {
        let FunctionId {
            namespace,
            name,
            uid,
        } = id.clone();
        JobId {
            namespace,
            name,
            uid,
        }
    }

    #[test]
    fn names_fit_and_differ() {
        let long = "9".repeat(62);
        let (a, b) = (id(&format!("{long}a"), "1"), id(&format!("{long}b"), "1"));
        let again = id(&format!("{long}a"), "2");
        for one in [&a, &b, &again, &id("0", "1")] {
            assert!(function(one).len() <= 46 && function(one).starts_with("fn-"));
            assert!(job(&job_of(one), i64::MAX).len() <= 63);
        }
        assert_ne!(function(&a), function(&b));
        assert_ne!(function(&a), function(&again));
        assert_ne!(job(&job_of(&a), 1), job(&job_of(&a), 2));
        assert_ne!(job(&job_of(&a), 1), job(&job_of(&again), 1));
    }
}
