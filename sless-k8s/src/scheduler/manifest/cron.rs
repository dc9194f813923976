//! The CronJob of a trigger: it calls the URL of its function, as everybody else does.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sless_core::{
    CronTrigger, Failure, Namespace,
    cron::{MissedRunPolicy, OverlapPolicy, Schedule},
};

use super::{
    network::{self, CRON_POLICY},
    pod,
};
use crate::{
    SchedulerConfig, labels, names,
    scheduler::config::{CronJobConfig, NetworkConfig},
};

/// The kind that the labels of CronJobs and their pods name.
const KIND: &str = "Trigger";
/// The least that Kubernetes keeps: it looks at CronJobs every ten seconds.
const DEADLINE_SECONDS_MIN: u64 = 20;
/// How much longer than its call a run may take: it has to find a place and its image.
const START_SECONDS: u64 = 600;

/// The CronJob, or why Kubernetes cannot keep its schedule.
pub(in crate::scheduler) fn cron_job(
    config: &SchedulerConfig,
    jobs: &CronJobConfig,
    cron: &CronTrigger,
) -> Result<Value, Failure> {
    let trigger = &cron.trigger;
    let labels = labels::of_owner(&trigger.key(), &trigger.uid);
    let schedule = schedule(&cron.schedule)?;
    let missed = match cron.policies.missed_runs {
        MissedRunPolicy::Skip => cron.policies.on_time_within,
        _ => cron.policies.missed_deadline,
    };
    let overlap = match cron.policies.overlap {
        OverlapPolicy::Allow => "Allow",
        _ => "Forbid",
    };
    let timeout = cron.timeout.as_secs().max(1);
    let mut pod = json!({
        "containers": [container(jobs, cron, timeout)],
        "restartPolicy": "Never",
        "serviceAccountName": config.pods.service_account,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pod::nobody(&config.pods),
    });
    if let Value::Object(pod) = &mut pod {
        pod::add(pod, &config.pods);
    }
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": names::cron(trigger),
            "namespace": trigger.namespace.workloads().as_str(),
            "labels": labels,
        },
        "spec": {
            "schedule": schedule,
            "timeZone": cron.schedule.time_zone(),
            "suspend": cron.suspended,
            "concurrencyPolicy": overlap,
            "startingDeadlineSeconds": missed.as_secs().max(DEADLINE_SECONDS_MIN),
            "successfulJobsHistoryLimit": jobs.kept,
            "failedJobsHistoryLimit": jobs.kept,
            "jobTemplate": {
                "metadata": {"labels": labels},
                "spec": {
                    "backoffLimit": 0,
                    "activeDeadlineSeconds": timeout + START_SECONDS,
                    "template": {"metadata": {"labels": labels}, "spec": pod},
                },
            },
        },
    }))
}

fn container(jobs: &CronJobConfig, cron: &CronTrigger, timeout: u64) -> Value {
    let trigger = &cron.trigger;
    let url = jobs.url.trim_end_matches('/');
    let url = format!("{url}/fn/{}/{}", trigger.namespace, cron.function);
    // Kubernetes puts the name of the run there, which ends in the minute that it is for.
    let event = json!({
        "type": "cron", "trigger": trigger.name.as_str(), "cause": "due", "run": "$(SLESS_RUN)",
    });
    json!({
        "name": "call",
        "image": jobs.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["curl"],
        "args": [
            "--silent", "--show-error", "--fail", "--output", "/dev/null",
            "--max-time", timeout.to_string(),
            "--header", "content-type: application/json",
            "--data-raw", event.to_string(),
            url,
        ],
        "env": [{
            "name": "SLESS_RUN",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}},
        }],
        "resources": {
            "limits": {"memory": jobs.memory.as_str(), "cpu": jobs.cpu.as_str()},
            "requests": {"memory": jobs.memory.as_str(), "cpu": "10m"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": pod::confined(),
    })
}

/// The policy of the pods that call: to sless, and nowhere else beyond what functions may.
pub(in crate::scheduler) fn cron_policy(config: &NetworkConfig, namespace: &Namespace) -> Value {
    let mut egress: Vec<Value> = network::dns(config).into_iter().collect();
    let sless = network::callers(config);
    if !sless.is_empty() {
        egress.push(json!({"to": sless}));
    }
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": CRON_POLICY,
            "namespace": namespace.workloads().as_str(),
            "labels": {labels::MANAGED_BY: labels::MANAGER, labels::NAMESPACE: namespace.as_str()},
        },
        "spec": {
            "podSelector": {"matchLabels": {labels::MANAGED_BY: labels::MANAGER, labels::KIND: KIND}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [],
            "egress": egress,
        },
    })
}

/// The schedule in the words of Kubernetes, which differ from POSIX in two things: Sunday is 0 only, and a
/// day field that begins with `*` and has a step counts as one that says something.
fn schedule(schedule: &Schedule) -> Result<String, Failure> {
    let normal = schedule.to_string();
    let fields: Vec<&str> = normal.split(' ').collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(Failure::new("cron_unsupported", "it has not five fields"));
    };
    let says = |field: &str| field != "*" && field != "*/1";
    if says(day) && says(weekday) && (day.starts_with('*') || weekday.starts_with('*')) {
        let message = format!(
            "schedule \"{normal}\": Kubernetes would fire on days that match one of day of month and day of week, \
             where it means both; leave one of them \"*\", or write the days out"
        );
        return Err(Failure::new("cron_unsupported", message));
    }
    let weekday = weekdays(weekday);
    Ok(format!("{minute} {hour} {day} {month} {weekday}"))
}

/// Days of the week with Sunday as 0, as a list where 7 stands somewhere.
fn weekdays(field: &str) -> String {
    if !field.contains('7') {
        return field.to_owned();
    }
    let mut days = [false; 7];
    for part in field.split(',') {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let open = range == "*" || part.contains('/') && !range.contains('-');
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().ok();
        let from = number(from).unwrap_or(0);
        let to = if open { 7 } else { number(to).unwrap_or(7) };
        for day in (from..=to).step_by(number(step).unwrap_or(1).max(1)) {
            days[day % 7] = true;
        }
    }
    let mut list = String::new();
    for day in (0..7).filter(|day| days[*day]) {
        let comma = if list.is_empty() { "" } else { "," };
        // Writing into a string does not fail.
        let _ = write!(list, "{comma}{day}");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(text: &str) -> Result<String, Failure> {
        schedule(&Schedule::parse(text, None).expect("a schedule"))
    }

    #[test]
    fn schedules_mean_the_same_or_are_refused() {
        for (text, expected) in [
            ("*/5 * * * *", "*/5 * * * *"),
            ("@weekly", "0 0 * * 0"),
            ("0 0 * * 7", "0 0 * * 0"),
            ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
            ("0 0 * * 1,7", "0 0 * * 0,1"),
            ("0 0 * * 1-7/2", "0 0 * * 0,1,3,5"),
            ("7 7 7 7 *", "7 7 7 7 *"),
            ("0 0 */2 * *", "0 0 */2 * *"),
            ("0 0 1 * 1", "0 0 1 * 1"),
        ] {
            assert_eq!(converted(text).expect(text), expected, "{text}");
        }
        for text in ["0 0 */2 * 1", "0 0 1 * */2"] {
            let failure = converted(text).expect_err(text);
            assert_eq!(failure.reason, "cron_unsupported");
        }
    }
}
