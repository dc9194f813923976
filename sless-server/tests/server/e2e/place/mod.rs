//! Where the whole system runs: on one machine or in a cluster, by `SLESS_BACKEND` alone. Everything else,
//! services and settings, is the same.

pub(super) mod cluster;
mod queue;
mod store;

use std::{env, path::Path};

use tempfile::TempDir;

use self::{cluster::Objects, queue::Queue, store::Store};
use super::{
    machine::Machine,
    process::{Process, command},
};

/// What runs functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backend {
    Local,
    Kubernetes,
}

/// A place for one test: a namespace of its own, in a store, a broker, a database and a cluster that it
/// shares with others.
#[derive(Debug)]
pub(super) struct Place {
    /// The namespace of its user; all names begin so.
    pub(super) namespace: String,
    /// The sources and contexts.
    pub(super) store: Store,
    /// The broker.
    pub(super) queue: Queue,
    /// What is in the cluster, where there is one.
    pub(super) objects: Option<Objects>,
    settings: Vec<(&'static str, String)>,
    token: String,
    data: TempDir,
}

/// A variable that the test command sets.
pub(super) fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: testing/README.md says who gives it"))
}

impl Place {
    pub(super) async fn new(backend: Backend) -> Self {
        let mark = format!("{:08x}", fastrand::u32(..));
        let namespace = format!("e2e-{mark}");
        let data = tempfile::tempdir().unwrap();
        let settings = settings(&namespace, backend, data.path());
        let objects = match backend {
            Backend::Local => None,
            Backend::Kubernetes => Some(Objects::new(&namespace).await),
        };
        let minted = command(None, ["token", "--sub", "root"])
            .envs(settings.iter().cloned())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&minted.stderr);
        assert!(minted.status.success(), "{told}");
        let token = String::from_utf8(minted.stdout).unwrap();
        Self {
            store: Store::new(&namespace).await,
            queue: Queue::new().await,
            objects,
            namespace,
            settings,
            token: token.trim().to_owned(),
            data,
        }
    }

    /// Starts a process with these roles, and with further settings.
    pub(super) fn process(&self, roles: &str, further: &[(&str, &str)]) -> Process {
        let mut serve = command(None, ["serve"]);
        serve
            .envs(self.settings.iter().cloned())
            .env("SLESS_ROLES", roles)
            .envs(further.iter().copied());
        Process::start(serve)
    }

    /// Speaks with a process that has the role `api`.
    pub(super) async fn machine(&self, process: Process) -> Machine {
        Machine::of(process, &self.token, self.namespace.clone()).await
    }

    /// One process that does everything.
    pub(super) async fn start(&self) -> Machine {
        let process = self.process("api,operator,dispatcher,console", &[]);
        self.machine(process).await
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The settings that every process here has.
    pub(super) fn settings(&self) -> &[(&'static str, String)] {
        &self.settings
    }

    /// The folder of data of the one machine.
    pub(super) fn data(&self) -> &Path {
        self.data.path()
    }
}

fn settings(namespace: &str, backend: Backend, data: &Path) -> Vec<(&'static str, String)> {
    let image = variable("SLESS_TEST_IMAGE_PYTHON");
    let runtimes = image
        .split("/sless-runtime")
        .next()
        .unwrap_or_default()
        .to_owned();
    let backend = match backend {
        Backend::Local => "local",
        Backend::Kubernetes => "kubernetes",
    };
    let mut settings = vec![("SLESS_BACKEND", backend.to_owned())];
    let file = |name: &str| data.join(name).display().to_string();
    for (name, value) in [
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
    ] {
        settings.push((name, value));
    }
    settings
}
