//! Namespaces: made once, with what they are to have, and never deleted.

use std::{fs, path::Path};

use serde_json::Value;
use sless_core::{Catalog as _, Ensured, ErrorKind, Namespace, Uid};
use sless_k8s::{Cluster, KubeCatalog};

use super::plane::Plane;

fn fresh() -> Namespace {
    Namespace::new(format!("t-{}", &Uid::random().as_str()[..8])).expect("a label")
}

async fn catalog() -> KubeCatalog {
    let mut config = Plane::shared().config();
    let labels = &mut config.namespaces.labels;
    labels.insert("team".to_owned(), "a".to_owned());
    let quota = &mut config.namespaces.resource_quota;
    quota.insert("count/functions.sless.io".to_owned(), "7".to_owned());
    KubeCatalog::new(Cluster::connect(config).await.expect("a kubeconfig"))
}

fn read(arguments: &[&str]) -> Value {
    let all = [arguments, &["-o", "json"]].concat();
    serde_json::from_str(&Plane::shared().run(&all, "")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_namespace_gets_what_the_settings_say() {
    let (catalog, namespace) = (catalog().await, fresh());
    let ensured = catalog.ensure_namespace(&namespace).await.expect("made");
    assert_eq!(ensured, Ensured::Created);
    let made = read(&["get", "namespace", namespace.as_str()]);
    let labels = &made["metadata"]["labels"];
    assert_eq!(labels["team"], "a");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "sless");
    assert_eq!(
        made["metadata"]["annotations"]["sless.io/furnished"],
        "true"
    );
    let quota = read(&["-n", namespace.as_str(), "get", "resourcequota", "sless"]);
    assert_eq!(quota["spec"]["hard"]["count/functions.sless.io"], "7");
    // Asking again writes nothing.
    let again = catalog.ensure_namespace(&namespace).await.expect("there");
    assert_eq!(again, Ensured::Exists);
    let same = read(&["get", "namespace", namespace.as_str()]);
    assert_eq!(
        same["metadata"]["resourceVersion"],
        made["metadata"]["resourceVersion"]
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn what_a_crash_left_unfinished_is_finished() {
    let (catalog, namespace) = (catalog().await, fresh());
    let plane = Plane::shared();
    // As it is between two requests.
    plane.run(&["create", "namespace", namespace.as_str()], "");
    let unfinished = [
        "annotate",
        "namespace",
        namespace.as_str(),
        "sless.io/furnished=false",
    ];
    plane.run(&unfinished, "");
    let ours = [
        "label",
        "namespace",
        namespace.as_str(),
        "app.kubernetes.io/managed-by=sless",
    ];
    plane.run(&ours, "");
    let ensured = catalog
        .ensure_namespace(&namespace)
        .await
        .expect("finished");
    assert_eq!(ensured, Ensured::Exists);
    read(&["-n", namespace.as_str(), "get", "resourcequota", "sless"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_namespace_of_somebody_else_stays_as_it_is() {
    let (catalog, namespace) = (catalog().await, fresh());
    let plane = Plane::shared();
    plane.run(&["create", "namespace", namespace.as_str()], "");
    let before = read(&["get", "namespace", namespace.as_str()]);
    let ensured = catalog.ensure_namespace(&namespace).await.expect("there");
    assert_eq!(ensured, Ensured::Exists);
    assert_eq!(read(&["get", "namespace", namespace.as_str()]), before);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_namespace_that_is_being_deleted_is_told() {
    let (catalog, namespace) = (catalog().await, fresh());
    catalog.ensure_namespace(&namespace).await.expect("made");
    // Nothing finishes the deletion here: there is no controller of namespaces.
    Plane::shared().run(
        &["delete", "namespace", namespace.as_str(), "--wait=false"],
        "",
    );
    let told = catalog
        .ensure_namespace(&namespace)
        .await
        .expect_err("told");
    assert_eq!(
        (told.kind(), told.reason()),
        (ErrorKind::Unavailable, "namespace_terminating")
    );
    let metadata =
        sless_core::Metadata::new(namespace, sless_core::Name::new("f").expect("a label"));
    let spec = sless_core::FunctionSpec::new(sless_core::Runtime::Python311);
    let function = sless_core::Function::new(metadata, spec);
    let told = catalog.create(function.into()).await.expect_err("told");
    assert_eq!(
        (told.kind(), told.reason()),
        (ErrorKind::Unavailable, "namespace_terminating")
    );
}

/// The sources of this crate name the kind in one file only, and that one has no way to delete anything.
#[test]
fn no_code_deletes_a_namespace() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut makers) = (0, Vec::new());
    let mut left = vec![folder];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).expect("readable");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&path).expect("text");
        let kind = [
            "core::v1::Namespace",
            "Namespace as KubeNamespace",
            "/api/v1/namespaces",
        ];
        if kind.iter().any(|kind| text.contains(kind)) {
            makers.push(path.file_name().expect("a name").to_owned());
            assert!(
                !text.to_lowercase().contains(".delete"),
                "{} deletes",
                path.display()
            );
        }
    }
    assert!(files > 10, "the sources are there");
    assert_eq!(makers, ["namespaces.rs"]);
}
