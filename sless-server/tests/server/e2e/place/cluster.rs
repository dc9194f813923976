//! What is in the cluster, as an administrator sees it.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    discovery::{Discovery, Scope, verbs},
};

use super::variable;

/// What is in the namespaces of one test. They go with it: nothing of sless deletes one.
pub(crate) struct Objects {
    client: Client,
    kinds: Vec<ApiResource>,
    /// Of the user: with the resources, and with what runs.
    namespaces: [String; 2],
    system: String,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
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
        let names = [
            "functions.sless.io",
            "triggers.sless.io",
            "functionjobs.sless.io",
        ];
        kubectl_prints(&[&established[..], &names[..]].concat(), "");
    });
}

impl Objects {
    pub(super) async fn new(namespace: &str) -> Self {
        install();
        let file = Kubeconfig::read_from(variable("SLESS_TEST_KUBECONFIG")).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
        let system = format!("{namespace}-system");
        let made = Namespace {
            metadata: ObjectMeta {
                name: Some(system.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let all: Api<Namespace> = Api::all(client.clone());
        all.create(&PostParams::default(), &made).await.unwrap();
        let discovered = Discovery::new(client.clone()).run().await.unwrap();
        let kinds = discovered
            .groups()
            .flat_map(|group| group.recommended_resources())
            .filter(|(_, can)| {
                can.scope == Scope::Namespaced && can.supports_operation(verbs::LIST)
            })
            .map(|(kind, _)| kind)
            // What happened is no object of anybody.
            .filter(|kind| kind.kind != "Event")
            .collect();
        Self {
            client,
            kinds,
            namespaces: [namespace.to_owned(), format!("sless-fn-{namespace}")],
            system,
        }
    }

    /// Everything in both namespaces, of every kind that the cluster has, as `Kind/name`, without what
    /// belongs to the namespaces themselves.
    pub(crate) async fn all(&self) -> BTreeSet<String> {
        const OF_NAMESPACES: [&str; 4] = [
            "ConfigMap/kube-root-ca.crt",
            "NetworkPolicy/sless",
            "NetworkPolicy/sless-functions",
            "ServiceAccount/default",
        ];
        let mut found = BTreeSet::new();
        for kind in &self.kinds {
            for namespace in &self.namespaces {
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), namespace, kind);
                let listed = api
                    .list_metadata(&ListParams::default())
                    .await
                    .unwrap()
                    .items;
                let names = listed
                    .iter()
                    .map(|object| format!("{}/{}", kind.kind, object.name_any()));
                found.extend(names);
            }
        }
        found.retain(|name| !OF_NAMESPACES.contains(&name.as_str()));
        found
    }

    /// Whether both namespaces are there, and nobody is about to delete one.
    pub(crate) async fn namespaces_are_there(&self) -> bool {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let mut there = true;
        for name in &self.namespaces {
            let found = api.get_opt(name).await.unwrap();
            there &= found.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
        }
        there
    }

    /// The names of what runs, of one kind, with the name of whose they are.
    pub(crate) async fn owners<K>(&self) -> Vec<(String, String)>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespaces[1]);
        let listed = api
            .list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items;
        let named = listed.into_iter().map(|object| {
            let owner = object.labels().get("sless.io/name").cloned();
            (owner.unwrap_or_default(), object.name_any())
        });
        named.collect()
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        let [resources, workloads] = &self.namespaces;
        // After a failure there may be objects whose finalizer nobody ends any more.
        let here = ["-n", resources.as_str()];
        let left = kubectl(&[&here[..], &["get", "sless", "-o", "name"]].concat(), "");
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
