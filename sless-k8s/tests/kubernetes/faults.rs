//! What an operator makes of faults: within thirty seconds after the last one, the cluster is as the catalog
//! wants it, with nothing left and nothing doubled.
//!
//! `SLESS_TEST_LONG=1` runs each for longer: a minute of lost events and cut watches, fifty restarts of the
//! API server, two hundred killed operators.

use std::{
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    apps::v1::Deployment, core::v1::Namespace as KubeNamespace, core::v1::Service,
    networking::v1::NetworkPolicy,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use sless_core::{Catalog, CatalogExt as _, Function, Kind, Name, Namespace, ObjectKey};
use sless_k8s::{Cluster, K8sConfig, KubeCatalog};

use super::{
    between::Between,
    operator::{self, Operator, converges, disturb, function, is_long, namespace},
    plane::Plane,
};

/// How often an operator looks at everything, whatever it was told.
const RESYNC: Duration = Duration::from_secs(8);

/// A control plane, what reaches it undisturbed, and two namespaces with functions.
struct World {
    plane: Plane,
    client: Client,
    catalog: Arc<KubeCatalog>,
    namespaces: Vec<Namespace>,
}

impl World {
    async fn new(name: &str) -> Self {
        let plane = Plane::start(name);
        let cluster = Cluster::connect(plane.config()).await.expect("settings");
        let catalog = Arc::new(KubeCatalog::new(cluster));
        let namespaces = vec![namespace("fault-a"), namespace("fault-b")];
        let world = Self {
            client: operator::client(&plane.kubeconfig).await,
            catalog,
            namespaces,
            plane,
        };
        for namespace in &world.namespaces {
            world
                .catalog
                .ensure_namespace(namespace)
                .await
                .expect("made");
            world.ensure_workloads(namespace).await;
            for at in 0..4 {
                let function = function(namespace, &format!("f-{at}"), 0);
                world
                    .catalog
                    .create(function.into())
                    .await
                    .expect("created");
            }
        }
        world
    }

    /// What `ensure` makes; here there is no server that does it.
    async fn ensure_workloads(&self, namespace: &Namespace) {
        let name = namespace.workloads();
        let object: KubeNamespace =
            serde_json::from_value(json!({"metadata": {"name": name.as_str()}})).expect("made");
        let api: Api<KubeNamespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &object)
            .await
            .expect("created");
    }

    fn config(&self) -> K8sConfig {
        operator::settings(self.plane.config())
    }

    async fn converges(&self, what: &str) -> usize {
        converges(what, &self.client, &*self.catalog).await
    }

    /// Deletes all functions; nothing of them may be left.
    async fn end(self, operator: Operator) {
        let all: Vec<Function> = self.catalog.read_all(None).await.expect("listed");
        for function in all {
            let metadata = function.metadata;
            let key = ObjectKey::new(Kind::Function, metadata.namespace, metadata.name);
            let _ = self.catalog.delete(&key, &Default::default()).await;
        }
        assert_eq!(self.converges("everything is deleted").await, 0);
        operator.stop().await;
        self.plane.down();
    }
}

