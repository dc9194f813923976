//! What people do with kubectl, and what the engine makes of it: each sees the other's changes.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sless_core::{
    Backends, Catalog as _, CatalogExt as _, ErrorKind, Function, FunctionJob, Kind, ListQuery,
    Name, Namespace, ObjectKey, Sless, Trigger, Uid,
};
use sless_k8s::KubeCatalog;

use super::plane::{Plane, manifests};

fn name(text: &str) -> Name {
    Name::new(text).expect("a label")
}

/// A namespace of this test's own.
async fn namespace(catalog: &KubeCatalog) -> Namespace {
    let namespace = Namespace::new(format!("t-{}", &Uid::random().as_str()[..8])).expect("a label");
    catalog.ensure_namespace(&namespace).await.expect("made");
    namespace
}

async fn catalog(plane: &Plane) -> KubeCatalog {
    KubeCatalog::new(plane.cluster().await)
}

fn manifest(kind: &str, namespace: &Namespace, name: &str, spec: Value) -> String {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "sless.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
        .to_string()
}

/// Reads an object as kubectl prints it.
fn printed(plane: &Plane, namespace: &Namespace, what: &str) -> Value {
    let text = plane.run(&["-n", namespace.as_str(), "get", what, "-o", "json"], "");
    serde_json::from_str(&text).expect("JSON")
}

