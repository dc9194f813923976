//! The pod of a function or a job.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Map, Value, json};
use sless_core::{Language, Quantity, Workload};

use crate::{
    SchedulerConfig,
    scheduler::{config::PodConfig, failure::CONTAINER},
};

/// The name of the port that functions answer at.
pub(super) const PORT: &str = "http";
/// The port that functions answer at.
pub(in crate::scheduler) const PORT_NUMBER: u16 = 8080;
/// Where Kubernetes reads how a container ended.
const TERMINATION_FILE: &str = "/dev/termination-log";

/// What a pod runs.
pub(super) enum Command {
    Serve,
    /// One event. It is in the environment, or in a file where it is long.
    Once {
        timeout: Duration,
        request_id: String,
        event: Option<String>,
        event_map: Option<String>,
    },
}

/// A pod's `spec`.
pub(super) fn spec(config: &SchedulerConfig, workload: &Workload, command: &Command) -> Value {
    let pods = &config.pods;
    let drain = config.drain(workload.timeout);
    let serving = matches!(command, Command::Serve);
    let mut container = json!({
        "name": CONTAINER,
        "image": workload.artifact.reference,
        "imagePullPolicy": "IfNotPresent",
        "args": [if serving { "serve" } else { "once" }],
        "env": environment(config, workload, command),
        "resources": resources(pods, workload),
        "terminationMessagePath": TERMINATION_FILE,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": confined(),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    });
    let mut volumes = vec![json!({"name": "tmp", "emptyDir": {"sizeLimit": pods.tmp.as_str()}})];
    let mut fields = Map::new();
    match command {
        Command::Serve => {
            container["ports"] =
                json!([{"name": PORT, "containerPort": PORT_NUMBER, "protocol": "TCP"}]);
            let probe = |path: &str, seconds: u32, times: u32| {
                json!({
                    "httpGet": {"path": path, "port": PORT, "scheme": "HTTP"},
                    "periodSeconds": seconds,
                    "timeoutSeconds": 5,
                    "failureThreshold": times,
                })
            };
            container["readinessProbe"] = probe("/_sless/readyz", pods.ready_seconds, 2);
            container["livenessProbe"] = probe("/_sless/healthz", pods.live_seconds, 3);
            let notice = config.notice_seconds();
            if notice > 0 {
                container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": notice}}});
            }
            // Beside draining, the runtime ends its worker.
            let grace = notice + drain.as_secs().max(1) + 5;
            fields.insert("terminationGracePeriodSeconds".to_owned(), json!(grace));
            fields.insert("restartPolicy".to_owned(), json!("Always"));
        }
        Command::Once { event_map, .. } => {
            if let Some(name) = event_map {
                volumes.push(json!({"name": "event", "configMap": {"name": name}}));
                if let Value::Array(mounts) = &mut container["volumeMounts"] {
                    mounts.push(
                        json!({"name": "event", "mountPath": EVENT_FOLDER, "readOnly": true}),
                    );
                }
            }
            fields.insert("terminationGracePeriodSeconds".to_owned(), json!(5));
            fields.insert("restartPolicy".to_owned(), json!("Never"));
        }
    }
    let mut spec = json!({
        "containers": [container],
        "volumes": volumes,
        "serviceAccountName": pods.service_account,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": nobody(pods),
    });
    if let Value::Object(spec) = &mut spec {
        spec.append(&mut fields);
        add(spec, pods);
    }
    spec
}

/// What a container may not, at the *restricted* level.
pub(super) fn confined() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    })
}

/// Who a pod runs as.
pub(super) fn nobody(pods: &PodConfig) -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": pods.user,
        "runAsGroup": pods.user,
        "fsGroup": pods.user,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// Where the file with a long event is.
const EVENT_FOLDER: &str = "/etc/sless";
/// Its name there.
pub(super) const EVENT_FILE: &str = "event.json";

