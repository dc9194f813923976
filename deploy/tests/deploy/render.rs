//! Kustomize and Helm install the same.

use std::fs;

use sless_deploy::Objects;

use crate::{
    cluster::relative,
    tool::{folder, kustomize, template},
};

fn compare(kustomized: &Objects, templated: &Objects) {
    let (kustomized, templated) = (kustomized.normalized(), templated.normalized());
    let ids = |objects: &Objects| -> Vec<_> { objects.iter().map(|(id, _)| id.clone()).collect() };
    assert_eq!(ids(&kustomized), ids(&templated), "kustomize, then helm");
    for ((id, one), (_, other)) in kustomized.iter().zip(templated.iter()) {
        assert!(
            one == other,
            "{id} differs; kustomize:\n{one:#}\nhelm:\n{other:#}"
        );
    }
}

#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn kustomize_and_helm_render_the_same() {
    let base = kustomize(&folder("kustomize/base"));
    assert!(base.iter().count() > 20, "all of it");
    compare(&base, &template("sless", &[]));
    compare(
        &kustomize(&folder("kustomize/one")),
        &template("sless", &["--set", "one=true"]),
    );
}

#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn further_rights_are_the_same_too() {
    let place = tempfile::tempdir().expect("a folder");
    let named = |path: &str| relative(place.path(), &folder(path)).display().to_string();
    let text = format!(
        "kind: Kustomization\nresources: [{}]\ncomponents: [{}, {}]\n",
        named("kustomize/base"),
        named("kustomize/components/cron-jobs"),
        named("kustomize/components/keda"),
    );
    fs::write(place.path().join("kustomization.yaml"), text).expect("a file");
    compare(
        &kustomize(place.path()),
        &template("sless", &["--set", "cronJobs=true,keda=true"]),
    );
}

#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn both_bring_the_same_custom_resources() {
    let kustomized = kustomize(&folder("crds")).normalized();
    let rendered = template("sless", &["--include-crds"]).normalized();
    let templated: Vec<_> = rendered.of_kind("CustomResourceDefinition").collect();
    assert_eq!(templated.len(), 3);
    let kustomized: Vec<_> = kustomized.iter().map(|(_, object)| object).collect();
    assert_eq!(kustomized, templated);
}

#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn the_example_names_an_image_a_registry_and_a_store() {
    let example = kustomize(&folder("kustomize/example")).normalized();
    let settings = example.find("ConfigMap", "sless-settings").expect("it");
    for name in [
        "REGISTRY_HOST",
        "S3_BUCKET",
        "EXTERNAL_URL",
        "SLESS_BACKEND",
    ] {
        assert!(settings["data"][name].is_string(), "{name}: {settings:#}");
    }
    for deployment in example.of_kind("Deployment") {
        let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
        let image = image.as_str().expect("an image");
        assert!(image.starts_with("registry.example.com/"), "{image}");
        assert!(!image.ends_with("latest"), "{image}");
    }
    let cluster = kustomize(&folder("kustomize/cluster"));
    let namespace = cluster.find("Namespace", "sless-system").expect("it");
    let enforced = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(enforced, "restricted");
}

/// What every Deployment has, in whichever way it is installed.
#[test]
#[ignore = "needs kubectl and helm: testing/kubernetes/up"]
fn pods_are_confined_and_looked_after() {
    let all = kustomize(&folder("kustomize/base"));
    let deployments: Vec<_> = all.of_kind("Deployment").collect();
    assert_eq!(deployments.len(), 3);
    for deployment in deployments {
        let name = deployment["metadata"]["name"].as_str().expect("a name");
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(pod["serviceAccountName"], name);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
            assert!(container[probe]["httpGet"]["path"].is_string(), "{probe}");
        }
        let resources = &container["resources"];
        assert!(resources["requests"]["cpu"].is_string(), "{resources}");
        assert!(resources["limits"]["memory"].is_string(), "{resources}");
        assert!(all.find("PodDisruptionBudget", name).is_some(), "{name}");
        assert!(all.find("ServiceAccount", name).is_some(), "{name}");
        let selected = &deployment["spec"]["selector"]["matchLabels"];
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        assert_eq!(selected, labels);
        let budget = all.find("PodDisruptionBudget", name).expect("it");
        assert_eq!(&budget["spec"]["selector"]["matchLabels"], labels);
    }
    // What functions carry, and what the scheduler removes by: nothing of sless itself does.
    for (id, object) in all.iter() {
        let label = &object["metadata"]["labels"]["app.kubernetes.io/managed-by"];
        assert_ne!(label, "sless", "{id}");
    }
}
