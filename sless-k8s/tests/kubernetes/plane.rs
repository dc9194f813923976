//! An etcd and an API server of this process's own, by `testing/kubernetes/control-plane`.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use sless_k8s::{Cluster, K8sConfig};

/// A running control plane. It is taken down when this process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Plane {
    pub(crate) state: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    kubectl: PathBuf,
    /// Of a user who may do what sless may do and nothing else.
    sless: PathBuf,
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/kubernetes")
}

pub(crate) fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds")
}

impl Plane {
    /// The one that tests share which break nothing.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Plane> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("shared"))
    }

    /// One of this test's own, with the custom resources and the namespace of sless in it.
    pub(crate) fn start(name: &str) -> Self {
        let process = std::process::id();
        let state = std::env::temp_dir().join(format!("sless-k8s-{process}-{name}"));
        let output = Command::new(scripts().join("control-plane"))
            .arg(&state)
            .arg(process.to_string())
            .stderr(Stdio::inherit())
            .output()
            .expect("testing/kubernetes/control-plane is there");
        assert!(output.status.success(), "the control plane did not start");
        let lines = String::from_utf8(output.stdout).expect("lines of text");
        let value = |key: &str| {
            let found = lines.lines().find_map(|line| line.strip_prefix(key));
            PathBuf::from(found.unwrap_or_else(|| panic!("no {key} in {lines}")))
        };
        let plane = Self {
            kubeconfig: value("SLESS_TEST_KUBECONFIG="),
            kubectl: value("SLESS_TEST_KUBECTL="),
            sless: value("SLESS_TEST_KUBECONFIG_SLESS="),
            state,
        };
        plane.install();
        // With the namespace of sless, and the rights that it has in an installation.
        let rights = scripts().join("rights").display().to_string();
        plane.run(&["apply", "-k", &rights], "");
        plane
    }

    /// Installs the custom resources.
    pub(crate) fn install(&self) {
        let folder = manifests().display().to_string();
        self.run(&["apply", "-f", &folder], "");
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
        ];
        let names = [
            "functions.sless.io",
            "triggers.sless.io",
            "functionjobs.sless.io",
        ];
        self.run(&[&established[..], &names[..]].concat(), "");
    }

    /// Stops (`stop`, `kill`), starts or restarts a program of it: `apiserver` or `etcd`.
    pub(crate) fn component(&self, action: &str, name: &str) {
        self.script("component", &[action, name]);
    }

    /// Makes etcd forget its history.
    pub(crate) fn compact(&self) {
        self.script("compact", &[]);
    }

    /// Adds the controllers and the scheduler of Kubernetes, and simulated nodes on which pods become ready.
    pub(crate) fn with_nodes(self, nodes: usize) -> Self {
        self.script("controllers", &[]);
        self.script("simulate", &[&nodes.to_string()]);
        self
    }

    /// Stops it, and removes its state.
    pub(crate) fn down(&self) {
        self.script("down", &[]);
    }

    fn script(&self, name: &str, arguments: &[&str]) {
        let status = Command::new(scripts().join(name))
            .arg(&self.state)
            .args(arguments)
            .status()
            .expect("the script is there");
        assert!(status.success(), "{name} {arguments:?} failed");
    }

    /// Runs kubectl, which has to succeed, and answers what it printed.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> String {
        let output = self.kubectl(arguments, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs kubectl.
    pub(crate) fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl was built");
        let mut stdin = child.stdin.take().expect("a pipe");
        // kubectl may refuse before it has read all.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("kubectl ends")
    }

    /// Settings of sless, with the rights that it has in an installation.
    pub(crate) fn config(&self) -> K8sConfig {
        K8sConfig::with_kubeconfig(&self.sless)
    }

    /// A connection of the caller's own.
    pub(crate) async fn cluster(&self) -> Cluster {
        Cluster::connect(self.config()).await.expect("a kubeconfig")
    }
}