/// What the settings add to every pod.
pub(super) fn add(spec: &mut Map<String, Value>, pods: &PodConfig) {
    if !pods.image_pull_secrets.is_empty() {
        let names = pods
            .image_pull_secrets
            .iter()
            .map(|name| json!({"name": name}));
        spec.insert("imagePullSecrets".to_owned(), names.collect());
    }
    if !pods.node_selector.is_empty() {
        spec.insert("nodeSelector".to_owned(), json!(pods.node_selector));
    }
    if !pods.tolerations.is_empty() {
        spec.insert("tolerations".to_owned(), json!(pods.tolerations));
    }
    if let Some(class) = &pods.runtime_class {
        spec.insert("runtimeClassName".to_owned(), json!(class));
    }
    if let Some(class) = &pods.priority_class {
        spec.insert("priorityClassName".to_owned(), json!(class));
    }
}

fn resources(pods: &PodConfig, workload: &Workload) -> Value {
    let memory = workload.memory.as_ref().unwrap_or(&pods.memory);
    let cpu = workload.cpu.as_ref().unwrap_or(&pods.cpu);
    let part = |milli: u64, percent: u64| (milli / 100 * percent.clamp(1, 100)).max(1);
    // Whole bytes and thousandths of a core, as the API server writes them.
    let memory_part = part(memory.value(), pods.memory_request_percent);
    let cpu_part = part(cpu.milli(), pods.cpu_request_percent);
    json!({
        "limits": {"memory": amount(memory), "cpu": amount(cpu)},
        "requests": {"memory": memory_part.to_string(), "cpu": format!("{cpu_part}m")},
    })
}

/// An amount as it was written.
fn amount(quantity: &Quantity) -> String {
    quantity.as_str().to_owned()
}

/// The environment: first the entrypoint, then everything else by name.
fn environment(config: &SchedulerConfig, workload: &Workload, command: &Command) -> Vec<Value> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    // The runtime's own names are not the function's to set; it would not see them either.
    let own = workload
        .env
        .iter()
        .filter(|(name, _)| !name.starts_with("SLESS_"));
    for (name, value) in own {
        // Kubernetes reads `$(NAME)` in values, and `$$` as an escaped `$`.
        all.insert(name.clone(), value.replace('$', "$$"));
    }
    let seconds = |time: Duration| format!("{}", time.as_secs_f64());
    let function = &workload.function;
    let language = match workload.runtime.language() {
        Language::Python => "python",
        _ => "node",
    };
    let mut set = |name: &str, value: String| {
        all.insert(format!("SLESS_{name}"), value.replace('$', "$$"));
    };
    set("LANGUAGE", language.to_owned());
    set("NAMESPACE", function.namespace.to_string());
    set("FUNCTION", function.name.to_string());
    set("UID", function.uid.to_string());
    set("CONCURRENCY", workload.concurrency.to_string());
    set("QUEUE_LENGTH", config.queue_length.to_string());
    set("START_TIMEOUT", seconds(config.start()));
    set("MAX_REQUEST_BODY_BYTES", config.request_bytes.to_string());
    set("TERMINATION_FILE", TERMINATION_FILE.to_owned());
    match command {
        Command::Serve => {
            set("TIMEOUT", seconds(workload.timeout));
            set("LISTEN", format!("0.0.0.0:{PORT_NUMBER}"));
            set("DRAIN_TIMEOUT", seconds(config.drain(workload.timeout)));
            set("EXIT_WHEN_FAILING", "yes".to_owned());
            if config.ingress.is_some() {
                set("BASE_PATH", super::workload::base_path(function));
            }
        }
        Command::Once {
            timeout,
            request_id,
            event,
            event_map,
        } => {
            set("TIMEOUT", seconds(*timeout));
            set("REQUEST_ID", request_id.clone());
            let limit = sless_core::RunStatus::RESULT_BYTES_MAX;
            set("MAX_RESULT_BYTES", limit.to_string());
            if let Some(event) = event {
                set("EVENT", event.clone());
            }
            if event_map.is_some() {
                set("EVENT_FILE", format!("{EVENT_FOLDER}/{EVENT_FILE}"));
            }
        }
    }
    let entrypoint = (
        "SLESS_ENTRYPOINT".to_owned(),
        workload.entrypoint.to_string(),
    );
    std::iter::once(entrypoint)
        .chain(all)
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}
