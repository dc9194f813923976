//! An engine on Kubernetes, as an operator is, and what has to come of it.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::stream;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::{CronJob, Job},
    core::v1::Service,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use sless_core::{
    Artifact, ArtifactKind, Backends, BuildId, BuildRequest, BuildStatus, Builder,
    BuilderCapabilities, Catalog, CatalogExt as _, ChangeStream, Digest, Error, Function,
    FunctionId, FunctionSpec, HeldStream, LogOptions, LogStream, Metadata, Name, Namespace,
    Options, Receipt, Result, Roles, Runtime, Sless,
};
use sless_k8s::{Cluster, K8sConfig, KubeCatalog, KubeScheduler};

/// How long everything may take to come to rest after the last fault.
pub(crate) const CONVERGENCE: Duration = Duration::from_secs(30);

/// Whether tests of faults run in their long form.
pub(crate) fn is_long() -> bool {
    std::env::var_os("SLESS_TEST_LONG").is_some()
}

/// A client of the tests' own, of this kubeconfig.
pub(crate) async fn client(kubeconfig: &std::path::Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    Client::try_from(config.expect("a usable kubeconfig")).expect("a client")
}

/// Says that every source is built already: what is tried here is not the building.
#[derive(Debug)]
pub(crate) struct Built;

#[async_trait]
impl Builder for Built {
    fn capabilities(&self) -> BuilderCapabilities {
        BuilderCapabilities::new(ArtifactKind::Image).with_installs()
    }

    async fn ensure(&self, request: &BuildRequest) -> Result<BuildStatus> {
        let digest = request.id.code;
        Ok(BuildStatus::Succeeded {
            artifact: Artifact {
                kind: ArtifactKind::Image,
                reference: format!("registry.invalid/functions@{digest}"),
                digest,
            },
            built_at: Timestamp::UNIX_EPOCH,
        })
    }

    async fn cancel(&self, _id: &BuildId) -> Result<()> {
        Ok(())
    }

    async fn logs(&self, _id: &BuildId, _options: &LogOptions) -> Result<LogStream> {
        Err(Error::not_found("nothing was written"))
    }

    async fn prune(&self, _function: &FunctionId, _keep: &[BuildId]) -> Result<Receipt> {
        Ok(Receipt::default())
    }

    fn held(&self) -> HeldStream {
        Box::pin(stream::empty())
    }

    fn changes(&self) -> ChangeStream {
        Box::pin(stream::pending())
    }
}

/// Settings with which what a watch has lost is found again within a convergence.
pub(crate) fn settings(config: K8sConfig) -> K8sConfig {
    let mut config = config;
    config.scheduler.resync_seconds = 8;
    config.request_timeout_ms = 15_000;
    config
}

/// An operator.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(crate) sless: Sless,
    scheduler: Arc<KubeScheduler>,
}

impl Operator {
    /// Starts one, as soon as the API server lets it.
    pub(crate) async fn start(config: K8sConfig, resync: Duration) -> Self {
        Self::start_with(config, resync, |_| {}).await
    }

    /// The same, with some backends changed.
    pub(crate) async fn start_with(
        config: K8sConfig,
        resync: Duration,
        change: impl FnOnce(&mut Backends),
    ) -> Self {
        let begun = Instant::now();
        let scheduler = loop {
            let cluster = Cluster::connect(config.clone()).await.expect("settings");
            match KubeScheduler::connect(cluster).await {
                Ok(scheduler) => break Arc::new(scheduler),
                Err(error) => assert!(begun.elapsed() < CONVERGENCE, "{}", error.chain()),
            }
        };
        let cluster = Cluster::connect(config).await.expect("settings");
        let mut backends = Backends {
            catalog: Arc::new(KubeCatalog::new(cluster)),
            builders: vec![Arc::new(Built)],
            cron: scheduler.cron(),
            scheduler: scheduler.clone(),
            ..Backends::in_memory()
        };
        change(&mut backends);
        let mut options = Options::default();
        options.roles = Roles {
            operator: true,
            dispatcher: false,
        };
        options.resync = resync;
        options.backoff_max = Duration::from_secs(4);
        options.drain = Duration::from_secs(2);
        let sless = Sless::with_options(backends, options).expect("assembled");
        Self { sless, scheduler }
    }

    pub(crate) async fn stop(self) {
        self.sless.shutdown().await;
        self.scheduler.shutdown().await;
    }
}

pub(crate) fn namespace(text: &str) -> Namespace {
    Namespace::new(text).expect("a label")
}

/// A function whose code was uploaded: its environment says which version of it this is.
pub(crate) fn function(namespace: &Namespace, name: &str, version: usize) -> Function {
    let metadata = Metadata::new(namespace.clone(), Name::new(name).expect("a label"));
    let mut function = Function::new(metadata, FunctionSpec::new(Runtime::Python311));
    function.spec.s3_key = Some(format!("contexts/{namespace}/{name}/1.tar.gz"));
    function.spec.code_sha256 = Some(Digest::of(name));
    function
        .spec
        .env
        .insert("VERSION".to_owned(), version.to_string());
    let installs = (
        "sless.io/installs".to_owned(),
        "python3.11:false".to_owned(),
    );
    function.metadata.annotations.extend([installs]);
    function
}

