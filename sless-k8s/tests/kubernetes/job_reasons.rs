//! What a status tells of runs of jobs that cannot be made or end badly, and of what the cluster's own
//! policies refuse.

use std::time::{Duration, Instant};

use k8s_openapi::api::{
    admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
    core::v1::ResourceQuota,
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use sless_conformance::Fixture;
use sless_core::{
    Failure, JobId, JobRun, Name, RunPhase, Scheduler as _, Uid, Workload, WorkloadPhase,
};

use super::{
    place::Place,
    world::{self, eventually},
};

/// The reason for which a run of this ends, or waits.
async fn failure(place: &Place, workload: &Workload, may_pass: bool) -> Failure {
    let run = JobRun {
        job: JobId {
            namespace: place.namespace.clone(),
            name: Name::new(workload.function.name.as_str()).expect("a name"),
            uid: Uid::random(),
        },
        run_id: 1,
        workload: workload.clone(),
        event: "{}".to_owned(),
        timeout: Duration::from_secs(30),
        began: false,
    };
    let what = format!("the run of {} says why", workload.function);
    eventually(&what, async || {
        let status = place.scheduler.run_job(&run).await.expect("a run");
        // What may pass, as a quota does, is told while the run waits.
        let told = status.phase == RunPhase::Failed || may_pass;
        match status.failure.clone().filter(|_| told) {
            Some(failure) => Ok(failure),
            None => Err(format!("{status:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_run_that_fails_tells_the_real_reason() {
    let place = Place::new().await;
    let mut missing = place.fixture("missing", Fixture::Echo).await;
    let image = missing.artifact.reference.split('@').next();
    let image = image.unwrap_or_default().to_owned();
    missing.artifact.digest = world::no_image();
    missing.artifact.reference = format!("{image}@{}", missing.artifact.digest);
    let mut greedy = place
        .python("greedy", "def handle(event):\n    data = bytearray(1 << 30)\n    for at in range(0, len(data), 4096): data[at] = 1\n")
        .await;
    greedy.memory = Some("48Mi".parse().expect("a quantity"));
    let crash = place
        .python("crash", "import os\ndef handle(event):\n    print('about to end', flush=True)\n    os._exit(7)\n")
        .await;
    let import = place.fixture("import", Fixture::BadImport).await;
    let raises = place
        .python(
            "raises",
            "def handle(event):\n    raise ValueError('no luck')\n",
        )
        .await;
    let all = [&missing, &greedy, &crash, &import, &raises];
    let place = &place;
    let found =
        futures::future::join_all(all.map(|workload| failure(place, workload, false))).await;
    let words: Vec<&str> = found.iter().map(|failure| &*failure.reason).collect();
    assert_eq!(words[0], "image_pull", "{found:?}");
    assert_eq!(words[1], "out_of_memory", "{found:?}");
    assert!(found[2].log_tail.contains("about to end"), "{found:?}");
    assert_eq!(words[3], "handler_import", "{found:?}");
    assert!(found[4].message.contains("no luck"), "{found:?}");
    assert!(
        found.iter().all(|failure| !failure.message.is_empty()),
        "{found:?}"
    );
    world::remove_namespaces(&place.mark).await;
    place.scheduler.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_run_over_quota_is_told_at_once() {
    let place = Place::new().await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
    place
        .api::<ResourceQuota>()
        .create(&PostParams::default(), &quota)
        .await
        .expect("a quota");
    let workload = place.fixture("over", Fixture::Echo).await;
    let begun = Instant::now();
    let failure = failure(&place, &workload, true).await;
    assert_eq!(failure.reason, "quota", "{failure:?}");
    assert!(failure.message.contains("none"), "{failure:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(45),
        "{:?}",
        begun.elapsed()
    );
    place.end().await;
}

/// What an administrator's own rule refuses, as it says so: the Deployment itself, and a run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn what_an_administrator_refuses_is_told_in_their_words() {
    let place = Place::new().await;
    let client = world::client().await;
    let name = format!("sless-test-{}", place.mark);
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"test": place.mark}},
                "resourceRules": [{
                    "apiGroups": ["apps", "batch"], "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"], "resources": ["deployments", "jobs"],
                }],
            },
            "validations": [{"expression": "false", "message": "not in this house"}],
        },
    });
    let binding = json!({
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client);
    let params = PostParams::default();
    let policy = serde_json::from_value(policy).expect("a policy");
    policies.create(&params, &policy).await.expect("created");
    let binding = serde_json::from_value(binding).expect("a binding");
    bindings.create(&params, &binding).await.expect("created");
    let workload = place.fixture("refused", Fixture::Echo).await;
    // The API server takes a moment to heed a policy.
    let told = eventually("it is refused", async || {
        let status = place.scheduler.apply(&workload).await.expect("an answer");
        match (status.phase, status.failure.clone()) {
            (WorkloadPhase::Failed, Some(failure)) => Ok(failure),
            _ => {
                place
                    .scheduler
                    .remove(&workload.function)
                    .await
                    .expect("removed");
                Err(format!("{status:?}"))
            }
        }
    })
    .await;
    let ran = failure(&place, &workload, false).await;
    let gone = DeleteParams::default();
    policies.delete(&name, &gone).await.expect("deleted");
    bindings.delete(&name, &gone).await.expect("deleted");
    for failure in [told, ran] {
        assert_eq!(failure.reason, "admission_denied", "{failure:?}");
        assert!(failure.message.contains("not in this house"), "{failure:?}");
    }
    place.end().await;
}
