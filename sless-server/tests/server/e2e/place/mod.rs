//! Where the whole system runs: on one machine or in a cluster, by `SLESS_BACKEND` alone. Everything else,
//! services and settings, is the same.

pub(super) mod cluster;
#[path = "../../../ground/mod.rs"]
mod ground;
mod parts;
mod queue;
mod store;

use std::path::Path;

use tempfile::TempDir;

use self::{cluster::Objects, ground::variable, queue::Queue, store::Store};
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

impl Place {
    pub(super) async fn new(backend: Backend) -> Self {
        let mark = format!("{:08x}", fastrand::u32(..));
        let namespace = format!("e2e-{mark}");
        let data = tempfile::tempdir().unwrap();
        let backend_name = match backend {
            Backend::Local => "local",
            Backend::Kubernetes => "kubernetes",
        };
        let settings = ground::settings(backend_name, &namespace, data.path());
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
        self.start_with(&[]).await
    }

    /// The same, with further settings.
    pub(super) async fn start_with(&self, further: &[(&str, String)]) -> Machine {
        let further: Vec<_> = further
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let process = self.process("api,operator,dispatcher,console", &further);
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
