//! What the catalog does when the API server is restarted, its connections are cut, and etcd forgets.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use sless_core::{
    Catalog, CatalogExt as _, DeleteOptions, ErrorKind, Function, FunctionSpec, Kind, ListQuery,
    Metadata, Name, Namespace, ObjectKey, Result, Runtime, Version, WatchEvent, WatchOptions,
};
use sless_k8s::{Cluster, K8sConfig, KubeCatalog};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::{Mutex, watch},
};

use super::plane::Plane;

/// How long everything may take to come to rest after the last fault.
const CONVERGENCE: Duration = Duration::from_secs(30);

fn namespace() -> Namespace {
    Namespace::new("faults").expect("a label")
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(
        Kind::Function,
        namespace(),
        Name::new(name).expect("a label"),
    )
}

fn function(name: &str) -> Function {
    let metadata = Metadata::new(namespace(), Name::new(name).expect("a label"));
    Function::new(metadata, FunctionSpec::new(Runtime::Python311))
}

async fn catalog(config: K8sConfig) -> Arc<KubeCatalog> {
    let cluster = Cluster::connect(config).await.expect("a kubeconfig");
    Arc::new(KubeCatalog::new(cluster))
}

/// What somebody knows who lists, watches, and lists again when told so: as the engine does.
#[derive(Debug, Default)]
struct Mirror {
    objects: Mutex<BTreeMap<ObjectKey, Version>>,
    listings: AtomicUsize,
    stop: AtomicBool,
}

