//! The ground on which a server of the tests stands whose functions run in a cluster: its settings, the
//! namespace of its leases, and an end of everything that was made. The tests of the server, of the console
//! and of the command line share it.

use std::{
    env,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// What a user has in a cluster. By their names: a category is looked up in what kubectl remembers of the
/// cluster, be it of before they were installed.
const RESOURCES: [&str; 3] = [
    "functions.sless.io",
    "triggers.sless.io",
    "functionjobs.sless.io",
];

/// How long the cluster may take to remove what was deleted.
const DEADLINE: Duration = Duration::from_secs(120);

/// A variable that the test command sets.
pub(crate) fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: testing/README.md says who gives it"))
}

/// What a server is told that runs functions by `backend` and looks after `namespace` only, and what it
/// shares with others: services, the cluster, the registry. Its files are below `data`.
pub(crate) fn settings(backend: &str, namespace: &str, data: &Path) -> Vec<(&'static str, String)> {
    let image = variable("SLESS_TEST_IMAGE_PYTHON");
    let runtimes = image
        .split("/sless-runtime")
        .next()
        .unwrap_or_default()
        .to_owned();
    let file = |name: &str| data.join(name).display().to_string();
    vec![
        ("SLESS_BACKEND", backend.to_owned()),
        ("SLESS_LISTEN", "127.0.0.1:0".to_owned()),
        ("SLESS_DATA_DIR", file("data")),
        ("SLESS_HS256_KEY_FILE", file("key")),
        ("SLESS_ADMIN_SUBS", "root".to_owned()),
        ("SLESS_DRAIN_TIMEOUT", "10s".to_owned()),
        ("SLESS_STATIC_VALIDATION", "true".to_owned()),
        ("S3_ENDPOINT", variable("SLESS_TEST_S3_ENDPOINT")),
        ("S3_BUCKET", variable("SLESS_TEST_S3_BUCKET")),
        ("S3_REGION", variable("SLESS_TEST_S3_REGION")),
        ("S3_ACCESS_KEY", variable("SLESS_TEST_S3_ACCESS_KEY")),
        ("S3_SECRET_KEY", variable("SLESS_TEST_S3_SECRET_KEY")),
        ("RABBITMQ_URL", variable("SLESS_TEST_RABBITMQ_URL")),
        ("DATABASE_URL", variable("SLESS_TEST_POSTGRES_URL")),
        // What one machine has no use for does not disturb it.
        // In a cluster it has the rights of an installation, and no more.
        ("KUBECONFIG", variable("SLESS_TEST_KUBECONFIG_SLESS")),
        ("SLESS_SYSTEM_NAMESPACE", format!("{namespace}-system")),
        ("SLESS_NAMESPACE_PREFIX", namespace.to_owned()),
        (
            "REGISTRY_HOST",
            format!("{}/{namespace}", variable("SLESS_TEST_REGISTRY")),
        ),
        ("REGISTRY_PLAIN_HTTP", "true".to_owned()),
        ("SLESS_RUNTIME_REGISTRY", runtimes),
        (
            "SLESS_CALLER_CIDRS",
            format!("{}/32", variable("SLESS_TEST_KUBERNETES_HOST")),
        ),
        ("SLESS_LEASE_TTL", "4s".to_owned()),
    ]
}

/// Runs kubectl with this on its standard input.
pub(crate) fn kubectl(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(variable("SLESS_TEST_KUBECTL"))
        .env("KUBECONFIG", variable("SLESS_TEST_KUBECONFIG"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

/// The same, and what it printed; it has to succeed.
pub(crate) fn kubectl_prints(arguments: &[&str], input: &str) -> String {
    let output = kubectl(arguments, input);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "kubectl {arguments:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

/// Installs the definitions of the custom resources, as an administrator does.
fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds");
        let folder = folder.display().to_string();
        kubectl_prints(
            &["apply", "--server-side", "--force-conflicts", "-f", &folder],
            "",
        );
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
        ];
        kubectl_prints(&[&established[..], &RESOURCES[..]].concat(), "");
    });
}

/// The namespaces of one test. They go with it: nothing of sless deletes one.
#[derive(Debug)]
pub(crate) struct Ground {
    /// Of the user: with the resources, and with what runs. The server makes them.
    pub(crate) namespaces: [String; 2],
    /// With the leases, which the server does not make itself.
    system: String,
}

impl Ground {
    pub(crate) fn new(namespace: &str) -> Self {
        install();
        let system = format!("{namespace}-system");
        kubectl_prints(&["create", "namespace", &system], "");
        Self {
            namespaces: [namespace.to_owned(), format!("sless-fn-{namespace}")],
            system,
        }
    }

    /// Waits until nothing of a function is left in the namespaces, which are there.
    // The end-to-end tests look at every kind that the cluster has.
    #[allow(dead_code)]
    pub(crate) fn is_bare_again(&self) {
        let began = Instant::now();
        for namespace in &self.namespaces {
            kubectl_prints(&["get", "namespace", namespace], "");
            let kinds = format!("{},all,configmaps,secrets", RESOURCES.join(","));
            let get = ["get", &kinds, "-o", "name", "-n", namespace];
            loop {
                let told = kubectl_prints(&get, "");
                let left: Vec<_> = told
                    .lines()
                    .filter(|name| *name != "configmap/kube-root-ca.crt")
                    .collect();
                if left.is_empty() {
                    break;
                }
                assert!(began.elapsed() < DEADLINE, "in {namespace}: {left:?}");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let [resources, workloads] = &self.namespaces;
        // After a failure there may be objects whose finalizer nobody ends any more.
        let here = ["-n", resources.as_str()];
        let left = kubectl(
            &[&here[..], &["get", &RESOURCES.join(","), "-o", "name"]].concat(),
            "",
        );
        for name in String::from_utf8_lossy(&left.stdout).lines() {
            let bare = r#"{"metadata": {"finalizers": null}}"#;
            kubectl(
                &[&here[..], &["patch", name, "--type=merge", "-p", bare]].concat(),
                "",
            );
        }
        let delete = ["delete", "namespace", "--ignore-not-found", "--wait=false"];
        let arguments = [&delete[..], &[resources, workloads, &self.system]].concat();
        let deleted = kubectl(&arguments, "");
        assert!(deleted.status.success() || std::thread::panicking());
    }
}
