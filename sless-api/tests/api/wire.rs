//! What stands on the wire, to the letter.

use serde_json::{Value, json};
use sless_api::*;

fn function() -> Function {
    Function {
        name: "hello".into(),
        namespace: "sless-0123456789abcdef".into(),
        runtime: "python3.11".into(),
        entrypoint: "handler.handle".into(),
        env: [("A", "1")].into_iter().collect(),
        replicas: None,
        max_replicas: Some(3),
        timeout_seconds: 60,
        memory: None,
        cpu: None,
        concurrency: 4,
        idle_seconds: Some(0),
        phase: FunctionPhase::Ready,
        reason: None,
        message: None,
        code_sha256: Some("ab".into()),
        s3_key: Some("contexts/n/hello/1.tar.gz".into()),
        url: "http://127.0.0.1:8080/fn/sless-0123456789abcdef/hello".into(),
        image: None,
        last_built_at: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        ready_replicas: 1,
        verdict: None,
        created_at: "2026-01-02T03:04:05.5Z".parse().unwrap(),
    }
}

#[test]
fn a_function_has_every_field_of_the_contract() {
    let value = serde_json::to_value(function()).unwrap();
    let expected = json!({
        "name": "hello",
        "namespace": "sless-0123456789abcdef",
        "runtime": "python3.11",
        "entrypoint": "handler.handle",
        "env": {"A": "1"},
        "replicas": null,
        "max_replicas": 3,
        "timeout_seconds": 60,
        "memory": null,
        "cpu": null,
        "concurrency": 4,
        "idle_seconds": 0,
        "phase": "Ready",
        "reason": null,
        "message": null,
        "code_sha256": "ab",
        "s3_key": "contexts/n/hello/1.tar.gz",
        "url": "http://127.0.0.1:8080/fn/sless-0123456789abcdef/hello",
        "image": null,
        "last_built_at": "2026-01-02T03:04:05Z",
        "ready_replicas": 1,
        "verdict": null,
        "created_at": "2026-01-02T03:04:05.5Z",
    });
    assert_eq!(value, expected);
}

#[test]
fn an_answer_with_a_field_of_a_newer_server_is_read() {
    let mut value = serde_json::to_value(function()).unwrap();
    value["colour"] = json!("blue");
    let body = value.to_string();
    assert_eq!(from_json::<Function>(body.as_bytes()).unwrap(), function());
}

#[test]
fn an_answer_of_a_server_without_the_newest_fields_is_read() {
    let mut value = serde_json::to_value(function()).unwrap();
    for field in ["max_replicas", "idle_seconds", "verdict"] {
        value.as_object_mut().unwrap().remove(field);
    }
    let read = from_json::<Function>(value.to_string().as_bytes()).unwrap();
    let expected = Function {
        max_replicas: None,
        idle_seconds: None,
        ..function()
    };
    assert_eq!(read, expected);
}

#[test]
fn a_list_is_items_and_next() {
    let page = Page {
        items: vec![1],
        next: None,
    };
    let value = serde_json::to_value(&page).unwrap();
    assert_eq!(value, json!({"items": [1], "next": null}));
}

#[test]
fn words_are_those_of_the_contract() {
    let word = |value: Value| value.as_str().unwrap().to_owned();
    let phases = [
        FunctionPhase::Pending,
        FunctionPhase::Building,
        FunctionPhase::Ready,
        FunctionPhase::Failed,
        FunctionPhase::Stopped,
    ];
    let phases = phases.map(|phase| word(serde_json::to_value(phase).unwrap()));
    assert_eq!(
        phases,
        ["Pending", "Building", "Ready", "Failed", "Stopped"]
    );
    let jobs = [
        JobPhase::Pending,
        JobPhase::Running,
        JobPhase::Succeeded,
        JobPhase::Failed,
        JobPhase::Skipped,
    ];
    let jobs = jobs.map(|phase| word(serde_json::to_value(phase).unwrap()));
    assert_eq!(
        jobs,
        ["Pending", "Running", "Succeeded", "Failed", "Skipped"]
    );
    let kinds = [TriggerType::Http, TriggerType::Cron, TriggerType::Event];
    let kinds = kinds.map(|kind| word(serde_json::to_value(kind).unwrap()));
    assert_eq!(kinds, ["http", "cron", "event"]);
}

#[test]
fn ensure_and_errors_are_flat() {
    let ensured = Ensured {
        namespace: "n".into(),
        status: EnsuredStatus::Created,
    };
    assert_eq!(
        serde_json::to_value(ensured).unwrap(),
        json!({"namespace": "n", "status": "created"})
    );
    assert_eq!(
        serde_json::to_value(ErrorBody::new("not_found", "no such function")).unwrap(),
        json!({"error": "no such function", "code": "not_found"})
    );
}

#[test]
fn every_request_refuses_an_unknown_field_by_name() {
    fn refuses<T: serde::de::DeserializeOwned + std::fmt::Debug>(mut body: Value) {
        from_json::<T>(body.to_string().as_bytes()).unwrap();
        body["surprise"] = json!(1);
        let error = from_json::<T>(body.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.field(), "surprise", "{body}");
    }
    refuses::<CreateFunction>(json!({"name": "a", "runtime": "nodejs20"}));
    refuses::<PatchFunction>(json!({}));
    refuses::<CreateTrigger>(json!({"name": "a", "type": "http", "function_ref": "f"}));
    refuses::<PatchTrigger>(json!({"enabled": false}));
    refuses::<CreateJob>(json!({"name": "a", "function_ref": "f"}));
    refuses::<PatchJob>(json!({"run_id": 2}));
    refuses::<Redrive>(json!({}));
}

#[test]
fn a_trigger_is_read_as_the_contract_writes_it() {
    let body = json!({
        "name": "orders",
        "type": "event",
        "function_ref": "hello",
        "enabled": true,
        "queue": "orders",
        "delivery": {
            "max_attempts": 5,
            "min_backoff": "1s",
            "max_backoff": "1m",
            "in_flight": 4,
            "prefetch": 8,
        },
    });
    let trigger: CreateTrigger = from_json(body.to_string().as_bytes()).unwrap();
    let delivery = trigger.delivery.as_ref().unwrap();
    assert_eq!(delivery.max_backoff.unwrap().0.as_secs(), 60);
    assert_eq!(serde_json::to_value(&trigger).unwrap(), body);
}