impl Mirror {
    async fn follow(&self, catalog: &dyn Catalog) {
        while !self.stop.load(Ordering::Relaxed) {
            if self.follow_once(catalog).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn follow_once(&self, catalog: &dyn Catalog) -> Result<()> {
        let page = catalog.list(&ListQuery::all(Kind::Function)).await?;
        let seen = page.items.iter().map(|object| {
            let metadata = object.metadata();
            (object.key(), metadata.version.clone())
        });
        *self.objects.lock().await = seen.collect();
        self.listings.fetch_add(1, Ordering::Relaxed);
        let options = WatchOptions::default().from_position(page.position);
        let mut watch = catalog.watch(&options).await?;
        while !self.stop.load(Ordering::Relaxed) {
            let next = tokio::time::timeout(Duration::from_millis(200), watch.next()).await;
            match next {
                Ok(Some(event)) => {
                    if let WatchEvent::Changed { key, .. } = event? {
                        self.look(catalog, key).await?;
                    }
                }
                Ok(None) => return Ok(()),
                Err(_) => {}
            }
        }
        Ok(())
    }

    async fn look(&self, catalog: &dyn Catalog, key: ObjectKey) -> Result<()> {
        let found = match catalog.get(&key).await {
            Ok(object) => Some(object.metadata().version.clone()),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        let mut objects = self.objects.lock().await;
        match found {
            Some(version) => objects.insert(key, version),
            None => objects.remove(&key),
        };
        Ok(())
    }

    /// Waits until this is what the catalog holds.
    async fn converges(&self, catalog: &dyn Catalog) {
        let begun = Instant::now();
        loop {
            let listed = catalog.list(&ListQuery::all(Kind::Function)).await;
            let there: Option<BTreeMap<_, _>> = listed.ok().map(|page| {
                let items = page.items.iter();
                items
                    .map(|object| (object.key(), object.metadata().version.clone()))
                    .collect()
            });
            if there.as_ref() == Some(&*self.objects.lock().await) {
                return;
            }
            assert!(
                begun.elapsed() < CONVERGENCE,
                "not the same within {CONVERGENCE:?}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Repeats a write until it is known to be done: what a caller does who is told that it may. An API server
/// that has just started refuses everybody until it has read who may do what.
async fn surely<T>(what: &str, mut write: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match write().await {
            Err(error)
                if error.retry() != sless_core::Retry::Never
                    || error.kind() == ErrorKind::PermissionDenied =>
            {
                let told = error.chain();
                assert!(begun.elapsed() < Duration::from_secs(90), "{what}: {told}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => return other,
        }
    }
}

/// Creates, changes and deletes until told to stop. Answers what must be there then, and how it must look.
async fn write(catalog: &dyn Catalog, stop: &AtomicBool) -> BTreeMap<ObjectKey, String> {
    let mut wanted = BTreeMap::new();
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        let (new, old) = (format!("f-{round}"), format!("f-{}", round / 2));
        let created = surely("create", async || {
            catalog.create(function(&new).into()).await
        })
        .await;
        // A create whose answer was lost is found to be done already.
        assert!(
            created.is_ok() || created.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists),
            "creating {new}"
        );
        wanted.insert(key(&new), String::new());
        let known = wanted.contains_key(&key(&old));
        if known {
            let value = round.to_string();
            let changed = surely("change", async || {
                let change = |function: &mut Function| {
                    function.spec.env.insert("ROUND".to_owned(), value.clone());
                    Ok(())
                };
                let old = Name::new(&old).expect("a label");
                catalog
                    .modify::<Function, _>(&namespace(), &old, change)
                    .await
            });
            changed.await.expect("what was created is there");
            wanted.insert(key(&old), value);
        }
        if round % 5 == 4 {
            let gone = key(&format!("f-{}", round - 3));
            let deleted = surely("delete", async || {
                catalog.delete(&gone, &DeleteOptions::default()).await
            });
            match deleted.await {
                Err(error) if !error.is_not_found() => panic!("deleting {gone}: {error}"),
                _ => wanted.remove(&gone),
            };
        }
        round += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    wanted
}

async fn same_as_written(catalog: &dyn Catalog, wanted: &BTreeMap<ObjectKey, String>) {
    let functions: Vec<Function> = catalog.read_all(None).await.expect("listed");
    let found: BTreeMap<_, _> = functions
        .into_iter()
        .map(|function| {
            let value = function.spec.env.get("ROUND").cloned().unwrap_or_default();
            (sless_core::Resource::key(&function), value)
        })
        .collect();
    assert_eq!(found, *wanted);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn restarts_and_compactions_lose_nothing() {
    const RESTARTS: usize = 4;
    let plane = Arc::new(Plane::start("restarts"));
    let catalog = catalog(plane.config()).await;
    catalog.ensure_namespace(&namespace()).await.expect("made");
    let (mirror, stop) = (Arc::new(Mirror::default()), AtomicBool::new(false));
    let following = {
        let (mirror, catalog) = (mirror.clone(), catalog.clone());
        tokio::spawn(async move { mirror.follow(&*catalog).await })
    };
    let breaking = {
        let plane = plane.clone();
        tokio::task::spawn_blocking(move || {
            for round in 0..RESTARTS {
                match round % 3 {
                    0 => plane.component("restart", "apiserver"),
                    1 => {
                        plane.component("kill", "apiserver");
                        plane.compact();
                        plane.component("start", "apiserver");
                    }
                    _ => {
                        plane.component("kill", "etcd");
                        plane.component("start", "etcd");
                    }
                }
            }
        })
    };
    let breaking = async {
        breaking.await.expect("broken and mended");
        stop.store(true, Ordering::Relaxed);
    };
    let (wanted, ()) = futures::join!(write(&*catalog, &stop), breaking);
    assert!(!wanted.is_empty(), "something was written");
    mirror.converges(&*catalog).await;
    same_as_written(&*catalog, &wanted).await;
    assert!(
        mirror.listings.load(Ordering::Relaxed) > 1,
        "a restart was noticed"
    );
    mirror.stop.store(true, Ordering::Relaxed);
    following.await.expect("ends");
    plane.down();
}

/// Stands between a client and the API server, and can cut or stop what goes through.
#[derive(Debug)]
struct Between {
    address: SocketAddr,
    /// Raised to cut every connection that there is.
    cuts: watch::Sender<usize>,
    /// While true, connections stay and nothing goes through.
    silent: watch::Sender<bool>,
}

impl Between {
    async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (cuts, silent) = (watch::Sender::new(0), watch::Sender::new(false));
        let (cut, silenced) = (cuts.clone(), silent.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (mut cut, mut silenced) = (cut.subscribe(), silenced.subscribe());
                let target = target.clone();
                tokio::spawn(async move {
                    let Ok(mut server) = TcpStream::connect(&target).await else {
                        return;
                    };
                    loop {
                        tokio::select! {
                            _ = copy_bidirectional(&mut client, &mut server) => return,
                            _ = cut.changed() => return,
                            changed = silenced.wait_for(|silent| *silent) => {
                                if changed.is_err() { return; }
                            }
                        }
                        tokio::select! {
                            _ = cut.changed() => return,
                            changed = silenced.wait_for(|silent| !*silent) => {
                                if changed.is_err() { return; }
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            cuts,
            silent,
        }
    }

    /// A kubeconfig that leads through here.
    fn config(&self, plane: &Plane) -> K8sConfig {
        let text = std::fs::read_to_string(&plane.kubeconfig).expect("a kubeconfig");
        let begin = text.find("https://").expect("a server");
        let end = begin + text[begin..].find('"').expect("the end of the server");
        let through = format!("{}https://{}{}", &text[..begin], self.address, &text[end..]);
        let file = plane.state.join("through.kubeconfig");
        std::fs::write(&file, through).expect("writable");
        K8sConfig::with_kubeconfig(file)
    }
}

fn server(plane: &Plane) -> String {
    let text = std::fs::read_to_string(&plane.kubeconfig).expect("a kubeconfig");
    let begin = text.find("https://").expect("a server") + "https://".len();
    let end = begin + text[begin..].find('"').expect("the end of the server");
    text[begin..end].to_owned()
}

/// The hints of a watch until one at this object comes.
async fn until(watch: &mut sless_core::WatchStream, wanted: &ObjectKey) {
    let reading = async {
        loop {
            match watch
                .next()
                .await
                .expect("the watch goes on")
                .expect("and without an error")
            {
                WatchEvent::Changed { key, .. } if key == *wanted => return,
                _ => {}
            }
        }
    };
    let read = tokio::time::timeout(CONVERGENCE, reading).await;
    read.unwrap_or_else(|_| panic!("no hint at {wanted} within {CONVERGENCE:?}"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_cut_watch_goes_on_and_misses_nothing() {
    let plane = Plane::start("cuts");
    let between = Between::start(server(&plane)).await;
    let direct = catalog(plane.config()).await;
    let mut config = between.config(&plane);
    config.catalog.watch_idle_seconds = 1;
    config.catalog.watch_backoff_ms = 200;
    let through = catalog(config).await;
    direct.ensure_namespace(&namespace()).await.expect("made");
    // An API server keeps changes from the first watch of a kind on; what is older has expired.
    let mut first = direct
        .watch(&WatchOptions::default())
        .await
        .expect("watched");
    let created = direct.create(function("first").into()).await;
    created.expect("created");
    until(&mut first, &key("first")).await;
    let page = direct
        .list(&ListQuery::all(Kind::Function))
        .await
        .expect("listed");
    let options = WatchOptions::default().from_position(page.position);
    let mut watch = through.watch(&options).await.expect("watched");
    for round in 0..10 {
        let name = format!("cut-{round}");
        // Cut before, after and while the change is on its way.
        if round % 2 == 0 {
            between.cuts.send_modify(|cuts| *cuts += 1);
        }
        direct
            .create(function(&name).into())
            .await
            .expect("created");
        between.cuts.send_modify(|cuts| *cuts += 1);
        until(&mut watch, &key(&name)).await;
    }
    // A connection that says nothing any more, without being closed.
    between.silent.send_replace(true);
    direct
        .create(function("silent").into())
        .await
        .expect("created");
    tokio::time::timeout(
        Duration::from_millis(500),
        until(&mut watch, &key("silent")),
    )
    .await
    .expect_err("nothing goes through");
    let mending = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        between.silent.send_replace(false);
    };
    let silent = key("silent");
    futures::join!(until(&mut watch, &silent), mending);
    plane.down();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn without_the_custom_resources_nothing_seems_to_be_deleted() {
    let plane = Plane::start("bare");
    let catalog = catalog(plane.config()).await;
    catalog.ensure_namespace(&namespace()).await.expect("made");
    plane.run(&["delete", "crd", "functions.sless.io"], "");
    let begun = Instant::now();
    let told = loop {
        let told = catalog.get(&key("f")).await.expect_err("not there");
        // The API server serves a definition for a moment after it is gone.
        if !told.is_not_found() || begun.elapsed() > CONVERGENCE {
            break told;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(
        (told.kind(), told.reason()),
        (ErrorKind::Unavailable, "crds_missing")
    );
    let listed = catalog.list(&ListQuery::all(Kind::Function)).await;
    assert_eq!(listed.expect_err("not listed").reason(), "crds_missing");
    plane.down();
}