/// Functions by uid, with what of them has to be seen in the cluster.
type Picture = BTreeMap<String, String>;

async fn wanted(catalog: &dyn Catalog) -> Result<Picture, String> {
    let functions: Vec<Function> = catalog
        .read_all(None)
        .await
        .map_err(|error| error.chain().to_string())?;
    let deleting = functions
        .iter()
        .filter(|function| function.metadata.is_deleting());
    let deleting: Vec<_> = deleting.map(|function| &function.metadata.name).collect();
    if !deleting.is_empty() {
        return Err(format!("still there: {deleting:?}"));
    }
    let behind = functions
        .iter()
        .find(|function| function.status.observed_generation != function.metadata.generation);
    if let Some(function) = behind {
        return Err(format!("{:?} was not looked at", function.metadata));
    }
    let picture = functions.iter().map(|function| {
        let version = function.spec.env.get("VERSION").map_or("", String::as_str);
        let uid = function.metadata.uid.as_str().to_owned();
        (uid, format!("{version} x{}", function.spec.replicas()))
    });
    Ok(picture.collect())
}

async fn listed<K>(client: &Client) -> Result<Vec<K>, String>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let ours = ListParams::default().labels("app.kubernetes.io/managed-by=sless");
    let list = Api::<K>::all(client.clone()).list(&ours).await;
    Ok(list.map_err(|error| error.to_string())?.items)
}

fn uid<K: kube::Resource>(object: &K) -> String {
    object
        .labels()
        .get("sless.io/uid")
        .cloned()
        .unwrap_or_default()
}

/// Whether the cluster holds exactly what the catalog wants: for each function one Deployment of its
/// newest version and one Service, and nothing else.
async fn is_settled(client: &Client, catalog: &dyn Catalog) -> Result<Picture, String> {
    let wanted = wanted(catalog).await?;
    let deployments: Vec<Deployment> = listed(client).await?;
    let services: Vec<Service> = listed(client).await?;
    let (jobs, crons): (Vec<Job>, Vec<CronJob>) = (listed(client).await?, listed(client).await?);
    if deployments.len() != wanted.len() || services.len() != wanted.len() {
        let counts = (wanted.len(), deployments.len(), services.len());
        return Err(format!("functions, Deployments, Services: {counts:?}"));
    }
    let version = |deployment: &Deployment| {
        let spec = deployment.spec.as_ref()?;
        let env = spec
            .template
            .spec
            .as_ref()?
            .containers
            .first()?
            .env
            .as_ref()?;
        let version = env
            .iter()
            .find(|set| set.name == "VERSION")?
            .value
            .as_ref()?;
        Some(format!("{version} x{}", spec.replicas?))
    };
    let running: Picture = deployments
        .iter()
        .map(|deployment| (uid(deployment), version(deployment).unwrap_or_default()))
        .collect();
    if running != wanted {
        return Err(format!("wanted {wanted:?}, there is {running:?}"));
    }
    let served: Vec<String> = services.iter().map(uid).collect();
    if !served.iter().all(|uid| wanted.contains_key(uid)) || !jobs.is_empty() || !crons.is_empty() {
        return Err(format!(
            "{served:?}, {} Jobs, {} CronJobs",
            jobs.len(),
            crons.len()
        ));
    }
    Ok(wanted)
}

/// Waits until the cluster is as the catalog wants it, and answers how many functions there are.
pub(crate) async fn converges(what: &str, client: &Client, catalog: &dyn Catalog) -> usize {
    let begun = Instant::now();
    loop {
        match is_settled(client, catalog).await {
            Ok(picture) => return picture.len(),
            Err(seen) => assert!(
                begun.elapsed() < CONVERGENCE,
                "{what}: not at rest within {CONVERGENCE:?}: {seen}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Creates, changes and deletes functions, until it is dropped.
pub(crate) async fn disturb(catalog: &dyn Catalog, namespaces: &[Namespace]) {
    let mut version = 1;
    loop {
        let namespace = &namespaces[fastrand::usize(0..namespaces.len())];
        let text = format!("f-{}", fastrand::usize(0..8));
        let name = Name::new(&text).expect("a label");
        version += 1;
        // What fails here is found by the comparison: the catalog says what is wanted.
        match fastrand::u32(0..5) {
            0 => {
                let key = function(namespace, &text, version).metadata;
                let key =
                    sless_core::ObjectKey::new(sless_core::Kind::Function, key.namespace, key.name);
                let _ = catalog.delete(&key, &Default::default()).await;
            }
            1 | 2 => {
                let _ = catalog
                    .create(function(namespace, &text, version).into())
                    .await;
            }
            _ => {
                let change = |function: &mut Function| {
                    let value = version.to_string();
                    function.spec.env.insert("VERSION".to_owned(), value);
                    Ok(())
                };
                let _ = catalog
                    .modify::<Function, _>(namespace, &name, change)
                    .await;
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// Waits until `look` finds something, within a convergence.
pub(crate) async fn eventually<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(
                begun.elapsed() < CONVERGENCE,
                "not within {CONVERGENCE:?}: {what}; seen last: {seen}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
