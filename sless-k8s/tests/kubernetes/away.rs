//! The registry and the storage of sources away for a while: what waits for them goes on by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use sless_core::{
    CatalogExt as _, Deploy, ErrorKind, Function, FunctionPhase, FunctionSpec, Name, Runtime,
    SystemClock,
    decorate::{Fault, FaultRule, Faults},
    memory::MemoryStorage,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use super::{
    operator::{self, Operator, eventually, is_long, namespace},
    plane::Plane,
    world::{self, variable},
};

/// Passes connections on, unless the other side is away.
async fn registry(away: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let target = variable("SLESS_TEST_REGISTRY");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (away, target) = (away.clone(), target.clone());
            tokio::spawn(async move {
                let is_away = async {
                    while !away.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                };
                let passing = async {
                    if let Ok(mut server) = TcpStream::connect(&target).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                };
                // Connections break off, and new ones are closed at once.
                tokio::select! {
                    biased;
                    () = is_away => {}
                    () = passing => {}
                }
            });
        }
    });
    address
}

fn deploy(name: &str) -> Deploy {
    let source = format!("def handle(event):\n    return {name:?}\n");
    Deploy::files(
        namespace("away"),
        Name::new(name).expect("a label"),
        FunctionSpec::new(Runtime::Python311),
        [("handler.py", source)],
    )
    .expect("a source")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn builds_wait_for_a_registry_and_a_storage_that_are_away() {
    let plane = Plane::start("away");
    let away = Arc::new(AtomicBool::new(false));
    let registry = registry(away.clone()).await;
    let faults = Faults::seeded(1, Arc::new(SystemClock));
    let storage = Fault::new(MemoryStorage::new(Arc::new(SystemClock)), &faults);
    let node = variable("SLESS_TEST_REGISTRY");
    let builder = world::builder_at(registry, &node, &format!("away-{}", world::mark()));
    let builder = Arc::new(builder.expect("a builder"));
    let operator = Operator::start_with(
        operator::settings(plane.config()),
        Duration::from_secs(600),
        |backends| {
            backends.builders = vec![builder];
            backends.storage = Arc::new(storage);
        },
    )
    .await;
    let sless = &operator.sless;
    let place = namespace("away");
    sless.ensure_namespace(&place).await.expect("made");
    let deployed = async |name: &str| {
        let deploy = deploy(name);
        let (namespace, name, spec) = (&deploy.namespace, &deploy.name, &deploy.spec);
        sless
            .put_function(namespace, name, spec)
            .await
            .expect("put");
        let zip = sless_core::bytes_stream(deploy.zip.clone());
        sless.upload(namespace, name, zip).await.expect("uploaded");
    };
    let read = async |name: &str| {
        let name = Name::new(name).expect("a label");
        let catalog = &sless.backends().catalog;
        let read: Function = catalog.read(&place, &name).await.expect("there");
        read.status
    };
    // No node runs it here; what counts is that it is built, and on its way.
    let is_built = async |name: &str| {
        let what = format!("{name} is built");
        eventually(&what, async || match read(name).await {
            status if status.artifact.is_some() && status.reason == "starting" => Ok(()),
            status => Err(format!("{status:?}")),
        })
        .await;
    };
    let length = Duration::from_secs(if is_long() { 60 } else { 4 });
    deployed("before").await;
    is_built("before").await;

    away.store(true, Ordering::Relaxed);
    deployed("registry").await;
    eventually(
        "the status says that the registry is away",
        async || match read("registry").await {
            status if status.phase == FunctionPhase::Failed && !status.reason.is_empty() => Ok(()),
            status => Err(format!("{status:?}")),
        },
    )
    .await;
    println!("without a registry: {:?}", read("registry").await.message);
    tokio::time::sleep(length).await;
    away.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    is_built("registry").await;
    println!(
        "the registry was away: built {:?} after it came back",
        begun.elapsed()
    );

    // The upload is there, and what it put there cannot be read.
    faults.add(FaultRule::on("storage.get").failing(ErrorKind::Unavailable));
    deployed("storage").await;
    tokio::time::sleep(length).await;
    assert!(faults.injected("storage.get") > 0, "it was asked for");
    faults.clear();
    let begun = Instant::now();
    is_built("storage").await;
    println!(
        "the storage was away: built {:?} after it came back",
        begun.elapsed()
    );
    operator.stop().await;
    plane.down();
}