fn seconds(short: u64, long: u64) -> Duration {
    Duration::from_secs(if is_long() { long } else { short })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn lost_events_cuts_conflicts_and_lost_answers_are_made_up_for() {
    let world = World::new("losses").await;
    let between = Between::start(&world.plane.kubeconfig).await;
    let operator = Operator::start(between.through(world.config()), RESYNC).await;
    world.converges("at first").await;
    let disturbing = async |what: &str, during: Duration| {
        let damage = between.damage();
        let disturb = disturb(&*world.catalog, &world.namespaces);
        let _ = tokio::time::timeout(during, disturb).await;
        let after = between.damage();
        between.lose_events(0);
        between.conflict(0);
        between.break_answers(0);
        let begun = Instant::now();
        let count = world.converges(what).await;
        println!(
            "{what}: {count} functions at rest after {:?}; lost events and spoilt writes: {:?}",
            begun.elapsed(),
            (after.0 - damage.0, after.1 - damage.1)
        );
        (after.0 - damage.0, after.1 - damage.1)
    };
    let during = seconds(6, 60);
    between.lose_events(50);
    let (lost, _) = disturbing("half of the events are lost", during).await;
    assert!(lost > 10, "{lost} events were lost");
    between.conflict(30);
    let (_, spoilt) = disturbing("writes conflict", during).await;
    assert!(spoilt > 3, "{spoilt} writes conflicted");
    between.break_answers(30);
    let (_, spoilt) = disturbing("the answers to writes are lost", during).await;
    assert!(spoilt > 3, "the answers to {spoilt} writes were lost");
    // Watches that are cut while things change, and an API server that is away for a moment.
    let cutting = async {
        loop {
            between.cut();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let cut_and_disturbed = async {
        tokio::select! {
            () = cutting => {}
            _ = disturbing("watches are cut", during) => {}
        }
    };
    cut_and_disturbed.await;
    between.away(true);
    let _ = tokio::time::timeout(seconds(3, 60), disturb(&*world.catalog, &world.namespaces)).await;
    between.away(false);
    world.converges("the API server was away").await;
    world.end(operator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn restarts_of_the_api_server_and_compactions_are_survived() {
    let world = World::new("restarted").await;
    let operator = Operator::start(world.config(), RESYNC).await;
    world.converges("at first").await;
    let rounds = if is_long() { 50 } else { 3 };
    for round in 0..rounds {
        let breaking = async {
            let plane = &world.plane;
            tokio::task::block_in_place(|| match round % 3 {
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
            });
        };
        let catalog = world.catalog.clone();
        let namespaces = world.namespaces.clone();
        let disturbing = tokio::spawn(async move { disturb(&*catalog, &namespaces).await });
        breaking.await;
        disturbing.abort();
        let _ = disturbing.await;
        let begun = Instant::now();
        // The API server is there again when it says so, and all it does may take it a moment longer.
        let count = world.converges(&format!("restart {round}")).await;
        println!(
            "restart {round}: {count} functions at rest after {:?}",
            begun.elapsed()
        );
    }
    world.end(operator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn what_other_hands_do_is_undone() {
    let world = World::new("hands").await;
    let operator = Operator::start(world.config(), RESYNC).await;
    let count = world.converges("at first").await;
    let place = world.namespaces[0].workloads();
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), place.as_str());
    let services: Api<Service> = Api::namespaced(world.client.clone(), place.as_str());
    let policies: Api<NetworkPolicy> = Api::namespaced(world.client.clone(), place.as_str());
    let all = ListParams::default();
    // The object that says what is wanted.
    let edit = json!({"spec": {"env": {"VERSION": "by hand"}, "replicas": 3}});
    let args = ["-n", "fault-a", "patch", "fn/f-0", "--type=merge", "-p"];
    let edit = edit.to_string();
    world.plane.run(&[&args[..], &[edit.as_str()]].concat(), "");
    world.converges("the function was edited").await;
    // What was made of it: images, labels, annotations, numbers.
    for deployment in deployments.list(&all).await.expect("listed").items {
        let edits = [
            json!({"spec": {"replicas": 9}}),
            json!({"metadata": {"labels": {"sless.io/uid": null}}}),
            json!({"metadata": {"annotations": null}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "function", "image": "other"}]}}}}),
        ];
        let edit = &edits[fastrand::usize(0..edits.len())];
        let params = PatchParams::default();
        let name = deployment.name_any();
        let patched = deployments
            .patch(&name, &params, &Patch::Strategic(edit))
            .await;
        patched.expect("edited");
    }
    world.converges("what was made was edited").await;
    let image = |deployment: &Deployment| {
        let spec = deployment.spec.as_ref()?.template.spec.as_ref()?;
        spec.containers.first()?.image.clone()
    };
    operator::eventually("the images are right again", async || {
        let images = deployments.list(&all).await.expect("listed").items;
        let wrong = images
            .iter()
            .filter_map(image)
            .find(|image| image == "other");
        wrong.map_or(Ok(()), Err)
    })
    .await;
    // Children that are deleted.
    let gone = DeleteParams::background();
    deployments
        .delete_collection(&gone, &all)
        .await
        .expect("deleted");
    for service in services.list(&all).await.expect("listed").items {
        let _ = services.delete(&service.name_any(), &gone).await;
    }
    policies
        .delete_collection(&gone, &all)
        .await
        .expect("deleted");
    assert_eq!(world.converges("the children were deleted").await, count);
    operator::eventually("the policy is there again", async || {
        let there = policies
            .get_opt("sless-functions")
            .await
            .expect("an answer");
        there.map(drop).ok_or_else(|| "no policy".to_owned())
    })
    .await;
    world.end(operator).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn a_namespace_that_somebody_deletes_is_told_and_can_come_back() {
    let world = World::new("ending").await;
    let operator = Operator::start(world.config(), RESYNC).await;
    let count = world.converges("at first").await;
    let ending = &world.namespaces[0];
    let place = ending.workloads();
    let api: Api<KubeNamespace> = Api::all(world.client.clone());
    // Nothing here lets a namespace go but this test, so it ends as long as this test wants it to.
    api.delete(place.as_str(), &DeleteParams::default())
        .await
        .expect("deleted");
    let all = ListParams::default();
    let gone = DeleteParams::background();
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), place.as_str());
    let services: Api<Service> = Api::namespaced(world.client.clone(), place.as_str());
    deployments
        .delete_collection(&gone, &all)
        .await
        .expect("deleted");
    for service in services.list(&all).await.expect("listed").items {
        let _ = services.delete(&service.name_any(), &gone).await;
    }
    let reason = async |function: &str| {
        let name = Name::new(function).expect("a label");
        let read: Function = world.catalog.read(ending, &name).await.expect("there");
        (read.status.reason, read.status.message)
    };
    operator::eventually("the status says that the namespace ends", async || {
        let seen = reason("f-0").await;
        let told = seen.0 == "namespace_terminating" && seen.1.contains(place.as_str());
        if told {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await;
    // A function can be deleted meanwhile.
    let key = ObjectKey::new(
        Kind::Function,
        ending.clone(),
        Name::new("f-1").expect("a label"),
    );
    world
        .catalog
        .delete(&key, &Default::default())
        .await
        .expect("deleted");
    operator::eventually("it goes", async || match world.catalog.get(&key).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let finalize = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place.as_str()},
        "spec": {"finalizers": []},
    });
    let path = format!("/api/v1/namespaces/{place}/finalize");
    world.plane.run(
        &["replace", "--raw", &path, "-f", "-"],
        &finalize.to_string(),
    );
    operator::eventually(
        "the status says that the namespace is missing",
        async || {
            let seen = reason("f-0").await;
            let told = seen.0 == "namespace_missing";
            if told {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        },
    )
    .await;
    world.ensure_workloads(ending).await;
    assert_eq!(world.converges("it is there again").await, count - 1);
    world.end(operator).await;
}

/// An operator in a process of its own, for the test below, which kills it. Without its variable this does
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: started by the test that kills operators"]
async fn an_operator_that_is_killed() {
    let Some(kubeconfig) = std::env::var_os("SLESS_TEST_OPERATOR") else {
        return;
    };
    let config = K8sConfig::with_kubeconfig(kubeconfig);
    let _operator = Operator::start(operator::settings(config), RESYNC).await;
    std::future::pending::<()>().await;
}

fn operator_process(between: &Between) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args([
            "kubernetes::faults::an_operator_that_is_killed",
            "--exact",
            "--ignored",
        ])
        .env("SLESS_TEST_OPERATOR", between.kubeconfig())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn an_operator_may_be_killed_at_any_time() {
    let world = World::new("killed").await;
    let between = Between::start(&world.plane.kubeconfig).await;
    let rounds = if is_long() { 200 } else { 6 };
    let disturbing = async {
        let catalog = world.catalog.clone();
        let namespaces = world.namespaces.clone();
        disturb(&*catalog, &namespaces).await;
    };
    let killing = async {
        for _ in 0..rounds {
            let mut child = operator_process(&between);
            let lives = Duration::from_millis(fastrand::u64(200..2_500));
            tokio::time::sleep(lives).await;
            child.kill().expect("it lives");
            child.wait().expect("it ends");
        }
    };
    tokio::select! {
        () = disturbing => {}
        () = killing => {}
    }
    let writes: usize = between.writes().values().sum();
    println!("{rounds} operators were killed in the middle of {writes} writes");
    assert!(writes > rounds, "they had {writes} writes to do");
    let operator = Operator::start(world.config(), RESYNC).await;
    world.converges("after the last one was killed").await;
    world.end(operator).await;
}
