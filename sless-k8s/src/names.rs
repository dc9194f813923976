//! Names of what is made for a resource, in the namespace of its workloads.
//!
//! One user's workloads share a namespace, so a resource's name tells them apart; the prefix keeps kinds
//! apart and makes a name that begins with a digit a DNS-1035 label, as Services want it.

use sless_core::{Name, derived};

/// The longest name of an object whose name becomes a DNS label or a label's value.
pub(crate) const LABEL_MAX: usize = 63;
/// The longest name of a CronJob: 11 characters go to the time in its Jobs' names.
pub(crate) const CRON_JOB_MAX: usize = 52;

/// Of a function's Deployment, Service, policy and Ingress.
pub(crate) fn function(name: &Name) -> String {
    derived(&["fn", name.as_str()], LABEL_MAX)
}

/// Of the Job of one run.
pub(crate) fn job(name: &Name, run_id: i64) -> String {
    derived(&["job", name.as_str(), &run_id.to_string()], LABEL_MAX)
}

/// Of a trigger's CronJob.
pub(crate) fn cron(name: &Name) -> String {
    derived(&["cron", name.as_str()], CRON_JOB_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        let long = |last: &str| Name::new(format!("{}{last}", "9".repeat(62))).expect("a label");
        for name in [long("a"), long("b"), Name::new("0").expect("a label")] {
            assert!(function(&name).len() <= 63 && function(&name).starts_with("fn-"));
            assert!(job(&name, i64::MAX).len() <= 63);
            assert!(cron(&name).len() <= 52);
        }
        assert_ne!(function(&long("a")), function(&long("b")));
        assert_ne!(job(&long("a"), 1), job(&long("a"), 2));
        assert_ne!(cron(&long("a")), cron(&long("b")));
    }
}
