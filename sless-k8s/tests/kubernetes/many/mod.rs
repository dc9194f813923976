//! Many functions on simulated nodes: how soon they are ready, how much is written for each, what is
//! written at rest, and what an operator costs that finds them there.
//!
//! `SLESS_TEST_FUNCTIONS` says how many (60 where it says nothing), `SLESS_TEST_LONG` looks at the rest for
//! ten minutes.

mod ready;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use http::Method;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::{Api, api::PostParams, core::GroupVersionKind};
use serde_json::{Value, json};
use sless_core::{Catalog, Kind, Namespace, ObjectKey};
use sless_k8s::{Cluster, K8sConfig, KubeCatalog};

use self::ready::{AT_ONCE, bare_deployments, until_all};
use super::{
    between::Between,
    operator::{self, Operator, function, is_long, namespace},
    plane::Plane,
};

/// As in production: what is measured here must not come of it.
const RESYNC: Duration = Duration::from_secs(600);
/// What the API server may be written for one function, from its creation until it is ready.
const WRITES: usize = 5;
/// How long functions may take until they are ready, held against bare Deployments of the same number.
const RATIO: f64 = 3.0;
/// How often to look at what costs nothing to look at.
const OFTEN: Duration = Duration::from_millis(100);
/// What an operator remembers of a function that does nothing.
const MEMORY: usize = 10 * 1024;

fn count() -> usize {
    let said = std::env::var("SLESS_TEST_FUNCTIONS").ok();
    said.map_or(60, |said| said.parse().expect("a number"))
}

/// Settings whose pods go to simulated nodes.
fn simulated(kubeconfig: &Path) -> K8sConfig {
    let mut config = K8sConfig::with_kubeconfig(kubeconfig);
    let pods = &mut config.scheduler.pods;
    pods.node_selector
        .insert("type".to_owned(), "kwok".to_owned());
    pods.tolerations
        .push(json!({"key": "kwok.x-k8s.io/node", "operator": "Exists"}));
    pods.cpu_request_percent = 1;
    config
}

/// An operator in a process of its own, for the test below, which asks how much memory it takes. Without
/// its variable this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: started by the test of many functions"]
async fn an_operator_that_is_measured() {
    let Some(kubeconfig) = std::env::var_os("SLESS_TEST_MEASURED") else {
        return;
    };
    let _operator = Operator::start(simulated(Path::new(&kubeconfig)), RESYNC).await;
    std::future::pending::<()>().await;
}

/// A running operator, which ends with this.
struct Measured(Child);

impl Measured {
    fn start(kubeconfig: &Path) -> Self {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "kubernetes::many::an_operator_that_is_measured",
                "--exact",
                "--ignored",
            ])
            .env("SLESS_TEST_MEASURED", kubeconfig)
            // One heap, so that what is free in others is not counted.
            .env("MALLOC_ARENA_MAX", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("it starts"))
    }

    /// Bytes of memory that are its own.
    fn memory(&self) -> usize {
        let file = format!("/proc/{}/smaps_rollup", self.0.id());
        let text = std::fs::read_to_string(file).expect("it runs");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Private_Dirty:"));
        let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<usize>().ok());
        kilobytes.expect("a number") * 1024
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads of single functions: one for each that an operator looks at.
fn looks(method: &Method, path: &str) -> bool {
    *method == Method::GET && path.starts_with("/apis/sless.io/") && path.contains("/functions/")
}

