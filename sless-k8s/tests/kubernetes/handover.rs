//! Triggers of the catalog as CronJobs of the cluster: what the engine leaves to it.

use std::time::Duration;

use k8s_openapi::api::batch::v1::CronJob;
use kube::{Api, api::ListParams};
use sless_core::{
    Catalog as _, CatalogExt as _, Kind, Metadata, Name, ObjectKey, Trigger, TriggerSpec,
};
use sless_k8s::{Cluster, CronJobConfig, KubeCatalog};

use super::{
    operator::{self, Operator, eventually, function, namespace},
    plane::Plane,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn the_engine_leaves_cron_triggers_to_the_cluster() {
    let plane = Plane::start("handover");
    let mut config = operator::settings(plane.config());
    config.scheduler.cron_jobs = Some(CronJobConfig::default());
    let catalog = KubeCatalog::new(Cluster::connect(config.clone()).await.expect("settings"));
    let place = namespace("handover");
    catalog.ensure_namespace(&place).await.expect("made");
    plane.run(&["create", "namespace", place.workloads().as_str()], "");
    let operator = Operator::start(config, Duration::from_secs(8)).await;
    let client = operator::client(&plane.kubeconfig).await;
    let api: Api<CronJob> = Api::namespaced(client, place.workloads().as_str());
    let name = Name::new("clock").expect("a label");
    let seen = async || {
        let jobs = api
            .list(&ListParams::default())
            .await
            .expect("listed")
            .items;
        let suspended = |job: &CronJob| job.spec.suspend;
        jobs.iter().map(suspended).collect::<Vec<_>>()
    };
    let until = async |what: &str, wanted: &[Option<bool>]| {
        eventually(what, async || match seen().await {
            found if found == wanted => Ok(()),
            found => Err(format!("{found:?}")),
        })
        .await;
    };

    // Without its function it is not made.
    let spec = TriggerSpec::cron(Name::new("hello").expect("a label"), "* * * * *");
    let trigger = Trigger::new(Metadata::new(place.clone(), name.clone()), spec);
    catalog.create(trigger.into()).await.expect("created");
    eventually("the function is missed", async || {
        let read: Trigger = catalog.read(&place, &name).await.expect("there");
        let told = read.status.reason == "function_missing";
        if told {
            Ok(())
        } else {
            Err(format!("{:?}", read.status))
        }
    })
    .await;
    assert!(seen().await.is_empty());
    let hello = function(&place, "hello", 0);
    catalog.create(hello.into()).await.expect("created");
    until("it is made", &[Some(false)]).await;
    eventually("the status says so, and when it fires next", async || {
        let read: Trigger = catalog.read(&place, &name).await.expect("there");
        let told = read.status.active && read.status.next_fire_at.is_some();
        if told {
            Ok(())
        } else {
            Err(format!("{:?}", read.status))
        }
    })
    .await;
    let enable = async |enabled: bool| {
        let change = |trigger: &mut Trigger| {
            trigger.spec.enabled = enabled;
            Ok(())
        };
        let changed = catalog.modify::<Trigger, _>(&place, &name, change).await;
        changed.expect("changed");
    };
    enable(false).await;
    until("it is suspended", &[Some(true)]).await;
    enable(true).await;
    until("it fires again", &[Some(false)]).await;
    // Without its function it is suspended, too, and not forgotten.
    let hello = ObjectKey::new(
        Kind::Function,
        place.clone(),
        Name::new("hello").expect("a label"),
    );
    catalog
        .delete(&hello, &Default::default())
        .await
        .expect("deleted");
    until("it waits for its function", &[Some(true)]).await;
    let key = ObjectKey::new(Kind::Trigger, place.clone(), name.clone());
    let read: Trigger = catalog.read(&place, &name).await.expect("there");
    assert!(
        read.status.ledger.is_none_or(|ledger| ledger.fired == 0),
        "the engine fired"
    );
    let receipt = operator.sless.delete(&key).await.expect("deleted");
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| &*removed.kind)
        .collect();
    assert_eq!(kinds, ["cron_job"]);
    until("nothing is left", &[]).await;
    operator.stop().await;
    plane.down();
}
