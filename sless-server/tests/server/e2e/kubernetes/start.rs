//! Settings that lead to no cluster stop the start, by name.

use std::{path::Path, process::Command};

use super::super::{
    place::{Backend, Place, cluster::kubectl},
    process::{DEADLINE, command},
};

/// Starts a server that must not start, and answers what it says.
async fn refused(mut serve: Command) -> String {
    serve.env("SLESS_LISTEN", "127.0.0.1:0");
    let ending = tokio::task::spawn_blocking(move || serve.output().unwrap());
    let ended = tokio::time::timeout(DEADLINE, ending)
        .await
        .expect("it ends");
    let ended = ended.unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success(), "{told}");
    told
}

fn serve(data: &Path, settings: &[(&str, &str)]) -> Command {
    let mut serve = command(Some(data), ["serve"]);
    serve
        .env("SLESS_BACKEND", "kubernetes")
        .envs(settings.iter().copied());
    serve
}

/// What every cluster needs.
fn always(data: &Path) -> [(&'static str, String); 2] {
    let key = data.join("key").display().to_string();
    [
        ("REGISTRY_HOST", "registry.example.com".to_owned()),
        ("SLESS_HS256_KEY_FILE", key),
    ]
}

#[tokio::test]
async fn what_a_cluster_needs_is_named_before_anything_is_opened() {
    let data = tempfile::tempdir().unwrap();
    let told = refused(serve(data.path(), &[])).await;
    for named in [
        "REGISTRY_HOST is missing: it is needed since SLESS_BACKEND is kubernetes",
        "SLESS_HS256_KEY_FILE is missing",
    ] {
        assert!(told.contains(named), "{named} not in {told}");
    }
    let mut apart = serve(data.path(), &[("SLESS_ROLES", "operator")]);
    apart.envs(always(data.path()));
    let told = refused(apart).await;
    assert!(told.contains("S3_BUCKET is missing"), "{told}");
    for (name, value, expected) in [
        (
            "REGISTRY_HOST",
            "https://registry.example.com",
            "without http://",
        ),
        ("REGISTRY_HOST", "registry", "expected a registry such as"),
        ("SLESS_CALLER_CIDRS", "10.0.0.0/33", "no block of addresses"),
        (
            "SLESS_NAMESPACE_PREFIX",
            "A_",
            "expected the beginning of a namespace",
        ),
        ("SLESS_LEASE_TTL", "1s", "at least 2s"),
        (
            "SLESS_RUNTIME_VERSIONS",
            "python3.11=latest",
            "not `latest`",
        ),
        (
            "SLESS_RUNTIME_VERSIONS",
            "python3.11",
            "a runtime and a tag",
        ),
        ("INGRESS_HOST", "http://x", "expected a host name"),
    ] {
        let mut wrong = serve(data.path(), &[]);
        wrong.envs(always(data.path())).env(name, value);
        let told = refused(wrong).await;
        let start = format!("{name} is `{value}` (from the environment): ");
        assert!(told.contains(&start) && told.contains(expected), "{told}");
    }
}

#[tokio::test]
async fn a_kubeconfig_that_leads_nowhere_is_named() {
    let data = tempfile::tempdir().unwrap();
    let with = |settings: &[(&str, &str)]| {
        let mut serve = serve(data.path(), settings);
        serve.envs(always(data.path()));
        serve
    };
    let told = refused(with(&[("KUBECONFIG", "/nowhere/config")])).await;
    assert!(told.contains("KUBECONFIG is /nowhere/config"), "{told}");
    let told = refused(with(&[])).await;
    assert!(told.contains("KUBECONFIG is not set"), "{told}");
    let nobody = data.path().join("config");
    let text = "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\ncurrent-context: a\n";
    std::fs::write(&nobody, text).unwrap();
    let nobody = nobody.to_str().unwrap();
    let told = refused(with(&[("KUBECONFIG", nobody)])).await;
    assert!(
        told.contains(nobody) && told.contains("cannot be reached"),
        "{told}"
    );
}

/// Without the definitions of the custom resources the server says what to do. The cluster of the tests has
/// them, so an API server of this test's own is asked.
#[tokio::test]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn custom_resources_that_are_not_installed_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/kubernetes");
    let state = folder.path().join("state");
    let up = Command::new(scripts.join("control-plane"))
        .arg(&state)
        .arg(std::process::id().to_string())
        .output()
        .unwrap();
    assert!(
        up.status.success(),
        "{}",
        String::from_utf8_lossy(&up.stderr)
    );
    let lines = String::from_utf8(up.stdout).unwrap();
    let mut kubeconfig = lines
        .lines()
        .filter_map(|line| line.strip_prefix("SLESS_TEST_KUBECONFIG="));
    let kubeconfig = kubeconfig.next().unwrap();
    let mut bare = serve(folder.path(), &[("KUBECONFIG", kubeconfig)]);
    bare.envs(always(folder.path()));
    let told = refused(bare).await;
    let down = Command::new(scripts.join("down"))
        .arg(&state)
        .status()
        .unwrap();
    assert!(told.contains("kubectl apply -f deploy/crds"), "{told}");
    assert!(down.success());
}

/// A server that looks after some namespaces leaves the others alone.
#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn other_namespaces_are_left_alone() {
    let place = Place::new(Backend::Kubernetes).await;
    let machine = place.start().await;
    let denied = machine
        .client
        .ensure_namespace("e2f-elsewhere")
        .await
        .unwrap_err();
    let denied = denied.api().unwrap();
    assert_eq!(
        (denied.status, denied.code.as_str()),
        (403, "namespace_prefix")
    );
    let there = kubectl(&["get", "namespace", "e2f-elsewhere"], "");
    assert!(!there.status.success(), "none was made");
    machine.stop().await;

    // Nor does it make the namespace that it keeps its leases in.
    let mut nowhere = serve(place.data(), &[]);
    nowhere.envs(place.settings().iter().cloned());
    nowhere.env("SLESS_SYSTEM_NAMESPACE", "e2f-elsewhere");
    let told = refused(nowhere).await;
    assert!(
        told.contains("SLESS_SYSTEM_NAMESPACE is e2f-elsewhere, which is not there"),
        "{told}"
    );
}
