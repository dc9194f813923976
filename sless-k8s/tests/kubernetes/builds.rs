//! Builds in Jobs: what is installed, what is told, and what is left behind.

use std::{sync::Arc, time::Instant};

use futures::TryStreamExt as _;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ResourceQuota, Secret},
    networking::v1::NetworkPolicy,
};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;
use sless_core::{BuildRequest, BuildStatus, Builder, LogOptions, Runtime, reason};

use super::{
    build_place::{BuildPlace, PATIENCE, Which, end, failure, function, request},
    closed_registry::ClosedRegistry,
    index::Index,
    place::{Place, ask},
    world,
};

const PYTHON: &str = "import brought\n\ndef handle(event):\n    return brought.ANSWER\n";
const NODE: &str = "exports.handle = () => require('carried');\n";

async fn python(requirements: &str) -> BuildRequest {
    let files = [("handler.py", PYTHON), ("requirements.txt", requirements)];
    request(Runtime::Python311, &function("python"), &files).await
}

async fn node(package: &str) -> BuildRequest {
    let files = [("handler.js", NODE), ("package.json", package)];
    request(Runtime::NodeJs20, &function("node"), &files).await
}

async fn log(builder: &Arc<dyn Builder>, request: &BuildRequest) -> Vec<String> {
    let log = builder.logs(&request.id, &LogOptions::default()).await;
    let lines = log.expect("a log").map_ok(|line| line.text);
    lines.try_collect().await.expect("lines")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn what_is_installed_is_there_when_the_function_runs() {
    let (place, index) = (Place::new().await, Index::start().await);
    let mut builds = BuildPlace::new().await;
    builds.builds.env = index.variables();
    let builder = builds.builder(Which::Chosen).await.expect("a builder");
    let package = r#"{"private":true,"dependencies":{"carried":"^1.0.0"}}"#;
    let sources = [
        (
            Runtime::Python311,
            python("# one\nbrought>=1\n").await,
            json!(42),
        ),
        (Runtime::NodeJs20, node(package).await, json!(43)),
    ];
    for (runtime, request, expected) in sources {
        let begun = Instant::now();
        let BuildStatus::Succeeded { artifact, .. } = end(&builder, &request).await else {
            panic!("{:?}", builder.ensure(&request).await);
        };
        println!("{runtime}: built in {:?}", begun.elapsed());
        let mut workload = place.python("built", "def handle(event): pass\n").await;
        workload.runtime = runtime;
        workload.function.uid = sless_core::Uid::random();
        workload.artifact = artifact;
        let invoker = place.ready(&workload).await;
        assert_eq!(ask(&invoker, &json!({})).await, expected, "{runtime}");
    }
    builds.empty().await;
    builds.end().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_failed_install_names_what_is_missing() {
    let index = Index::start().await;
    let mut place = BuildPlace::new().await;
    place.builds.env = index.variables();
    for which in [Which::BuildKit, Which::Kaniko] {
        let builder = place.builder(which).await.expect("a builder");
        let missing = r#"{"private":true,"dependencies":{"carried":"1.0.0","nowhere":"2.x"}}"#;
        let version = r#"{"private":true,"dependencies":{"carried":"^9.1.0"}}"#;
        let sources = [
            (
                python("# one\nbrought\nnowhere==9.9\n").await,
                "requirements.txt line 3 (nowhere==9.9)",
                "No matching distribution found",
            ),
            (
                node(missing).await,
                "package nowhere@2.x",
                "not in the registry",
            ),
            (
                node(version).await,
                "package carried@^9.1.0",
                "no such version",
            ),
        ];
        for (request, named, why) in sources {
            let (failure, transient) = failure(&builder, &request).await;
            let seen = Instant::now();
            assert!(!transient, "{failure:?}");
            assert_eq!(failure.reason, reason::INSTALL_FAILED, "{failure:?}");
            assert!(failure.message.contains(named), "{which:?}: {failure:?}");
            assert!(failure.message.contains(why), "{which:?}: {failure:?}");
            let lines = log(&builder, &request).await;
            assert!(
                lines
                    .iter()
                    .any(|line| line.contains("nowhere") || line.contains("carried"))
            );
            println!(
                "{which:?}: {} ({:?} after)",
                failure.message,
                seen.elapsed()
            );
        }
    }
    place.empty().await;
    place.end().await;
}

/// Begins a build whose index does not answer, and waits until it asks it.
async fn begin(builder: &Arc<dyn Builder>, index: &Index, request: &BuildRequest) {
    index.hold(true);
    let before = index.asked().len();
    world::within(PATIENCE, "the build asks for a package", async || {
        let status = builder.ensure(request).await.expect("an answer");
        if index.asked().len() == before {
            return Err(format!("{status:?}"));
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_build_is_followed_cancelled_and_taken_up_again() {
    let index = Index::start().await;
    let mut place = BuildPlace::new().await;
    place.builds.env = index.variables();
    let builder = place.builder(Which::BuildKit).await.expect("a builder");
    let request = python("brought\n").await;
    begin(&builder, &index, &request).await;

    // What is being done is told while it is done.
    let mut follow = LogOptions::default();
    follow.follow = true;
    let mut lines = builder.logs(&request.id, &follow).await.expect("a log");
    let asks = async {
        while let Some(line) = lines.try_next().await.expect("a line") {
            if line.text.contains("pip install") {
                return;
            }
        }
        panic!("the log ended");
    };
    tokio::time::timeout(PATIENCE, asks)
        .await
        .expect("the log names the step while it goes on");
    let status = builder.ensure(&request).await.expect("an answer");
    let step = matches!(&status, BuildStatus::Running { step } if step == "pip install");
    assert!(step, "{status:?}");

    // Cancelled, it is gone at once, with everything that it had.
    let begun = Instant::now();
    builder.cancel(&request.id).await.expect("a cancellation");
    println!("cancelled in {:?}", begun.elapsed());
    assert_eq!((place.jobs().await.len(), place.pods().await.len()), (0, 0));

    // Begun anew, and left by its process: the next one takes up the same Job.
    begin(&builder, &index, &request).await;
    let of = |jobs: Vec<Job>| {
        let uids = jobs.into_iter().map(|job| job.metadata.uid.expect("a uid"));
        uids.collect::<Vec<_>>()
    };
    let before = of(place.jobs().await);
    assert_eq!(before.len(), 1);
    drop((builder, lines));
    let next = place.builder(Which::BuildKit).await.expect("a builder");
    let status = next.ensure(&request).await.expect("an answer");
    assert!(matches!(status, BuildStatus::Running { .. }), "{status:?}");
    assert_eq!(of(place.jobs().await), before, "another Job was begun");
    index.hold(false);
    let status = end(&next, &request).await;
    assert!(
        matches!(status, BuildStatus::Succeeded { .. }),
        "{status:?}"
    );
    place.empty().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn new_code_installs_nothing_anew() {
    let index = Index::start().await;
    let mut place = BuildPlace::new().await;
    place.builds.env = index.variables();
    for which in [Which::BuildKit, Which::Kaniko] {
        let builder = place.builder(which).await.expect("a builder");
        let function = function("cached");
        let mut digests = Vec::new();
        let mut asked = 0;
        for number in 0..3 {
            let code = format!("{PYTHON}# {number}\n");
            let files = [
                ("handler.py", code.as_str()),
                ("requirements.txt", "brought\n"),
            ];
            let request = request(Runtime::Python311, &function, &files).await;
            let begun = Instant::now();
            let status = end(&builder, &request).await;
            println!("{which:?}: build {number} in {:?}", begun.elapsed());
            let BuildStatus::Succeeded { artifact, .. } = status else {
                panic!("{which:?}: {status:?}");
            };
            digests.push(artifact.digest);
            if number == 0 {
                asked = index.asked().len();
            }
        }
        assert!(asked > 0, "the first build asks for the package");
        assert_eq!(index.asked().len(), asked, "{which:?}: {:?}", index.asked());
        digests.dedup();
        assert_eq!(digests.len(), 3, "other code, another image");
        let receipt = builder.prune(&function, &[]).await.expect("a receipt");
        let kinds = |kind: &str| {
            receipt
                .removed
                .iter()
                .filter(|one| one.kind == kind)
                .count()
        };
        assert_eq!((kinds("image"), kinds("build")), (3, 3), "{receipt:?}");
        assert!(kinds("build_cache") > 0, "{receipt:?}");
    }
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn what_keeps_a_build_from_running_is_told_in_seconds() {
    let place = BuildPlace::new().await;
    let tight = BuildPlace::new().await;
    let strict = BuildPlace::with_level("restricted").await;
    let quota = json!({"metadata": {"name": "tight"}, "spec": {"hard": {"pods": "0"}}});
    let quota: ResourceQuota = serde_json::from_value(quota).expect("a quota");
    let api: Api<ResourceQuota> = BuildPlace::api(world::client().await, &tight.namespace);
    api.create(&PostParams::default(), &quota)
        .await
        .expect("a quota");
    let mut no_image = place.clone();
    no_image.builds.buildkit.image =
        format!("{}/nothing:v1", world::variable("SLESS_TEST_REGISTRY"));
    let mut no_place = place.clone();
    no_place.builds.namespace = format!("{}-gone", place.namespace);
    let cases = [
        (&no_image, reason::IMAGE_PULL, "nothing:v1"),
        (&no_place, reason::NAMESPACE_MISSING, "-gone"),
        (&tight, reason::QUOTA, "tight"),
        (&strict, reason::ADMISSION_DENIED, "PodSecurity"),
    ];
    for (place, word, told) in cases {
        let builder = place.builder(Which::BuildKit).await.expect("a builder");
        let (begun, request) = (Instant::now(), python("brought\n").await);
        let (failure, transient) = failure(&builder, &request).await;
        println!("{word} after {:?}", begun.elapsed());
        assert_eq!(failure.reason, word, "{failure:?}");
        assert!(failure.message.contains(told), "{failure:?}");
        assert!(transient, "it is not the code's fault: {failure:?}");
    }
    // No base image: nothing is begun in the cluster.
    let builder = place.builder(Which::BuildKit).await.expect("a builder");
    let mut request = python("brought\n").await;
    request.runtime.image = "sless-runtime-nothing:v1".to_owned();
    let (failure, _) = failure(&builder, &request).await;
    assert_eq!(failure.reason, reason::IMAGE_PULL, "{failure:?}");
    for place in [place, tight, strict] {
        place.empty().await;
        place.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_job_has_no_key_and_no_way_out() {
    let index = Index::start().await;
    let mut place = BuildPlace::with_level("baseline").await;
    place.builds.env = index.variables();
    // The policy lets a build reach the registry and the index, which are on one address here, and no more.
    let builder = place.builder(Which::Kaniko).await.expect("a builder");
    let request = python("brought\n").await;
    begin(&builder, &index, &request).await;
    let mut pods = place.pods().await;
    assert_eq!(pods.len(), 1, "{pods:?}");
    let spec = pods.remove(0).spec.expect("a spec");
    assert_eq!(spec.automount_service_account_token, Some(false));
    let volumes = spec.volumes.unwrap_or_default();
    assert!(
        volumes.iter().all(|volume| volume.secret.is_none()),
        "{volumes:?}"
    );
    let names: Vec<_> = spec.containers[0]
        .env
        .iter()
        .flatten()
        .map(|variable| variable.name.clone())
        .collect();
    assert_eq!(names, index.variables().into_keys().collect::<Vec<_>>());
    let api: Api<NetworkPolicy> = BuildPlace::api(world::client().await, &place.namespace);
    let policies = api
        .list(&ListParams::default())
        .await
        .expect("policies")
        .items;
    let policy = policies[0].spec.clone().expect("a spec");
    assert_eq!(
        policy.policy_types.unwrap_or_default(),
        ["Ingress", "Egress"]
    );
    assert!(policy.ingress.unwrap_or_default().is_empty());
    index.hold(false);
    let status = end(&builder, &request).await;
    assert!(
        matches!(status, BuildStatus::Succeeded { .. }),
        "{status:?}"
    );
    place.empty().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_registry_that_asks_who_is_there_is_told() {
    let (index, registry) = (Index::start().await, ClosedRegistry::start().await);
    let mut place = BuildPlace::new().await;
    place.builds.env = index.variables();
    place.images.repository = format!("{}/{}", registry.host, place.path());
    place
        .images
        .registry
        .plain_http
        .insert(registry.host.clone());
    let credentials = registry.credentials();
    let all = &mut place.images.registry.credentials;
    all.insert(registry.host.clone(), credentials);
    let secrets = async || {
        let api: Api<Secret> = BuildPlace::api(world::client().await, &place.namespace);
        let listed = api.list(&ListParams::default()).await.expect("secrets");
        listed.items.len()
    };
    for which in [Which::BuildKit, Which::Kaniko] {
        let builder = place.builder(which).await.expect("a builder");
        let request = python("brought\n").await;
        begin(&builder, &index, &request).await;
        assert_eq!(secrets().await, 1, "the Job has credentials of its own");
        index.hold(false);
        let status = end(&builder, &request).await;
        assert!(
            matches!(status, BuildStatus::Succeeded { .. }),
            "{which:?}: {status:?}"
        );
        place.empty().await;
        assert_eq!(secrets().await, 0, "they go with the Job");
    }
    // Without them, it is said why.
    place.images.registry.credentials.clear();
    let builder = place.builder(Which::BuildKit).await.expect("a builder");
    let (failure, _) = failure(&builder, &python("brought\n").await).await;
    assert_eq!(failure.reason, "registry_auth", "{failure:?}");
    place.end().await;
}
