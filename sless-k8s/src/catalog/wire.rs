//! Objects as they stand in Kubernetes.

use serde_json::{Map, Value, json};
use sless_core::{Kind, Object, Runtime, TriggerType, resource::API_VERSION};

use super::diff::merge_patch;
use crate::error::Fault;

/// Stands for an empty reason of a condition, which Kubernetes does not allow.
const NO_REASON: &str = "AsExpected";

/// What `create` sends.
pub(super) fn write(object: &Object) -> Result<Value, Fault> {
    let Parts { metadata, spec, .. } = parts(object)?;
    let mut metadata = metadata;
    metadata.insert("name".to_owned(), json!(object.metadata().name));
    metadata.insert("namespace".to_owned(), json!(object.metadata().namespace));
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": object.kind(),
        "metadata": metadata,
        "spec": spec,
    }))
}

/// Reads what the API server answers.
///
/// An object that is being deleted is always read: where its spec cannot be, which is so when another version
/// of sless wrote it, a spec that wants nothing stands in its place. So its finalizer can end.
pub(super) fn read(kind: Kind, value: Value) -> Result<Object, Fault> {
    let deleting = value["metadata"]["deletionTimestamp"].is_string();
    let stripped = deleting.then(|| json!({"metadata": value["metadata"], "spec": nothing(kind)}));
    match (read_whole(kind, value), stripped) {
        (Err(_), Some(stripped)) => read_whole(kind, stripped),
        (read, _) => read,
    }
}

/// A spec for the sake of having one.
fn nothing(kind: Kind) -> Value {
    match kind {
        Kind::Function => json!({"runtime": Runtime::Python311, "replicas": 0}),
        // Taking a trigger of a queue apart takes apart what the other types have, too.
        Kind::Trigger => {
            json!({"type": TriggerType::Event, "functionRef": "unreadable", "enabled": false})
        }
        Kind::FunctionJob => json!({"functionRef": "unreadable"}),
    }
}

fn read_whole(kind: Kind, mut value: Value) -> Result<Object, Fault> {
    let given = value["metadata"].take();
    let mut metadata = Map::new();
    for (ours, theirs) in [
        ("name", "name"),
        ("namespace", "namespace"),
        ("uid", "uid"),
        ("version", "resourceVersion"),
        ("generation", "generation"),
        ("createdAt", "creationTimestamp"),
        ("deletedAt", "deletionTimestamp"),
        ("finalizers", "finalizers"),
        ("labels", "labels"),
        ("annotations", "annotations"),
    ] {
        if let Some(found) = given.get(theirs).filter(|found| !found.is_null()) {
            metadata.insert(ours.to_owned(), found.clone());
        }
    }
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!(kind));
    object.insert("metadata".to_owned(), Value::Object(metadata));
    object.insert("spec".to_owned(), without_nulls(value["spec"].take()));
    let mut status = without_nulls(value["status"].take());
    if !status.is_null() {
        rename_reasons(&mut status, NO_REASON, "");
        object.insert("status".to_owned(), status);
    }
    serde_json::from_value(Value::Object(object)).map_err(|source| Fault::Unreadable {
        what: "resource",
        source,
    })
}

/// What an update of one into the other sends, without the preconditions.
pub(super) fn patch(current: &Object, next: &Object) -> Result<Option<Value>, Fault> {
    let (current, next) = (parts(current)?, parts(next)?);
    let whole = |parts: Parts| json!({"metadata": parts.metadata, "spec": parts.spec});
    Ok(merge_patch(&whole(current), &whole(next)))
}

/// The same for the status.
pub(super) fn status_patch(current: &Object, next: &Object) -> Result<Option<Value>, Fault> {
    if next.same_status(current) {
        return Ok(None);
    }
    let (current, next) = (parts(current)?, parts(next)?);
    Ok(merge_patch(
        &json!({"status": current.status}),
        &json!({"status": next.status}),
    ))
}

/// How long the object is as JSON.
pub(super) fn bytes(object: &Object) -> Result<usize, Fault> {
    Ok(unwritable(serde_json::to_vec(object))?.len())
}

/// Makes the spec the same to the letter; it is the same in meaning already.
pub(super) fn take_spec(next: &mut Object, current: &Object) {
    match (next, current) {
        (Object::Function(next), Object::Function(current)) => next.spec = current.spec.clone(),
        (Object::Trigger(next), Object::Trigger(current)) => next.spec = current.spec.clone(),
        (Object::FunctionJob(next), Object::FunctionJob(current)) => {
            next.spec = current.spec.clone();
        }
        _ => {}
    }
}

/// An object that is gone: what it was last.
pub(super) fn gone(mut object: Object) -> Object {
    let created = object.metadata().created_at;
    let now = jiff::Timestamp::now();
    object
        .metadata_mut()
        .deleted_at
        .get_or_insert(now.max(created));
    object
}

struct Parts {
    metadata: Map<String, Value>,
    spec: Value,
    status: Value,
}

