//! Who reaches sless over the network, tried from inside a pod.

use sless_core::Uid;

use crate::{
    cluster::Site,
    function::eventually,
    tool::{apply, kubectl, kubectl_with, variable},
};

/// Asks for an address, and ends well if it is answered.
const ASK: &str = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)";

/// A namespace that has nothing to do with sless.
struct Stranger(String);

impl Stranger {
    fn new() -> Self {
        let uid = Uid::random();
        let name = format!("dep-stranger-{}", &uid.as_str()[..6]);
        apply(&format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n"
        ));
        Self(name)
    }

    /// Whether a pod here is answered at an address.
    async fn reaches(&self, url: &str) -> bool {
        let uid = Uid::random();
        let pod = format!("ask-{}", &uid.as_str()[..6]);
        let image = format!("--image={}", variable("SLESS_TEST_IMAGE_PYTHON"));
        let (of, never) = (["-n", &self.0], "--restart=Never");
        let run = [
            &of[..],
            &[
                "run",
                &pod,
                &image,
                never,
                "--command",
                "--",
                "python3",
                "-c",
                ASK,
                url,
            ],
        ];
        kubectl(&run.concat());
        let phase = [
            &of[..],
            &["get", "pod", &pod, "-o", "jsonpath={.status.phase}"],
        ]
        .concat();
        eventually("the pod has asked", async || {
            match kubectl(&phase).as_str() {
                "Succeeded" => Ok(true),
                "Failed" => Ok(false),
                phase => Err(phase.to_owned()),
            }
        })
        .await
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = kubectl_with(&["delete", "namespace", "--wait=false", &self.0], "");
    }
}

/// Anybody calls the API; the other roles are for those who read metrics.
pub(crate) async fn strangers_reach_the_api_only(site: &Site, api: &str) {
    let address = |role: &str| {
        let selector = format!("app.kubernetes.io/component={role}");
        let path = "jsonpath={.items[0].status.podIP}";
        let ip = kubectl(&["-n", &site.name, "get", "pods", "-l", &selector, "-o", path]);
        format!("http://{ip}:8080/metrics")
    };
    let (operator, dispatcher) = (address("operator"), address("dispatcher"));
    let stranger = Stranger::new();
    assert!(stranger.reaches(&format!("{api}/healthz")).await);
    assert!(!stranger.reaches(&operator).await);
    assert!(!stranger.reaches(&dispatcher).await);
    kubectl(&["label", "namespace", &stranger.0, "sless.io/metrics=true"]);
    // Policies are brought to the nodes a little later.
    eventually("metrics can be read", async || {
        if stranger.reaches(&operator).await {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .await;
}
