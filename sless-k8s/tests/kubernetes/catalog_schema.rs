//! The custom resources against the types of the core: the same fields and defaults.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;
use sless_core::{
    Artifact, ArtifactKind, Catalog, Digest, Function, FunctionJob, FunctionPhase, FunctionSpec,
    JobPhase, JobSpec, Metadata, Name, Namespace, Object, Runtime, Trigger, TriggerSpec,
    resource::{
        Condition, DeliveryOptions, EventCounts, FunctionStatus, JobStatus, QueueDeclare,
        TriggerStatus, Verification,
    },
};
use sless_k8s::{KubeCatalog, crd_manifests};

use super::plane::{Plane, manifests};

#[test]
fn the_manifests_are_those_of_the_types() {
    for (name, manifest) in crd_manifests() {
        let file = std::fs::read_to_string(manifests().join(&name)).expect("it is there");
        assert!(
            file == manifest,
            "deploy/crds/{name} is not what the types say: cargo run -p sless-k8s --example crds"
        );
    }
}

fn conditions() -> Vec<Condition> {
    let mut all = Vec::new();
    Condition::set(&mut all, "Ready", Some(true), "", "", Timestamp::UNIX_EPOCH);
    Condition::set(
        &mut all,
        "Built",
        None,
        "word",
        "A sentence.",
        Timestamp::UNIX_EPOCH,
    );
    all
}

fn metadata(name: &str) -> Metadata {
    let namespace = Namespace::new("schema").expect("a label");
    Metadata::new(namespace, Name::new(name).expect("a label"))
}

/// One object of each kind in which every field differs from its default. A field that is added to the core
/// does not compile here until it is given a value, and is lost below until it is in the schema.
fn full() -> Vec<Object> {
    let at: Timestamp = "2026-01-02T03:04:05.678901Z".parse().expect("a time");
    let digest = Digest::of("x");
    let function = Function {
        metadata: metadata("full"),
        spec: FunctionSpec {
            runtime: Runtime::NodeJs20,
            entrypoint: "a.b-c.d".parse().expect("an entrypoint"),
            env: BTreeMap::from([("A".to_owned(), "b\nc".to_owned())]),
            s3_key: Some("contexts/a".to_owned()),
            code_sha256: Some(digest),
            replicas: Some(0),
            max_replicas: Some(1000),
            timeout_seconds: 3600,
            memory: Some("1.5Gi".parse().expect("a quantity")),
            cpu: Some("500m".parse().expect("a quantity")),
            concurrency: 1000,
            idle_seconds: Some(u32::MAX),
        },
        status: FunctionStatus {
            phase: FunctionPhase::Failed,
            reason: "word".to_owned(),
            message: "A sentence.".to_owned(),
            artifact: Some(Artifact {
                kind: ArtifactKind::Image,
                reference: "registry/x@sha256:0".to_owned(),
                digest,
            }),
            last_built_at: Some(at),
            observed_generation: 3,
            ready_replicas: 4,
            serving: Some(digest),
            verification: Some(Verification {
                digest,
                verdict: "unsafe".to_owned(),
                reason: "why".to_owned(),
                by: "who".to_owned(),
                at,
            }),
            conditions: conditions(),
        },
    };
    let status = TriggerStatus {
        active: true,
        observed_generation: 3,
        url: Some("https://example.com".to_owned()),
        ledger: Some(
            serde_json::from_value(json!({
                "lastFireAt": at, "accountedUntil": at, "running": [at], "interrupted": [at],
                "fired": 1, "failed": 2, "skipped": 3, "missed": 4,
            }))
            .expect("a ledger"),
        ),
        next_fire_at: Some(at),
        connected: Some(false),
        counts: EventCounts {
            delivered: 1,
            failed: 2,
            dead_lettered: 3,
        },
        reason: "word".to_owned(),
        message: "A sentence.".to_owned(),
        conditions: conditions(),
    };
    let cron = Trigger {
        metadata: metadata("full-cron"),
        spec: TriggerSpec {
            enabled: false,
            time_zone: Some("Europe/Berlin".to_owned()),
            policies: Some(
                serde_json::from_value(json!({
                    "missedRuns": "skip", "missedDeadlineSeconds": 1, "overlap": "allow", "maxRunning": 2,
                    "onTimeWithinSeconds": 3,
                }))
                .expect("policies"),
            ),
            ..TriggerSpec::cron(Name::new("f").expect("a label"), "0 9 * * mon-fri")
        },
        status: status.clone(),
    };
    let event = Trigger {
        metadata: metadata("full-event"),
        spec: TriggerSpec {
            queue_declare: Some(QueueDeclare::Never),
            delivery: Some(DeliveryOptions {
                max_attempts: 2,
                min_backoff_ms: 3,
                max_backoff_ms: 4,
                in_flight: 5,
                prefetch: 6,
            }),
            ..TriggerSpec::event(Name::new("f").expect("a label"), "q")
        },
        status,
    };
    let job = FunctionJob {
        metadata: metadata("full"),
        spec: JobSpec {
            function_ref: Name::new("f").expect("a label"),
            event_json: Some("{\"a\": 1}".to_owned()),
            run_id: i64::MAX,
        },
        status: JobStatus {
            phase: JobPhase::Succeeded,
            run_id: 7,
            observed_generation: 8,
            started_at: Some(at),
            finished_at: Some(at),
            reason: "word".to_owned(),
            message: "A sentence.".to_owned(),
            result: Some("null".to_owned()),
            conditions: conditions(),
        },
    };
    vec![function.into(), cron.into(), event.into(), job.into()]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn every_field_is_kept() {
    let catalog = KubeCatalog::new(Plane::shared().cluster().await);
    let namespace = Namespace::new("schema").expect("a label");
    catalog.ensure_namespace(&namespace).await.expect("made");
    for wanted in full() {
        let mut stored = catalog.create(wanted.clone()).await.expect("created");
        assert!(stored.same_spec(&wanted), "{stored:?}");
        stored
            .take_status_of(wanted.clone())
            .expect("the same kind");
        let told = catalog.update_status(stored).await.expect("told");
        assert_eq!(told, catalog.get(&wanted.key()).await.expect("there"));
        assert!(told.same_status(&wanted), "{told:?}");
        // To the letter, too.
        let parts = |object: &Object| {
            let value = serde_json::to_value(object).expect("JSON");
            (value["spec"].clone(), value["status"].clone())
        };
        assert_eq!(parts(&told), parts(&wanted));
    }
}
