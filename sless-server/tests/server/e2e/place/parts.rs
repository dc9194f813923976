//! What an administrator gives a server in a cluster beside the defaults: a place for builds that install
//! something, and an image with which the cluster fires schedules.

use std::{fs, net::TcpListener, time::Instant};

use serde_json::json;

use super::{
    super::process::{DEADLINE, LOOK},
    Place,
    ground::{kubectl, kubectl_prints, variable},
};

#[path = "../../../../../sless-k8s/tests/kubernetes/curl_image.rs"]
mod curl_image;

/// Settings with a place for builds.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The server is at this address, which pods reach.
    address: String,
    builds: String,
    image: String,
}

impl Drop for Parts {
    fn drop(&mut self) {
        let gone = ["delete", "namespace", &self.builds, "--wait=false"];
        let deleted = kubectl(&gone, "");
        assert!(deleted.status.success() || std::thread::panicking());
    }
}

impl Parts {
    /// Waits until nothing of a build is left: neither what ran, nor what it was given.
    pub(crate) async fn are_bare(&self) {
        let began = Instant::now();
        let get = ["get", "jobs,pods,secrets,configmaps", "-o", "name"];
        loop {
            let told = kubectl_prints(&[&get[..], &["-n", &self.builds]].concat(), "");
            let mut left = told
                .lines()
                .filter(|name| !name.ends_with("/kube-root-ca.crt"));
            let Some(first) = left.next() else { return };
            assert!(
                began.elapsed() < DEADLINE,
                "{first} is left in {}",
                self.builds
            );
            tokio::time::sleep(LOOK * 10).await;
        }
    }
}

/// An address of this machine that pods reach, and that nothing uses: not one of those that the system gives
/// to connections, since a server comes back to it.
fn free_address() -> String {
    let host = variable("SLESS_TEST_KUBERNETES_HOST");
    for _ in 0..100 {
        let address = format!("{host}:{}", fastrand::u16(20_000..30_000));
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
    panic!("{host} has no free port");
}

impl Place {
    /// Makes a namespace for builds, as deploy/kustomize does, and an image with a `curl`.
    pub(crate) async fn parts(&self) -> Parts {
        let builds = format!("{}-builds", self.namespace);
        let labels = json!({
            "pod-security.kubernetes.io/enforce": "privileged",
            "sless.io/builds": "true",
        });
        let group = "rbac.authorization.k8s.io";
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": builds, "labels": labels}},
            {
                "apiVersion": format!("{group}/v1"),
                "kind": "RoleBinding",
                "metadata": {"name": "sless-builds", "namespace": builds},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "sless-builds"},
                "subjects": [{"apiGroup": group, "kind": "User", "name": "sless"}],
            },
        ]});
        kubectl_prints(&["apply", "-f", "-"], &objects.to_string());
        let began = Instant::now();
        let account = ["-n", &builds, "get", "serviceaccount", "default"];
        while !kubectl(&account, "").status.success() {
            assert!(began.elapsed() < DEADLINE, "{builds} has no account");
            tokio::time::sleep(LOOK * 10).await;
        }
        let (registry, python) = (
            variable("SLESS_TEST_REGISTRY"),
            variable("SLESS_TEST_IMAGE_PYTHON"),
        );
        Parts {
            address: free_address(),
            builds,
            image: curl_image::image_with_curl(&registry, &python).await,
        }
    }

    /// The settings that lead to them; with `fires`, the cluster fires schedules.
    pub(crate) fn settings_of(&self, parts: &Parts, fires: bool) -> [(&'static str, String); 2] {
        let Parts {
            address,
            builds,
            image,
        } = parts;
        let (tool, host) = (
            variable("SLESS_TEST_IMAGE_BUILDER"),
            variable("SLESS_TEST_KUBERNETES_HOST"),
        );
        let mut text = format!(
            "[builds]\nnamespace = '{builds}'\ncpu_request = '10m'\nmemory_request = '64Mi'\n\
             [builds.buildkit]\nimage = '{tool}'\n\
             [builds.network]\negress_cidrs = ['{host}/32']\negress_except = []\n"
        );
        if fires {
            let cron = format!(
                "[scheduler.cron_jobs]\nimage = '{image}'\nurl = 'http://{address}'\nmemory = '64Mi'\n"
            );
            text.push_str(&cron);
        }
        let file = self.data().join(format!("cluster-{fires}.toml"));
        fs::write(&file, text).unwrap();
        [
            ("SLESS_LISTEN", address.clone()),
            ("SLESS_KUBERNETES_FILE", file.display().to_string()),
        ]
    }
}
