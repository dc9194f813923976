//! Why something does not run: out of pods, Deployments and refusals, in the words of statuses.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::Value;
use sless_core::{Failure, reason};

/// The longest sentence of Kubernetes that is passed on, in characters.
const SENTENCE_CHARS: usize = 1_000;

/// Reasons of Kubernetes that mean that an image cannot be had.
const IMAGE: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// Words of the runtime for what starting again cannot change.
const HOPELESS: [&str; 5] = [
    reason::HANDLER_IMPORT,
    reason::HANDLER_MISSING,
    reason::HANDLER_SIGNATURE,
    "interpreter_missing",
    "config",
];

/// The name of the one container of our pods.
pub(super) const CONTAINER: &str = "function";
/// Its name where the pod builds an image.
pub(crate) const BUILD_CONTAINER: &str = "build";

/// How often a container may end until it counts as one that cannot run.
const RESTARTS: i32 = 2;

/// Why a pod is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) failure: Failure,
    /// Whether it stays so as long as nobody changes anything.
    pub(crate) lasting: bool,
}

impl Trouble {
    fn lasting(word: &'static str, message: impl Into<String>) -> Self {
        Self {
            failure: Failure::new(word, message),
            lasting: true,
        }
    }

    fn passing(word: &'static str, message: impl Into<String>) -> Self {
        Self {
            failure: Failure::new(word, message),
            lasting: false,
        }
    }
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) exit_code: i32,
    pub(crate) out_of_memory: bool,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// What it said at its end.
    pub(crate) message: String,
}

impl Ended {
    fn of(state: &ContainerStateTerminated) -> Self {
        Self {
            exit_code: state.exit_code,
            out_of_memory: state.reason.as_deref() == Some("OOMKilled"),
            started_at: state.started_at.as_ref().and_then(timestamp),
            finished_at: state.finished_at.as_ref().and_then(timestamp),
            message: state.message.clone().unwrap_or_default(),
        }
    }

    /// What the runtime says of its end: one JSON object.
    pub(super) fn said(&self) -> Option<Value> {
        serde_json::from_str(&self.message)
            .ok()
            .filter(Value::is_object)
    }

