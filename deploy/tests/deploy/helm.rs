//! sless is installed, upgraded and removed by Helm.

use std::fs;

use serde_json::{Map, Value, json};

use crate::{
    cluster::{FUNCTION, Site},
    function,
    tool::{folder, helm, kubectl},
};

/// A file of values, which are JSON as well as YAML.
fn values(site: &Site) -> String {
    let settings: Map<String, Value> = site
        .settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
        .collect();
    let (repository, tag) = &site.image;
    let small = json!({
        "replicas": 2,
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
    });
    let values = json!({
        "image": {"repository": repository, "tag": tag},
        "settings": settings,
        "builds": {"namespace": site.name, "createNamespace": false},
        "api": small,
        "operator": small,
        "dispatcher": small,
    });
    let file = site.folder.path().join("values.json");
    fs::write(&file, values.to_string()).expect("a file");
    file.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes, helm, S3 and RabbitMQ: testing/*/up"]
async fn helm_installs_upgrades_and_leaves_what_it_made() {
    let site = Site::prepare("helm").await;
    let (values, chart) = (values(&site), folder("helm/sless").display().to_string());
    let release = site.name.clone();
    // The custom resources are there, as kubectl brought them.
    let install = [
        "install",
        &release,
        &chart,
        "-n",
        &site.name,
        "-f",
        &values,
        "--skip-crds",
    ];
    helm(&install);
    site.available().await;
    let url = site.url(&format!("{release}-sless"));
    site.serve(&url).await;
    let (upgraded, name) = (release.clone(), site.name.clone());
    let calls = site
        .under_load(&url, async move {
            let upgrade = tokio::task::spawn_blocking(move || {
                let more = "settings.SLESS_LOG=debug\\,hyper=info";
                helm(&[
                    "upgrade", &upgraded, &chart, "-n", &name, "-f", &values, "--set", more,
                ]);
                kubectl(&[
                    "-n",
                    &name,
                    "rollout",
                    "status",
                    "deployment",
                    "--timeout=180s",
                ]);
            });
            upgrade.await.expect("it is upgraded");
        })
        .await;
    assert!(calls > 20, "{calls} calls while it was upgraded");
    println!("{calls} calls during the upgrade, none failed");
    // The setting is in effect, and what was there before is there.
    let settings = [
        "-n",
        &site.name,
        "get",
        "configmap",
        "-o",
        "jsonpath={.items[*].data.SLESS_LOG}",
    ];
    assert_eq!(kubectl(&settings), "debug,hyper=info");
    function::ready(&site.client(&url), &site.user, FUNCTION).await;
    helm(&["uninstall", &release, "-n", &site.name, "--wait"]);
    site.still_there().await;
}