async fn until(
    what: &str,
    patience: Duration,
    pause: Duration,
    mut reached: impl AsyncFnMut() -> Result<(), String>,
) -> Duration {
    let begun = Instant::now();
    loop {
        match reached().await {
            Ok(()) => return begun.elapsed(),
            Err(seen) => assert!(begun.elapsed() < patience, "{what}: {seen}"),
        }
        tokio::time::sleep(pause).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn many_functions_cost_little() {
    let functions = count();
    let plane = Plane::start("many").with_nodes(functions.div_ceil(900));
    let catalog = KubeCatalog::new(Cluster::connect(plane.config()).await.expect("settings"));
    let client = operator::client(&plane.kubeconfig).await;
    let namespaces: Vec<Namespace> = (0..functions.div_ceil(100).max(2))
        .map(|at| namespace(&format!("many-{at}")))
        .collect();
    let patience = Duration::from_secs(120) + Duration::from_millis(200) * functions as u32;
    let bare = bare_deployments(&client, functions, patience).await;
    let workloads: Api<KubeNamespace> = Api::all(client.clone());
    for namespace in &namespaces {
        catalog.ensure_namespace(namespace).await.expect("made");
        let name = namespace.workloads();
        let place = serde_json::from_value(json!({"metadata": {"name": name.as_str()}}));
        let place: KubeNamespace = place.expect("a namespace");
        let made = workloads.create(&PostParams::default(), &place).await;
        made.expect("created");
    }
    let between = Between::start(&plane.kubeconfig).await;
    let empty = {
        let measured = Measured::start(between.kubeconfig());
        // It has listed everything, and then watches.
        let watching = async || match between.count(|_, path| path.ends_with("/triggers")) {
            0 | 1 => Err("it does not watch".to_owned()),
            _ => Ok(()),
        };
        until(
            "the operator starts",
            Duration::from_secs(60),
            OFTEN,
            watching,
        )
        .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        measured.memory()
    };
    let operator = Operator::start(simulated(between.kubeconfig()), RESYNC).await;
    between.forget();
    let begun = Instant::now();
    let create = async {
        stream::iter(0..functions)
            .for_each_concurrent(AT_ONCE, |at| {
                let (catalog, namespaces) = (&catalog, &namespaces);
                async move {
                    let namespace = &namespaces[at % namespaces.len()];
                    let function = function(namespace, &format!("f-{at}"), 0);
                    catalog.create(function.into()).await.expect("created");
                }
            })
            .await;
        begun.elapsed()
    };
    let kind = GroupVersionKind::gvk("sless.io", "v1alpha1", "Function");
    let is_ready = |function: &Value| {
        let (metadata, status) = (&function["metadata"], &function["status"]);
        status["phase"] == "Ready" && status["observedGeneration"] == metadata["generation"]
    };
    let ready = until_all(&client, &kind, "functions", functions, patience, is_ready);
    let (created, ()) = tokio::join!(create, ready);
    let took = begun.elapsed();
    let ratio = took.as_secs_f64() / bare.as_secs_f64();
    println!(
        "{functions} bare Deployments: available in {bare:?}; functions take {ratio:.2} of it"
    );
    let writes = between.writes();
    let written: usize = writes.values().sum();
    println!(
        "{functions} functions: created in {created:?}, ready in {took:?}, {written} writes, {:.2} each",
        written as f64 / functions as f64
    );
    let mut kinds = std::collections::BTreeMap::<String, usize>::new();
    for ((method, path), count) in &writes {
        let parts: Vec<&str> = path.split('/').collect();
        // Of `/apis/{group}/{version}/namespaces/{namespace}/{resource}/{name}/{subresource}`.
        let at = parts.iter().position(|part| *part == "namespaces");
        let resource = at.and_then(|at| parts.get(at + 2)).unwrap_or(&"");
        let of = at.and_then(|at| parts.get(at + 4)).unwrap_or(&"");
        *kinds
            .entry(format!("{method} {resource} {of}"))
            .or_default() += count;
    }
    println!("{kinds:?}");
    let policies = namespaces.len();
    assert!(written <= WRITES * functions + policies, "{writes:#?}");

    // At rest. What the last status told may still be on its way.
    tokio::time::sleep(Duration::from_secs(3)).await;
    between.forget();
    tokio::time::sleep(Duration::from_secs(if is_long() { 600 } else { 10 })).await;
    assert!(
        between.writes().is_empty(),
        "written at rest: {:#?}",
        between.writes()
    );
    operator.stop().await;

    // An operator that finds all of it there.
    between.forget();
    let measured = Measured::start(between.kubeconfig());
    let looked = async || match between.count(looks) {
        count if count >= functions => Ok(()),
        count => Err(format!("it looked {count} times")),
    };
    let resynchronized = until(
        "the new operator has looked at all",
        patience,
        OFTEN,
        looked,
    )
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(
        between.writes().is_empty(),
        "written by a restart: {:#?}",
        between.writes()
    );
    let each = measured.memory().saturating_sub(empty) / functions;
    println!(
        "a restarted operator has looked at all after {resynchronized:?}, without a write; it takes {} KiB \
         without functions, and {each} bytes for each",
        empty / 1024
    );
    if functions >= 500 {
        // With few, what differs is no matter of functions.
        assert!(
            ratio <= RATIO,
            "functions take {ratio:.2} of bare Deployments"
        );
        assert!(each <= MEMORY, "{each} bytes for each function");
    }
    drop(measured);
    for at in 0..functions.min(5) {
        let namespace = namespaces[at % namespaces.len()].clone();
        let name = format!("f-{at}").parse().expect("a label");
        let key = ObjectKey::new(Kind::Function, namespace, name);
        catalog
            .delete(&key, &Default::default())
            .await
            .expect("deleted");
    }
    plane.down();
}
