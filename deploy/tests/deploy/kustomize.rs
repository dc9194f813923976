//! sless is installed by `kubectl apply -k`, works, and is removed.

use std::fs;

use crate::{
    cluster::{Site, relative},
    network,
    tool::{folder, kubectl},
};

/// An overlay as people write them: an image, settings, and names that no other installation has.
fn overlay(site: &Site, on: &str) -> String {
    let place = site.folder.path();
    let base = relative(place, &folder(on));
    let settings: String = site
        .settings
        .iter()
        .map(|(name, value)| format!("      - {name}={value}\n"))
        .collect();
    let (repository, tag) = &site.image;
    let text = format!(
        "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: {name}
namePrefix: {name}-
resources:
  - {base}
images:
  - name: sless-server
    newName: {repository}
    newTag: {tag}
configMapGenerator:
  - name: sless-settings
    namespace: sless-system
    behavior: merge
    literals:
{settings}patches:
  - target: {{kind: Deployment}}
    patch: '[{{\"op\": \"replace\", \"path\": \"/spec/template/spec/containers/0/resources/requests/cpu\", \"value\": \"10m\"}}]'
",
        name = site.name,
        base = base.display(),
    );
    fs::write(place.join("kustomization.yaml"), text).expect("a file");
    place.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes, S3 and RabbitMQ: testing/*/up"]
async fn kubectl_installs_it_and_leaves_what_it_made() {
    let site = Site::prepare("kustomize").await;
    let overlay = overlay(&site, "kustomize/base");
    kubectl(&["apply", "-k", &overlay]);
    site.available().await;
    let url = site.url(&format!("{}-sless", site.name));
    site.serve(&url).await;
    network::strangers_reach_the_api_only(&site, &url).await;
    // All roles at once, which is more than an update does.
    let (name, restarting) = (site.name.clone(), site.name.clone());
    let calls = site
        .under_load(&url, async move {
            let restarted = tokio::task::spawn_blocking(move || {
                kubectl(&["-n", &restarting, "rollout", "restart", "deployment"]);
                let status = [
                    "-n",
                    &name,
                    "rollout",
                    "status",
                    "deployment",
                    "--timeout=180s",
                ];
                kubectl(&status);
            });
            restarted.await.expect("it is restarted");
        })
        .await;
    assert!(calls > 20, "{calls} calls while it was restarted");
    println!("{calls} calls while all roles were restarted, none failed");
    kubectl(&["delete", "-k", &overlay]);
    site.still_there().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes, S3 and RabbitMQ: testing/*/up"]
async fn one_deployment_does_it_all() {
    let site = Site::prepare("one").await;
    let overlay = overlay(&site, "kustomize/one");
    kubectl(&["apply", "-k", &overlay]);
    site.available().await;
    site.serve(&site.url(&format!("{}-sless", site.name))).await;
    kubectl(&["delete", "-k", &overlay]);
    site.still_there().await;
}