/// The parts of an object that are written here.
fn parts(object: &Object) -> Result<Parts, Fault> {
    let mut whole = unwritable(serde_json::to_value(object))?;
    let mut metadata = Map::new();
    for name in ["finalizers", "labels", "annotations"] {
        if let Some(found) = whole["metadata"].get_mut(name) {
            metadata.insert(name.to_owned(), found.take());
        }
    }
    let mut status = whole["status"].take();
    rename_reasons(&mut status, "", NO_REASON);
    Ok(Parts {
        metadata,
        spec: whole["spec"].take(),
        status,
    })
}

fn unwritable<T>(written: serde_json::Result<T>) -> Result<T, Fault> {
    written.map_err(|source| Fault::Unreadable {
        what: "resource",
        source,
    })
}

fn rename_reasons(status: &mut Value, from: &str, to: &str) {
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else {
        return;
    };
    for reason in conditions
        .iter_mut()
        .filter_map(|condition| condition.get_mut("reason"))
    {
        if reason == from {
            *reason = json!(to);
        }
    }
}

/// A field that is null means the same as one that is absent.
fn without_nulls(mut value: Value) -> Value {
    match &mut value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            for member in map.values_mut() {
                *member = without_nulls(member.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_nulls(item.take());
            }
        }
        _ => {}
    }
    value
}

#[cfg(test)]
mod tests {
    use sless_core::{
        Function, FunctionSpec, Metadata, Name, Namespace, Runtime, resource::Condition,
    };

    use super::*;

    fn function() -> Function {
        let metadata = Metadata::new(
            Namespace::new("n").expect("a label"),
            Name::new("f").expect("a label"),
        );
        Function::new(metadata, FunctionSpec::new(Runtime::Python311))
    }

    fn answer() -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": "Function",
            "metadata": {
                "name": "f", "namespace": "n", "uid": "u", "resourceVersion": "12", "generation": 3,
                "creationTimestamp": "2026-01-02T03:04:05Z", "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"runtime": "python3.11", "env": {}, "replicas": null, "unknown": {"kept": true}},
        })
    }

    #[test]
    fn what_kubernetes_answers_is_read() {
        let object = read(Kind::Function, answer()).expect("readable");
        let metadata = object.metadata();
        assert_eq!((metadata.version.as_str(), metadata.generation), ("12", 3));
        assert_eq!(metadata.created_at.to_string(), "2026-01-02T03:04:05Z");
        let Object::Function(function) = object else {
            panic!("another kind")
        };
        assert_eq!(function.spec, FunctionSpec::new(Runtime::Python311));
    }

    #[test]
    fn a_spec_that_is_none_is_corrupt() {
        let mut value = answer();
        value["spec"]["runtime"] = json!("cobol");
        let error = sless_core::Error::from(read(Kind::Function, value).expect_err("unreadable"));
        assert_eq!(error.kind(), sless_core::ErrorKind::Corrupt);
    }

    #[test]
    fn whatever_is_being_deleted_can_be_read() {
        for kind in Kind::ALL {
            let mut value = answer();
            value["spec"] = json!("nonsense");
            value["status"] = json!({"phase": 1, "active": "no"});
            assert!(read(kind, value.clone()).is_err());
            value["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:06Z");
            value["metadata"]["finalizers"] = json!(["sless.io/engine"]);
            let object = read(kind, value).expect("readable");
            assert!(object.metadata().is_deleting());
            let mut next = object.clone();
            next.metadata_mut().finalizers.clear();
            let patch = patch(&object, &next).expect("writable");
            assert_eq!(patch, Some(json!({"metadata": {"finalizers": null}})));
        }
    }

    #[test]
    fn a_patch_leaves_out_what_is_the_same() {
        let current = Object::from(function());
        let mut next = function();
        next.metadata.labels.insert("a".to_owned(), "b".to_owned());
        next.spec.replicas = Some(2);
        assert_eq!(
            patch(&current, &next.clone().into()).expect("writable"),
            Some(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 2}}))
        );
        assert_eq!(
            patch(&next.into(), &current).expect("writable"),
            Some(json!({"metadata": {"labels": null}, "spec": {"replicas": null}}))
        );
        assert_eq!(patch(&current, &current).expect("writable"), None);
    }

    #[test]
    fn a_condition_without_a_reason_gets_one_in_kubernetes() {
        let mut next = function();
        let now = jiff::Timestamp::UNIX_EPOCH;
        Condition::set(
            &mut next.status.conditions,
            "Ready",
            Some(true),
            "",
            "",
            now,
        );
        let current = Object::from(function());
        let next = Object::from(next);
        let patch = status_patch(&current, &next)
            .expect("writable")
            .expect("differs");
        assert_eq!(patch["status"]["conditions"][0]["reason"], NO_REASON);
        let mut value = answer();
        value["status"] = patch["status"].clone();
        let back = read(Kind::Function, value).expect("readable");
        assert!(back.same_status(&next));
    }
}
