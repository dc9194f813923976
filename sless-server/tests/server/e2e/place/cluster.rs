//! What is in the cluster, as an administrator sees it.

use std::{collections::BTreeSet, fs, path::PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
    discovery::{Discovery, Scope, verbs},
};

use super::ground::Ground;
pub(crate) use super::ground::{kubectl, kubectl_prints, variable};

/// What is in the namespaces of one test.
pub(crate) struct Objects {
    client: Client,
    kinds: Vec<ApiResource>,
    ground: Ground,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    pub(super) async fn new(namespace: &str) -> Self {
        let ground = Ground::new(namespace);
        let file = Kubeconfig::read_from(variable("SLESS_TEST_KUBECONFIG")).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options)
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
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
            ground,
        }
    }

    /// Everything in both namespaces, of every kind that the cluster has, as `Kind/name`, without what
    /// belongs to the namespaces themselves.
    pub(crate) async fn all(&self) -> BTreeSet<String> {
        const OF_NAMESPACES: [&str; 5] = [
            "ConfigMap/kube-root-ca.crt",
            "NetworkPolicy/sless",
            // Where the cluster fires, or did once.
            "NetworkPolicy/sless-cron",
            "NetworkPolicy/sless-functions",
            "ServiceAccount/default",
        ];
        let mut found = BTreeSet::new();
        for kind in &self.kinds {
            for namespace in &self.ground.namespaces {
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

    /// The manifests that the registry holds of the user's functions, as paths in its files: images, records of
    /// builds, layers kept between builds, whether a tag names them or not.
    pub(crate) fn images(&self) -> Vec<PathBuf> {
        let state = PathBuf::from(variable("SLESS_TEST_KUBERNETES_STATE"));
        let repositories = "registry/docker/registry/v2/repositories";
        let mut folders = vec![state.join(repositories).join(&self.ground.namespaces[0])];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            // What is deleted meanwhile is not there any more.
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let is_manifest = path.ends_with("link")
                    && folder
                        .components()
                        .any(|part| part.as_os_str() == "revisions");
                if is_manifest {
                    found.push(path);
                } else if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        found
    }

    /// Whether both namespaces are there, and nobody is about to delete one.
    pub(crate) async fn namespaces_are_there(&self) -> bool {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let mut there = true;
        for name in &self.ground.namespaces {
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
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.ground.namespaces[1]);
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
