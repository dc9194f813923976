//! The exported suites on a real API server.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use sless_conformance::{Harness, catalog::CatalogHarness, lease::LeaseHarness};
use sless_core::{Catalog, Lease, Result, SystemClock};
use sless_k8s::{Cluster, KubeCatalog, KubeLease};
use tokio::sync::{Mutex, OwnedRwLockReadGuard, RwLock};

use super::plane::Plane;

/// The control plane of the suites. One clause restarts its API server, which no other may see: all others
/// hold the lock for reading.
fn plane() -> &'static (Plane, Arc<RwLock<()>>) {
    static PLANE: OnceLock<(Plane, Arc<RwLock<()>>)> = OnceLock::new();
    PLANE.get_or_init(|| (Plane::start("suites"), Arc::default()))
}

#[derive(Debug)]
struct OnPlane {
    catalog: Mutex<Arc<KubeCatalog>>,
    calm: Mutex<Option<OwnedRwLockReadGuard<()>>>,
}

async fn connect() -> Result<Arc<KubeCatalog>> {
    let cluster = Cluster::connect(plane().0.config()).await?;
    Ok(Arc::new(KubeCatalog::new(cluster)))
}

async fn harness() -> OnPlane {
    let calm = plane().1.clone().read_owned().await;
    OnPlane {
        catalog: Mutex::new(connect().await.expect("a kubeconfig")),
        calm: Mutex::new(Some(calm)),
    }
}

impl Harness for OnPlane {}

#[async_trait]
impl CatalogHarness for OnPlane {
    async fn catalog(&self) -> Result<Arc<dyn Catalog>> {
        Ok(self.catalog.lock().await.clone())
    }

    async fn reopen(&self) -> Result<bool> {
        *self.catalog.lock().await = connect().await?;
        Ok(true)
    }

    async fn forget_history(&self) -> Result<bool> {
        let mut calm = self.calm.lock().await;
        calm.take();
        let (plane, lock) = plane();
        let alone = lock.clone().write_owned().await;
        plane.compact();
        // The API server remembers a while longer than etcd, until it starts anew.
        plane.component("restart", "apiserver");
        *calm = Some(alone.downgrade());
        Ok(true)
    }
}

sless_conformance::catalog! {
    #[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
    harness().await
}

#[derive(Debug)]
struct Leases {
    one: Arc<KubeLease>,
    _calm: OwnedRwLockReadGuard<()>,
}

async fn lease_of_a_process() -> Result<Arc<KubeLease>> {
    let cluster = Cluster::connect(plane().0.config()).await?;
    Ok(Arc::new(KubeLease::new(cluster, Arc::new(SystemClock))))
}

async fn leases() -> Leases {
    let _calm = plane().1.clone().read_owned().await;
    let one = lease_of_a_process().await.expect("a kubeconfig");
    Leases { one, _calm }
}

impl Harness for Leases {}

#[async_trait]
impl LeaseHarness for Leases {
    async fn lease(&self) -> Result<Arc<dyn Lease>> {
        Ok(self.one.clone())
    }

    async fn another(&self) -> Result<Arc<dyn Lease>> {
        Ok(lease_of_a_process().await?)
    }
}

mod lease {
    use super::leases;

    sless_conformance::lease! {
        #[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
        leases().await
    }
}
