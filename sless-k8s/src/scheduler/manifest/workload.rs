//! Deployment and Ingress of a function.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use sless_core::{FunctionId, Workload};

use super::pod::{self, Command, PORT};
use crate::{
    SchedulerConfig, labels, names,
    scheduler::{annotation, config::IngressConfig},
};

/// The labels that the pods of a function are found by.
pub(super) fn selector(function: &FunctionId) -> BTreeMap<String, String> {
    let mut all = labels::of_owner(&function.key(), &function.uid);
    all.retain(|name, _| name == labels::KIND || name == labels::UID);
    all
}

/// The Deployment, without the number of copies.
pub(in crate::scheduler) fn deployment(
    config: &SchedulerConfig,
    workload: &Workload,
    restarted_at: Timestamp,
) -> Value {
    let function = &workload.function;
    let labels = labels::of_owner(&function.key(), &function.uid);
    let idle = workload.idle.map_or(config.idle_ms, |idle| {
        u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)
    });
    let revision = workload.revision().to_string();
    let most = workload.max_replicas.max(workload.replicas);
    // Beyond the handler's own time, the pod has to find a place and its image.
    let deadline = config.start().as_secs() + 600;
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names::function(function),
            "namespace": function.namespace.workloads().as_str(),
            "labels": labels,
            "annotations": {
                annotation::REVISION: revision,
                annotation::GENERATION: workload.generation.to_string(),
                annotation::REPLICAS: workload.replicas.to_string(),
                annotation::MAX_REPLICAS: most.to_string(),
                annotation::CONCURRENCY: workload.concurrency.to_string(),
                annotation::IDLE: idle.to_string(),
            },
        },
        "spec": {
            "selector": {"matchLabels": selector(function)},
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": deadline,
            // A new pod is ready before an old one ends.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0},
            },
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        annotation::REVISION: revision,
                        annotation::RESTARTED_AT: restarted_at.to_string(),
                    },
                },
                "spec": pod::spec(config, workload, &Command::Serve),
            },
        },
    })
}

/// The path that a function is at, where no proxy of sless is in front of it.
pub(super) fn base_path(function: &FunctionId) -> String {
    format!("/fn/{}/{}", function.namespace, function.name)
}

/// The Ingress.
pub(in crate::scheduler) fn ingress(config: &IngressConfig, function: &FunctionId) -> Value {
    let name = names::function(function);
    let backend = json!({"service": {"name": name, "port": {"name": PORT}}});
    let path = json!({"path": base_path(function), "pathType": "Prefix", "backend": backend});
    let mut spec = json!({"rules": [{"host": config.host, "http": {"paths": [path]}}]});
    if let Some(class) = &config.class {
        spec["ingressClassName"] = json!(class);
    }
    if let Some(secret) = &config.tls_secret {
        spec["tls"] = json!([{"hosts": [config.host], "secretName": secret}]);
    }
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": name,
            "namespace": function.namespace.workloads().as_str(),
            "labels": labels::of_owner(&function.key(), &function.uid),
            "annotations": config.annotations,
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sless_core::{Artifact, ArtifactKind, Digest, Entrypoint, Name, Namespace, Runtime, Uid};

    use super::*;

    pub(crate) fn workload() -> Workload {
        Workload {
            function: FunctionId {
                namespace: Namespace::new("sless-x").expect("a label"),
                name: Name::new("0f").expect("a label"),
                uid: Uid::new("3b1c"),
            },
            generation: 3,
            artifact: Artifact {
                kind: ArtifactKind::Image,
                reference: format!("r.example/a@{}", Digest::of("a")),
                digest: Digest::of("a"),
            },
            runtime: Runtime::Python311,
            entrypoint: Entrypoint::default(),
            env: BTreeMap::from([
                ("Z".to_owned(), "$(PATH) $$ $x".to_owned()),
                ("A".to_owned(), "1".to_owned()),
                ("SLESS_LISTEN".to_owned(), "0.0.0.0:1".to_owned()),
            ]),
            replicas: 2,
            max_replicas: 2,
            timeout: Duration::from_secs(60),
            memory: None,
            cpu: None,
            concurrency: 1,
            idle: None,
            built_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_environment_is_sorted_behind_its_entrypoint() {
        let made = deployment(
            &SchedulerConfig::default(),
            &workload(),
            Timestamp::UNIX_EPOCH,
        );
        let env = &made["spec"]["template"]["spec"]["containers"][0]["env"];
        let names: Vec<_> = env
            .as_array()
            .expect("a list")
            .iter()
            .map(|set| &set["name"])
            .collect();
        assert_eq!(names[0], "SLESS_ENTRYPOINT");
        assert_eq!(names[1], "A");
        assert!(
            names[1..].is_sorted_by_key(|name| name.as_str()),
            "{names:?}"
        );
        let of = |wanted: &str| {
            let found = env
                .as_array()
                .expect("a list")
                .iter()
                .find(|set| set["name"] == wanted);
            found.expect(wanted)["value"].clone()
        };
        assert_eq!(of("Z"), "$$(PATH) $$$$ $$x");
        assert_eq!(of("SLESS_LISTEN"), "0.0.0.0:8080");
    }

    #[test]
    fn an_image_is_named_by_its_digest_and_a_rollout_by_its_build() {
        let built_at: Timestamp = "2026-01-02T03:04:05Z".parse().expect("a time");
        let made = deployment(&SchedulerConfig::default(), &workload(), built_at);
        let template = &made["spec"]["template"];
        let image = format!("r.example/a@{}", Digest::of("a"));
        assert_eq!(template["spec"]["containers"][0]["image"], image);
        let notes = &template["metadata"]["annotations"];
        assert_eq!(
            notes["kubectl.kubernetes.io/restartedAt"],
            "2026-01-02T03:04:05Z"
        );
    }

    #[test]
    fn a_pod_is_restricted() {
        let made = deployment(
            &SchedulerConfig::default(),
            &workload(),
            Timestamp::UNIX_EPOCH,
        );
        let pod = &made["spec"]["template"]["spec"];
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["resources"]["limits"]["memory"], "256Mi");
        assert_eq!(container["resources"]["requests"]["cpu"], "50m");
    }
}
