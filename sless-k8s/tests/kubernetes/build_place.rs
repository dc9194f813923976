//! A place for builds: a namespace with nothing else in it, and a path of its own in the registry.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Namespace as KubeNamespace, Pod, ServiceAccount},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use serde_json::json;
use sless_core::{
    BuildId, BuildRequest, BuildStatus, Builder, ContextRef, Entrypoint, Failure, FunctionId, Name,
    Namespace, PutOptions, Result, Runtime, RuntimeVersions, Storage as _, StorageKey, SystemClock,
    Uid, bytes_stream,
    memory::MemoryStorage,
    source::{Dependencies, SourceTree, context},
};
use sless_k8s::{
    BuildKitBuilder, BuildKitConfig, BuildKitMode, BuildTool, BuildsConfig, Cluster, K8sConfig,
    KanikoBuilder, KanikoConfig, KubeBuilder, LayerBuilderConfig, NetworkConfig, RegistryConfig,
};

use super::world::{self, eventually};

/// Which builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    BuildKit,
    Kaniko,
    Chosen,
}

/// A namespace for builds, and where their images go.
#[derive(Clone, Debug)]
pub(crate) struct BuildPlace {
    pub(crate) mark: String,
    pub(crate) namespace: String,
    pub(crate) builds: BuildsConfig,
    pub(crate) images: LayerBuilderConfig,
}

impl BuildPlace {
    pub(crate) async fn new() -> Self {
        Self::with_level("privileged").await
    }

    /// One with this level of Pod Security.
    pub(crate) async fn with_level(level: &str) -> Self {
        let mark = world::mark();
        let namespace = format!("bld-{mark}");
        let client = world::client().await;
        let api: Api<KubeNamespace> = Api::all(client.clone());
        // As deploy/kustomize/cluster labels the namespace of builds, so that sless may write there.
        let labels = json!({
            "test": mark,
            "pod-security.kubernetes.io/enforce": level,
            "sless.io/builds": "true",
        });
        let made = json!({"metadata": {"name": namespace, "labels": labels}});
        let made: KubeNamespace = serde_json::from_value(made).expect("a namespace");
        api.create(&PostParams::default(), &made)
            .await
            .expect("a namespace");
        // And as deploy/kustomize/rbac lets it keep credentials there.
        let rights: Api<RoleBinding> = Api::namespaced(client.clone(), &namespace);
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": "sless-builds"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "sless-builds"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "sless"}],
        });
        let binding: RoleBinding = serde_json::from_value(binding).expect("a binding");
        let bound = rights.create(&PostParams::default(), &binding).await;
        bound.expect("a binding");
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &namespace);
        eventually("the namespace has its account", async || {
            accounts
                .get("default")
                .await
                .map_err(|error| error.to_string())
        })
        .await;
        let builds = settings(&namespace).await;
        Self {
            images: images(&path(&mark)),
            mark,
            namespace,
            builds,
        }
    }

    /// A new builder of these settings.
    pub(crate) async fn builder(&self, which: Which) -> Result<Arc<dyn Builder>> {
        let mut config = K8sConfig::with_kubeconfig(world::variable("SLESS_TEST_KUBECONFIG_SLESS"));
        config.builds = self.builds.clone();
        config.builds.tool = match which {
            Which::Kaniko => BuildTool::Kaniko,
            _ => BuildTool::BuildKit,
        };
        let cluster = Cluster::connect(config).await?;
        let (images, clock) = (self.images.clone(), Arc::new(SystemClock));
        Ok(match which {
            Which::BuildKit => Arc::new(BuildKitBuilder::new(cluster, images, clock)?),
            Which::Kaniko => Arc::new(KanikoBuilder::new(cluster, images, clock)?),
            Which::Chosen => Arc::new(KubeBuilder::new(cluster, images, clock)?),
        })
    }

    /// Where its images go, below the registry.
    pub(crate) fn path(&self) -> String {
        path(&self.mark)
    }

    pub(crate) fn api<K>(client: Client, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(client, namespace)
    }

    /// The Jobs that are there.
    pub(crate) async fn jobs(&self) -> Vec<Job> {
        let api: Api<Job> = Self::api(world::client().await, &self.namespace);
        api.list(&ListParams::default()).await.expect("jobs").items
    }

    /// The pods that are there.
    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let api: Api<Pod> = Self::api(world::client().await, &self.namespace);
        api.list(&ListParams::default()).await.expect("pods").items
    }

    /// Waits until no build is left in the namespace.
    pub(crate) async fn empty(&self) {
        eventually("no Job and no pod is left", async || {
            let (jobs, pods) = (self.jobs().await.len(), self.pods().await.len());
            if jobs + pods == 0 {
                Ok(())
            } else {
                Err(format!("{jobs} Jobs, {pods} pods"))
            }
        })
        .await;
    }

    pub(crate) async fn end(&self) {
        world::remove_namespaces(&self.mark).await;
    }
}

