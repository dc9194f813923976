//! The cluster that the tests run on, as `testing/kubernetes/up` tells it.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::{core::v1::Namespace as KubeNamespace, discovery::v1::EndpointSlice};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use sless_conformance::Fixture;
use sless_core::{
    BuildId, BuildRequest, BuildStatus, Builder as _, ContextRef, Digest, Entrypoint, FunctionId,
    Name, Namespace, PutOptions, Runtime, RuntimeVersions, Storage as _, StorageKey, SystemClock,
    Uid, Workload, bytes_stream,
    memory::MemoryStorage,
    source::{SourceTree, context},
};
use sless_k8s::{
    Cluster, K8sConfig, KubeScheduler, LayerBuilder, LayerBuilderConfig, RegistryConfig,
};

/// How long what has to happen may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A variable that the test command sets.
pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run testing/kubernetes/up"))
}

/// A client of the tests' own.
pub(crate) async fn client() -> Client {
    let file = Kubeconfig::read_from(variable("SLESS_TEST_KUBECONFIG")).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

/// Where the cluster's DNS answers, as blocks of one address.
pub(crate) async fn dns_addresses() -> Vec<String> {
    let api: Api<EndpointSlice> = Api::namespaced(client().await, "kube-system");
    let of_dns = ListParams::default().labels("kubernetes.io/service-name=kube-dns");
    let slices = api.list(&of_dns).await.expect("the endpoints of DNS").items;
    let addresses = slices
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten())
        .flat_map(|endpoint| &endpoint.addresses);
    addresses.map(|address| format!("{address}/32")).collect()
}

/// Settings under which everything is quick, and whose namespaces carry this mark. sless has the rights here
/// that an installation gives it, and no more.
pub(crate) fn config(mark: &str) -> K8sConfig {
    let mut config = K8sConfig::with_kubeconfig(variable("SLESS_TEST_KUBECONFIG_SLESS"));
    config
        .namespaces
        .labels
        .insert("test".to_owned(), mark.to_owned());
    config.scheduler.notice_ms = 1_000;
    config.scheduler.idle_check_ms = 200;
    config.scheduler.queue_length = QUEUE_LENGTH;
    config.scheduler.image_patience_ms = 1_000;
    config.scheduler.pods.memory = "128Mi".parse().expect("a quantity");
    config.scheduler.pods.cpu_request_percent = 1;
    config.scheduler.pods.memory_request_percent = 10;
    config
}

/// Calls that wait in one pod.
pub(crate) const QUEUE_LENGTH: usize = 8;

/// A scheduler of these settings.
pub(crate) async fn scheduler(config: K8sConfig) -> sless_core::Result<KubeScheduler> {
    KubeScheduler::connect(Cluster::connect(config).await?).await
}

/// A mark that no other test has.
pub(crate) fn mark() -> String {
    Uid::random().as_str()[..8].to_owned()
}

/// Removes the namespaces with this mark. Nothing of sless does that.
pub(crate) async fn remove_namespaces(mark: &str) {
    let api: Api<KubeNamespace> = Api::all(client().await);
    let marked = ListParams::default().labels(&format!("test={mark}"));
    for namespace in api.list(&marked).await.expect("namespaces").items {
        let _ = api
            .delete(&namespace.name_any(), &DeleteParams::default())
            .await;
    }
}

/// What nodes call the registry, and what it is called here.
fn registries() -> (String, String) {
    let image = variable("SLESS_TEST_IMAGE_PYTHON");
    let node = image.split('/').next().unwrap_or_default().to_owned();
    (variable("SLESS_TEST_REGISTRY"), node)
}

/// A builder that puts its images below this path.
pub(crate) fn builder(path: &str) -> sless_core::Result<LayerBuilder> {
    let (here, node) = registries();
    builder_at(here, &node, path)
}

/// The same, with a registry that is called so here and by nodes.
pub(crate) fn builder_at(here: String, node: &str, path: &str) -> sless_core::Result<LayerBuilder> {
    let config = LayerBuilderConfig {
        repository: format!("{here}/{path}"),
        pull_repository: Some(format!("{node}/{path}")),
        base_registry: Some(here.clone()),
        registry: RegistryConfig {
            plain_http: BTreeSet::from([here]),
            ..RegistryConfig::default()
        },
        ..LayerBuilderConfig::default()
    };
    LayerBuilder::new(config, Arc::new(SystemClock))
}

/// A workload that runs this source.
pub(crate) async fn workload(
    namespace: &Namespace,
    name: &str,
    runtime: Runtime,
    tree: SourceTree,
) -> Workload {
    let function = FunctionId {
        namespace: namespace.clone(),
        name: Name::new(name).expect("a name"),
        uid: Uid::random(),
    };
    workload_of(function, runtime, tree)
        .await
        .expect("an image")
}

/// The same, of this function. The image of one code is built once, for whichever test comes first.
pub(crate) async fn workload_of(
    function: FunctionId,
    runtime: Runtime,
    tree: SourceTree,
) -> sless_core::Result<Workload> {
    let builder = builder("fixtures")?;
    let info = RuntimeVersions::default().info(runtime, Entrypoint::default())?;
    let mut body = Vec::new();
    let written = context::write(&tree, &info, &mut body)?;
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock)));
    let key = StorageKey::new("contexts/fixtures/x/1.tar.gz")?;
    storage
        .put(&key, bytes_stream(body), &PutOptions::default())
        .await?;
    let id = BuildId {
        function: FunctionId {
            namespace: Namespace::new("fixtures")?,
            name: Name::new(format!("f-{}", &written.digest.hex()[..16]))?,
            uid: Uid::new("fixture"),
        },
        code: written.digest,
        runtime_version: info.version.clone(),
        attempt: 0,
    };
    let request = BuildRequest::new(id, info, false, ContextRef { storage, key });
    let artifact = loop {
        match builder.ensure(&request).await? {
            BuildStatus::Succeeded { artifact, .. } => break artifact,
            BuildStatus::Failed { failure, .. } => {
                return Err(sless_core::Error::internal(failure.text()));
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    Ok(Workload {
        function,
        generation: 1,
        artifact,
        runtime,
        entrypoint: Entrypoint::default(),
        env: Default::default(),
        replicas: 1,
        max_replicas: 1,
        timeout: Duration::from_secs(30),
        memory: None,
        cpu: None,
        concurrency: 1,
        idle: Some(Duration::ZERO),
        built_at: jiff::Timestamp::now(),
    })
}

/// The source of a fixture.
pub(crate) fn fixture(fixture: Fixture, runtime: Runtime) -> SourceTree {
    fixture.source(runtime).expect("a source")
}

/// The source of one file in Python.
pub(crate) fn python(text: &str) -> SourceTree {
    SourceTree::from_files([("handler.py", text.to_owned())]).expect("a source")
}

/// A digest that no image has.
pub(crate) fn no_image() -> Digest {
    Digest::of(mark())
}

/// Waits until `look` finds something. Its `Err` says what was seen instead.
pub(crate) async fn eventually<T>(what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
    within(PATIENCE, what, look).await
}

/// The same, with this much patience.
pub(crate) async fn within<T>(
    patience: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let until = Instant::now() + patience;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) if Instant::now() > until => panic!("not in time: {what}; seen last: {seen}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