    /// The end of the log, out of what Kubernetes took for it where the runtime said nothing.
    pub(crate) fn log(&self) -> String {
        if let Some(said) = self.said() {
            return said["log_tail"].as_str().unwrap_or_default().to_owned();
        }
        let text = |line: &str| match serde_json::from_str::<Value>(line) {
            Ok(record) => record["text"].as_str().unwrap_or(line).to_owned(),
            Err(_) => line.to_owned(),
        };
        self.message
            .lines()
            .map(text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Why it ended.
    pub(crate) fn failure(&self) -> Failure {
        if self.out_of_memory {
            let message = "it took more memory than its limit";
            return Failure::new(reason::OUT_OF_MEMORY, message).with_log(&self.log());
        }
        match self.said() {
            Some(said) => {
                let word = said["reason"].as_str().unwrap_or("crash").to_owned();
                let message = said["message"].as_str().unwrap_or("it ended").to_owned();
                Failure::new(word, message).with_log(&self.log())
            }
            None => {
                let message = format!("its process ended with code {}", self.exit_code);
                Failure::new("crash", message).with_log(&self.log())
            }
        }
    }
}

/// The one container of our pods.
pub(crate) fn container(pod: &Pod) -> Option<&ContainerStatus> {
    let all = pod.status.as_ref()?.container_statuses.as_ref()?;
    all.iter()
        .find(|container| [CONTAINER, BUILD_CONTAINER].contains(&&*container.name))
}

/// How the container ended, where it has ended now.
pub(crate) fn ended(pod: &Pod) -> Option<Ended> {
    let state = container(pod)?.state.as_ref()?;
    state.terminated.as_ref().map(Ended::of)
}

/// Why a pod that should be ready is not.
pub(crate) fn of_pod(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    if status.reason.as_deref() == Some("Evicted") {
        return Some(Trouble::passing(
            "evicted",
            sentence(status.message.as_deref()),
        ));
    }
    let Some(container) = container(pod) else {
        return unscheduled(pod);
    };
    let state = container.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let word = waiting
        .and_then(|waiting| waiting.reason.as_deref())
        .unwrap_or_default();
    let said = || sentence(waiting.and_then(|waiting| waiting.message.as_deref()));
    if IMAGE.contains(&word) {
        return Some(Trouble::lasting(reason::IMAGE_PULL, said()));
    }
    let now = state.and_then(|state| state.terminated.as_ref());
    let before = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    if let Some(ended) = now
        .or(before)
        .map(Ended::of)
        .filter(|ended| ended.exit_code != 0)
    {
        let again = word == "CrashLoopBackOff" || container.restart_count >= RESTARTS;
        let mut failure = ended.failure();
        let lasting = again || HOPELESS.contains(&&*failure.reason);
        if again && failure.reason == "crash" {
            failure.reason = reason::CRASH_LOOP.into();
            failure.message = format!(
                "it ended again and again after its start: {}",
                failure.message
            );
        }
        return Some(Trouble { failure, lasting });
    }
    match word {
        "" | "ContainerCreating" | "PodInitializing" | "CrashLoopBackOff" => None,
        _ => Some(Trouble::lasting(
            "container_start",
            format!("{word}: {}", said()),
        )),
    }
}

fn unscheduled(pod: &Pod) -> Option<Trouble> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let found = conditions
        .iter()
        .find(|condition| condition.type_ == "PodScheduled")?;
    let nowhere = found.status == "False" && found.reason.as_deref() == Some("Unschedulable");
    nowhere.then(|| Trouble::passing("unschedulable", sentence(found.message.as_deref())))
}

/// Why pods could not be made, out of what a controller says of it.
pub(crate) fn of_refusal(message: &str) -> Failure {
    let word = if message.contains("exceeded quota") {
        reason::QUOTA
    } else if message.contains("forbidden") || message.contains("denied the request") {
        reason::ADMISSION_DENIED
    } else {
        "pod_create"
    };
    Failure::new(word, sentence(Some(message)))
}

fn sentence(text: Option<&str>) -> String {
    let text = text
        .filter(|text| !text.is_empty())
        .unwrap_or("Kubernetes does not say why");
    text.chars().take(SENTENCE_CHARS).collect()
}

/// The bindings' time as ours.
pub(crate) fn timestamp(time: &Time) -> Option<Timestamp> {
    Timestamp::from_nanosecond(time.0.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(container: Value) -> Pod {
        let mut container = container;
        container["name"] = json!("function");
        for (field, value) in [
            ("image", json!("")),
            ("imageID", json!("")),
            ("ready", json!(false)),
        ] {
            container[field] = value;
        }
        if container.get("restartCount").is_none() {
            container["restartCount"] = json!(0);
        }
        serde_json::from_value(json!({"status": {"containerStatuses": [container]}}))
            .expect("a pod")
    }

    fn seen(container: Value) -> Option<(String, bool)> {
        of_pod(&pod(container))
            .map(|trouble| (trouble.failure.reason.into_owned(), trouble.lasting))
    }

    #[test]
    fn reasons_are_found() {
        let import = r#"{"outcome":"not_started","reason":"handler_import","message":"no x","log_tail":"a\nb"}"#;
        let ended = |code: i32, reason: &str, message: &str| json!({"exitCode": code, "reason": reason, "message": message});
        for (container, expected) in [
            (
                json!({"state": {"waiting": {"reason": "ImagePullBackOff"}}}),
                Some(("image_pull", true)),
            ),
            (
                json!({"state": {"waiting": {"reason": "ContainerCreating"}}}),
                None,
            ),
            (
                json!({"state": {"waiting": {"reason": "CreateContainerConfigError"}}}),
                Some(("container_start", true)),
            ),
            (
                json!({"state": {"terminated": ended(3, "Error", import)}}),
                Some(("handler_import", true)),
            ),
            (
                json!({"state": {"terminated": ended(137, "OOMKilled", "")}}),
                Some(("out_of_memory", false)),
            ),
            (
                json!({"state": {"terminated": ended(1, "Error", "x")}}),
                Some(("crash", false)),
            ),
            (
                json!({"restartCount": 3, "state": {"running": {}}, "lastState": {"terminated": ended(1, "Error", "x")}}),
                Some(("crash_loop", true)),
            ),
            (
                json!({"state": {"terminated": ended(0, "Completed", "")}}),
                None,
            ),
            (json!({"state": {"running": {}}}), None),
        ] {
            let expected = expected.map(|(word, lasting): (&str, bool)| (word.to_owned(), lasting));
            assert_eq!(seen(container.clone()), expected, "{container}");
        }
        let pod = pod(json!({"state": {"terminated": ended(3, "Error", import)}}));
        let trouble = of_pod(&pod).expect("trouble");
        assert_eq!(trouble.failure.log_tail, "a\nb");
    }

    #[test]
    fn refusals_are_told_apart() {
        for (message, word) in [
            (
                "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1",
                "quota",
            ),
            (
                "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\"",
                "admission_denied",
            ),
            (
                "admission webhook \"x\" denied the request: no",
                "admission_denied",
            ),
            ("Internal error", "pod_create"),
        ] {
            assert_eq!(of_refusal(message).reason, word, "{message}");
        }
    }
}