fn path(mark: &str) -> String {
    format!("bld-{mark}")
}

/// How builds run on the test cluster, which has a package index and a registry on one address.
async fn settings(namespace: &str) -> BuildsConfig {
    let image = world::variable("SLESS_TEST_IMAGE_BUILDER");
    let host = world::variable("SLESS_TEST_KUBERNETES_HOST");
    let network = NetworkConfig {
        dns_cidrs: world::dns_addresses().await,
        egress_cidrs: vec![format!("{host}/32")],
        egress_except: Vec::new(),
        ..NetworkConfig::default()
    };
    BuildsConfig {
        namespace: namespace.to_owned(),
        buildkit: BuildKitConfig {
            image: image.clone(),
            mode: mode(),
        },
        kaniko: KanikoConfig { image },
        image_patience_ms: 2_000,
        cpu_request: "10m".parse().expect("a quantity"),
        memory_request: "64Mi".parse().expect("a quantity"),
        network,
        ..BuildsConfig::default()
    }
}

/// `SLESS_TEST_BUILDKIT_MODE`, or the default.
fn mode() -> BuildKitMode {
    match std::env::var("SLESS_TEST_BUILDKIT_MODE").as_deref() {
        Ok("privileged") => BuildKitMode::Privileged,
        Ok("user-namespace") => BuildKitMode::UserNamespace,
        _ => BuildKitMode::Rootless,
    }
}

fn images(path: &str) -> LayerBuilderConfig {
    let here = world::variable("SLESS_TEST_REGISTRY");
    LayerBuilderConfig {
        repository: format!("{here}/{path}"),
        base_registry: Some(here.clone()),
        settle_ms: 200,
        registry: RegistryConfig {
            plain_http: BTreeSet::from([here]),
            ..RegistryConfig::default()
        },
        ..LayerBuilderConfig::default()
    }
}

/// A request to build these files.
pub(crate) async fn request(
    runtime: Runtime,
    function: &FunctionId,
    files: &[(&str, &str)],
) -> BuildRequest {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    let tree = SourceTree::from_files(files.iter().map(owned)).expect("a source");
    let info = RuntimeVersions::default()
        .info(runtime, Entrypoint::default())
        .expect("a runtime");
    let mut body = Vec::new();
    let written = context::write(&tree, &info, &mut body).expect("a context");
    let installs = !matches!(written.dependencies, Dependencies::None);
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
    let key = StorageKey::new("contexts/x/y/1.tar.gz").expect("a key");
    storage
        .put(&key, bytes_stream(body), &PutOptions::default())
        .await
        .expect("a put");
    let id = BuildId {
        function: function.clone(),
        code: written.digest,
        runtime_version: info.version.clone(),
        attempt: 0,
    };
    BuildRequest::new(id, info, installs, ContextRef { storage, key })
}

/// A function of its own.
pub(crate) fn function(name: &str) -> FunctionId {
    FunctionId {
        namespace: Namespace::new("bld-user").expect("a name"),
        name: Name::new(name).expect("a name"),
        uid: Uid::random(),
    }
}

/// Ensures until the build has an end.
pub(crate) async fn end(builder: &Arc<dyn Builder>, request: &BuildRequest) -> BuildStatus {
    world::within(PATIENCE, "the build ends", async || {
        match builder.ensure(request).await.expect("an answer") {
            status @ (BuildStatus::Succeeded { .. } | BuildStatus::Failed { .. }) => Ok(status),
            status => Err(format!("{status:?}")),
        }
    })
    .await
}

/// Ensures until the build has failed.
pub(crate) async fn failure(builder: &Arc<dyn Builder>, request: &BuildRequest) -> (Failure, bool) {
    match end(builder, request).await {
        BuildStatus::Failed { failure, transient } => (failure, transient),
        other => panic!("it did not fail: {other:?}"),
    }
}

/// How long a build may take: it unpacks a base image, which on a loaded machine takes its time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
