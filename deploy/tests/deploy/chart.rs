//! What can be set in the chart, and what is refused.

use crate::tool::{folder, helm, helm_with, template};

#[test]
#[ignore = "needs helm: testing/kubernetes/up"]
fn the_chart_has_no_faults() {
    let chart = folder("helm/sless").display().to_string();
    let said = helm(&["lint", "--strict", &chart]);
    assert!(said.contains("0 chart(s) failed"), "{said}");
}

#[test]
#[ignore = "needs helm: testing/kubernetes/up"]
fn settings_reach_the_pods() {
    let rendered = template(
        "blue",
        &[
            "--set",
            "settings.REGISTRY_HOST=registry.example.com/sless",
            "--set",
            "settings.S3_CREATE_BUCKET=true",
            "--set",
            "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
            "--set",
            "api.replicas=5",
            "--set",
            "ingress.enabled=true,ingress.host=functions.example.com,ingress.tlsSecret=cert",
            "--set",
            "secrets.existing=mine",
        ],
    );
    // A release of another name is another installation, with names of its own.
    let settings = rendered
        .find("ConfigMap", "blue-sless-settings")
        .expect("it");
    assert_eq!(
        settings["data"]["REGISTRY_HOST"],
        "registry.example.com/sless"
    );
    assert_eq!(settings["data"]["S3_CREATE_BUCKET"], "true");
    let api = rendered.find("Deployment", "blue-sless-api").expect("it");
    assert_eq!(api["spec"]["replicas"], 5);
    let container = &api["spec"]["template"]["spec"]["containers"][0];
    let image = container["image"].as_str().expect("an image");
    assert!(image.starts_with("sless-server@sha256:00"), "{image}");
    assert_eq!(
        container["envFrom"][0]["configMapRef"]["name"],
        "blue-sless-settings"
    );
    assert_eq!(container["envFrom"][1]["secretRef"]["name"], "mine");
    let ingress = rendered.find("Ingress", "blue-sless").expect("it");
    assert_eq!(ingress["spec"]["rules"][0]["host"], "functions.example.com");
    let service = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"];
    assert!(
        rendered
            .find("Service", service["name"].as_str().expect("a name"))
            .is_some()
    );
    for binding in rendered.of_kind("ClusterRoleBinding") {
        let role = binding["roleRef"]["name"].as_str().expect("a name");
        assert!(rendered.find("ClusterRole", role).is_some(), "{role}");
        let account = binding["subjects"][0]["name"].as_str().expect("a name");
        assert!(
            rendered.find("ServiceAccount", account).is_some(),
            "{account}"
        );
    }
    // Changed settings are a rollout.
    let sum = |rendered: &sless_deploy::Objects, name: &str| {
        let deployment = rendered.find("Deployment", name).expect("it");
        deployment["spec"]["template"]["metadata"]["annotations"]["checksum/settings"].clone()
    };
    let other = template(
        "blue",
        &["--set", "settings.REGISTRY_HOST=other.example.com"],
    );
    assert_ne!(
        sum(&rendered, "blue-sless-api"),
        sum(&other, "blue-sless-api")
    );
}

#[test]
#[ignore = "needs helm: testing/kubernetes/up"]
fn values_that_cannot_be_meant_are_refused() {
    for (wrong, named) in [
        ("replicas=3", "replicas"),
        ("api.replicas=many", "replicas"),
        ("image.tag=latest", "tag"),
        ("image.digest=sha256:1", "digest"),
        ("settings.S3_SECRET_KEY=hunter2", "S3_SECRET_KEY"),
        ("settings.registry_host=a", "registry_host"),
        ("service.type=Something", "type"),
        ("networkPolicy.egressExcept[0]=everywhere", "egressExcept"),
        ("tmpSize=big", "tmpSize"),
    ] {
        let chart = folder("helm/sless").display().to_string();
        let output = helm_with(&["template", "sless", &chart, "--set", wrong]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{wrong} was taken");
        assert!(said.contains(named), "{wrong}: {said}");
    }
}