/// Polls until `look` gives something.
async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(60), looking).await;
    found.unwrap_or_else(|_| panic!("not within a minute: {what}"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn what_is_applied_is_as_good_as_what_is_created() {
    let plane = Plane::shared();
    let catalog = catalog(plane).await;
    let namespace = namespace(&catalog).await;
    let applied = manifest(
        "Function",
        &namespace,
        "hello",
        json!({"runtime": "python3.11"}),
    );
    plane.run(&["apply", "-f", "-"], &applied);
    let function: Function = catalog
        .read(&namespace, &name("hello"))
        .await
        .expect("there");
    assert_eq!(
        function.spec,
        sless_core::FunctionSpec::new(sless_core::Runtime::Python311)
    );
    // The defaults are stored, not only read.
    let seen = printed(plane, &namespace, "fn/hello");
    assert_eq!(seen["spec"]["timeoutSeconds"], 60);
    assert_eq!(seen["spec"]["entrypoint"], "handler.handle");

    // A change by the catalog is seen by kubectl, and a further apply keeps what it does not name.
    let change = |function: &mut Function| {
        function.spec.replicas = Some(3);
        Ok(())
    };
    let changed: Function = catalog
        .modify(&namespace, &name("hello"), change)
        .await
        .expect("changed");
    assert_eq!(changed.metadata.generation, 2);
    assert_eq!(
        printed(plane, &namespace, "fn/hello")["spec"]["replicas"],
        3
    );
    let applied = manifest(
        "Function",
        &namespace,
        "hello",
        json!({"runtime": "python3.11", "env": {"A": "b"}}),
    );
    plane.run(&["apply", "-f", "-"], &applied);
    let function: Function = catalog
        .read(&namespace, &name("hello"))
        .await
        .expect("there");
    assert_eq!(function.spec.replicas, Some(3));
    assert_eq!(function.spec.env["A"], "b");

    for (kind, name_of, spec) in [
        (
            "Trigger",
            "web",
            json!({"type": "http", "functionRef": "hello"}),
        ),
        ("FunctionJob", "once", json!({"functionRef": "hello"})),
    ] {
        plane.run(
            &["apply", "-f", "-"],
            &manifest(kind, &namespace, name_of, spec),
        );
    }
    let trigger: Trigger = catalog.read(&namespace, &name("web")).await.expect("there");
    assert!(trigger.spec.enabled);
    assert_eq!(
        printed(plane, &namespace, "trg/web")["spec"]["enabled"],
        true
    );
    let job: FunctionJob = catalog
        .read(&namespace, &name("once"))
        .await
        .expect("there");
    assert_eq!(job.spec.run_id, 0);
    assert_eq!(printed(plane, &namespace, "fnjob/once")["spec"]["runId"], 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn names_and_columns_are_those_of_the_contract() {
    let plane = Plane::shared();
    let catalog = catalog(plane).await;
    let namespace = namespace(&catalog).await;
    for (kind, short, spec, columns) in [
        (
            "Function",
            "fn",
            json!({"runtime": "nodejs20"}),
            "NAME RUNTIME PHASE READY REASON BUILT AGE",
        ),
        (
            "Trigger",
            "trg",
            json!({"type": "cron", "functionRef": "f", "schedule": "*/5 * * * *"}),
            "NAME TYPE FUNCTION ENABLED ACTIVE REASON NEXT AGE",
        ),
        (
            "FunctionJob",
            "fnjob",
            json!({"functionRef": "f", "runId": 1}),
            "NAME FUNCTION RUN PHASE REASON FINISHED AGE",
        ),
    ] {
        plane.run(
            &["apply", "-f", "-"],
            &manifest(kind, &namespace, "x", spec),
        );
        let table = plane.run(&["-n", namespace.as_str(), "get", short], "");
        let header: Vec<_> = table
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert_eq!(header.join(" "), columns);
    }
    let all = plane.run(
        &["-n", namespace.as_str(), "get", "sless", "-o", "name"],
        "",
    );
    assert_eq!(all.lines().count(), 3, "{all}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_delete_by_kubectl_waits_for_the_finalizer() {
    let plane = Plane::shared();
    let catalog = catalog(plane).await;
    let namespace = namespace(&catalog).await;
    let applied = manifest(
        "Function",
        &namespace,
        "held",
        json!({"runtime": "python3.11"}),
    );
    plane.run(&["apply", "-f", "-"], &applied);
    let key = ObjectKey::new(Kind::Function, namespace.clone(), name("held"));
    let mut object = catalog.get(&key).await.expect("there");
    object
        .metadata_mut()
        .finalizers
        .push("sless.io/test".to_owned());
    catalog.update(object).await.expect("held");
    let delete = [
        "-n",
        namespace.as_str(),
        "delete",
        "fn",
        "held",
        "--ignore-not-found",
    ];
    plane.run(&[&delete[..], &["--wait=false"]].concat(), "");
    let mut marked = catalog.get(&key).await.expect("still there");
    assert!(marked.metadata().is_deleting());
    let waiting = {
        let arguments: Vec<_> = delete.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            plane.kubectl(&arguments, "").status.success()
        })
    };
    marked.metadata_mut().finalizers.clear();
    catalog.update(marked).await.expect("let go");
    assert!(waiting.join().expect("ends"), "kubectl delete returns");
    let gone = catalog.get(&key).await.expect_err("gone");
    assert_eq!(gone.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn the_engine_tells_in_the_status_what_kubernetes_could_not_refuse() {
    // An engine looks at every namespace, so it gets an API server of its own.
    let plane = &Plane::start("refused");
    let catalog = Arc::new(catalog(plane).await);
    let namespace = namespace(&catalog).await;
    let backends = Backends {
        catalog: catalog.clone(),
        ..Backends::in_memory()
    };
    let sless = Sless::new(backends).expect("assembled");
    let big = "x".repeat(40 * 1024);
    for (kind, name_of, spec) in [
        (
            "Function",
            "big",
            json!({"runtime": "python3.11", "env": {"A": big, "B": big}}),
        ),
        (
            "Trigger",
            "never",
            json!({"type": "cron", "functionRef": "f", "schedule": "0 0 31 2 *"}),
        ),
        (
            "Trigger",
            "nowhere",
            json!({"type": "cron", "functionRef": "f", "schedule": "0 0 * * *", "timeZone": "Europe/Nowhere"}),
        ),
        (
            "FunctionJob",
            "cut",
            json!({"functionRef": "f", "runId": 1, "eventJSON": "{"}),
        ),
    ] {
        plane.run(
            &["create", "-f", "-"],
            &manifest(kind, &namespace, name_of, spec),
        );
    }
    let reason = async |what: &str| {
        eventually(what, async || {
            let reason = printed(plane, &namespace, what)["status"]["reason"].clone();
            reason.as_str().map(str::to_owned)
        })
        .await
    };
    assert_eq!(reason("fn/big").await, "limit_env_bytes");
    assert_eq!(
        printed(plane, &namespace, "fn/big")["status"]["phase"],
        "Failed"
    );
    assert_eq!(reason("trg/never").await, "cron_never_fires");
    assert_eq!(reason("trg/nowhere").await, "time_zone_unknown");
    assert_eq!(reason("fnjob/cut").await, "field_invalid");
    assert_eq!(
        printed(plane, &namespace, "fnjob/cut")["status"]["phase"],
        "Failed"
    );
    // And all of it can be deleted.
    for what in ["fn/big", "trg/never", "trg/nowhere", "fnjob/cut"] {
        plane.run(
            &["-n", namespace.as_str(), "delete", what, "--timeout=60s"],
            "",
        );
    }
    sless.shutdown().await;
    plane.down();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn the_engine_follows_kubectl() {
    let plane = &Plane::start("followed");
    let catalog = Arc::new(catalog(plane).await);
    let namespace = namespace(&catalog).await;
    let backends = Backends {
        catalog: catalog.clone(),
        ..Backends::in_memory()
    };
    let sless = Sless::new(backends).expect("assembled");
    let function = manifest(
        "Function",
        &namespace,
        "hello",
        json!({"runtime": "python3.11"}),
    );
    let trigger = json!({"type": "http", "functionRef": "hello"});
    plane.run(
        &["apply", "-f", "-"],
        &manifest("Trigger", &namespace, "web", trigger.clone()),
    );
    let active = async |wanted: bool, reason: &str| {
        eventually(&format!("active {wanted}, {reason:?}"), async || {
            let trigger: Trigger = catalog.read(&namespace, &name("web")).await.expect("there");
            let seen = (trigger.status.active, trigger.status.reason.as_str());
            (seen == (wanted, reason)).then_some(())
        })
        .await;
    };
    active(false, "function_missing").await;
    plane.run(&["apply", "-f", "-"], &function);
    active(true, "").await;
    // A condition can be waited for, and has a reason, as Kubernetes wants it.
    let wait = [
        "-n",
        namespace.as_str(),
        "wait",
        "--for=condition=Active",
        "--timeout=60s",
        "trg/web",
    ];
    plane.run(&wait, "");
    let seen = printed(plane, &namespace, "trg/web");
    assert_eq!(seen["status"]["conditions"][0]["reason"], "AsExpected");
    assert_eq!(
        seen["status"]["observedGeneration"],
        seen["metadata"]["generation"]
    );

    let mut disabled = trigger;
    disabled["enabled"] = json!(false);
    plane.run(
        &["apply", "-f", "-"],
        &manifest("Trigger", &namespace, "web", disabled),
    );
    active(false, "disabled").await;
    plane.run(
        &[
            "-n",
            namespace.as_str(),
            "delete",
            "trg/web",
            "fn/hello",
            "--timeout=60s",
        ],
        "",
    );
    sless.shutdown().await;
    plane.down();
}

/// What is stored under the rules of another time: read where it can be, left out where not, and always
/// deleted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn objects_of_another_version_are_left_in_peace() {
    let plane = Plane::start("versions");
    let catalog = catalog(&plane).await;
    let namespace = namespace(&catalog).await;
    // A version with another runtime, and with a field more.
    let file = std::fs::read_to_string(manifests().join("functions.yaml")).expect("the manifest");
    let other = file
        .replace("- nodejs20", "- nodejs20\n                - cobol")
        .replace(
            "              timeoutSeconds:",
            "              later:\n                type: string\n              timeoutSeconds:",
        );
    assert_ne!(file, other);
    plane.run(&["apply", "-f", "-"], &other);
    let known = json!({"runtime": "python3.11", "later": "kept"});
    let known = manifest("Function", &namespace, "known", known);
    // The API server takes a moment to serve the new schema.
    eventually("the field of another version is kept", async || {
        plane.run(&["apply", "-f", "-"], &known);
        let seen = printed(&plane, &namespace, "fn/known");
        (seen["spec"]["later"] == "kept").then_some(())
    })
    .await;
    let unknown = manifest(
        "Function",
        &namespace,
        "unknown",
        json!({"runtime": "cobol"}),
    );
    plane.run(&["apply", "-f", "-"], &unknown);

    // An update keeps the field that it does not know.
    let change = |function: &mut Function| {
        function.spec.replicas = Some(2);
        Ok(())
    };
    let changed: Function = catalog
        .modify(&namespace, &name("known"), change)
        .await
        .expect("changed");
    assert_eq!(changed.spec.replicas, Some(2));
    assert_eq!(
        printed(&plane, &namespace, "fn/known")["spec"]["later"],
        "kept"
    );

    let key = ObjectKey::new(Kind::Function, namespace.clone(), name("unknown"));
    let corrupt = catalog.get(&key).await.expect_err("unreadable");
    assert_eq!(corrupt.kind(), ErrorKind::Corrupt);
    let query = ListQuery::all(Kind::Function).in_namespace(namespace.clone());
    let listed = catalog.list(&query).await.expect("listed").items;
    assert_eq!(listed.len(), 1, "the one that can be read");
    // Back under the rules of today, both can go: also the one that no engine can read, although its
    // finalizer is the engine's.
    plane.install();
    let held = r#"{"metadata": {"finalizers": ["sless.io/engine"]}}"#;
    let here = ["-n", namespace.as_str()];
    plane.run(
        &[
            &here[..],
            &["patch", "fn/unknown", "--type=merge", "-p", held],
        ]
        .concat(),
        "",
    );
    let backends = Backends {
        catalog: Arc::new(catalog.clone()),
        ..Backends::in_memory()
    };
    let sless = Sless::new(backends).expect("assembled");
    let delete = ["delete", "fn/unknown", "fn/known", "--timeout=60s"];
    plane.run(&[&here[..], &delete[..]].concat(), "");
    sless.shutdown().await;
    plane.down();
}
