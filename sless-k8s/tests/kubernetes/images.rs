//! What is in the registry: images on bases of every format, and those that a crash has left there.

use std::sync::Arc;

use serde_json::{Value, json};
use sless_core::{Artifact, BuildRequest, BuildStatus, Builder, Runtime};

use super::{
    build_place::{self, function, request},
    world,
};

const OCI: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// One repository, as its registry shows it to anybody.
struct Repository(String);

impl Repository {
    /// The one that this name is in, and what stands behind it: a tag or a digest.
    fn of<'a>(image: &'a str, before: &str) -> (Self, &'a str) {
        let (_, path) = image.split_once('/').expect("a host");
        let (name, version) = path.rsplit_once(before).expect("a version");
        let host = world::variable("SLESS_TEST_REGISTRY");
        (Self(format!("http://{host}/v2/{name}")), version)
    }

    async fn tags(&self) -> Vec<String> {
        let answer = reqwest::get(format!("{}/tags/list", self.0)).await;
        let listed = answer.expect("an answer").bytes().await.expect("a body");
        let listed: Value = serde_json::from_slice(&listed).expect("JSON");
        let mut tags: Vec<String> =
            serde_json::from_value(listed["tags"].clone()).unwrap_or_default();
        tags.sort();
        tags
    }

    /// A manifest, and its digest.
    async fn manifest(&self, name: &str) -> (Value, String) {
        let asked = reqwest::Client::new()
            .get(format!("{}/manifests/{name}", self.0))
            .header("accept", [OCI, DOCKER, DOCKER_LIST].join(", "));
        let answer = asked.send().await.expect("an answer");
        let answer = answer.error_for_status().expect("it is there");
        let digest = answer.headers()["docker-content-digest"].to_str();
        let digest = digest.expect("text").to_owned();
        let body = answer.bytes().await.expect("a body");
        (serde_json::from_slice(&body).expect("JSON"), digest)
    }

    /// Stores a manifest, and answers its digest.
    async fn put(&self, name: &str, kind: &str, manifest: &Value) -> String {
        let put = reqwest::Client::new()
            .put(format!("{}/manifests/{name}", self.0))
            .header("content-type", kind)
            .body(manifest.to_string());
        let answer = put.send().await.expect("an answer");
        let answer = answer.error_for_status().expect("it is taken");
        let digest = answer.headers()["docker-content-digest"].to_str();
        digest.expect("text").to_owned()
    }

    async fn delete(&self, digest: &str) {
        let gone = reqwest::Client::new().delete(format!("{}/manifests/{digest}", self.0));
        let answer = gone.send().await.expect("an answer");
        answer.error_for_status().expect("it is deleted");
    }
}

async fn built(builder: &Arc<dyn Builder>, request: &BuildRequest) -> Artifact {
    match build_place::end(builder, request).await {
        BuildStatus::Succeeded { artifact, .. } => artifact,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn an_image_that_no_record_leads_to_goes_with_the_next_prune() {
    let path = format!("left-{}", world::mark());
    let function = function("left");
    let source = async |text: &'static str| {
        request(Runtime::Python311, &function, &[("handler.py", text)]).await
    };
    let (lost, kept) = (source("A = 1\n").await, source("A = 2\n").await);
    let not_built = source("A = 3\n").await;
    let builder: Arc<dyn Builder> = Arc::new(world::builder(&path).expect("a builder"));
    let (of_lost, of_kept) = (built(&builder, &lost).await, built(&builder, &kept).await);
    let (repository, _) = Repository::of(&of_lost.reference, "@");

    // A crash came after the image was there, and before its record was.
    let record_of = |request: &BuildRequest| {
        let short = request.id.short();
        move |tag: &String| tag.starts_with("build-") && tag.ends_with(&short)
    };
    let mut tags = repository.tags().await;
    let record = tags.iter().position(record_of(&lost)).expect("a record");
    let (_, record) = repository.manifest(&tags.swap_remove(record)).await;
    repository.delete(&record).await;
    // A Job pushed an image, and whoever followed it was gone.
    let (mut pushed, _) = repository.manifest(&of_lost.digest.to_string()).await;
    pushed["annotations"] = json!({"another": "image"});
    let name = format!("built-{}", lost.id.short());
    repository.put(&name, OCI, &pushed).await;

    // The next process.
    let builder = world::builder(&path).expect("a builder");
    let keeps = async |artifact: &Artifact| builder.keeps(artifact).await.expect("an answer");
    let prune = async |keep: &[_]| {
        let pruned = builder.prune(&function, keep).await;
        pruned.expect("pruned").removed
    };
    // While what is to be kept is still being made, nobody knows whose they are.
    let removed = prune(&[kept.id.clone(), not_built.id.clone()]).await;
    assert!(removed.is_empty(), "{removed:?}");
    assert!(keeps(&of_lost).await);

    let removed = prune(std::slice::from_ref(&kept.id)).await;
    let images = removed.iter().filter(|item| item.kind == "image");
    assert_eq!(images.count(), 2, "{removed:?}");
    assert!(!keeps(&of_lost).await);
    assert!(keeps(&of_kept).await, "what is kept");
    let tags = repository.tags().await;
    assert_eq!(tags.len(), 2, "an image and its record: {tags:?}");
    assert!(tags.iter().any(record_of(&kept)), "{tags:?}");

    prune(&[]).await;
    assert_eq!(repository.tags().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn a_base_of_dockers_format_and_of_several_platforms_is_built_on() {
    let image = world::variable("SLESS_TEST_IMAGE_PYTHON");
    let (base, version) = Repository::of(&image, ":");
    // The base as Docker would have pushed it.
    let (mut manifest, _) = base.manifest(version).await;
    manifest["mediaType"] = json!(DOCKER);
    manifest["config"]["mediaType"] = json!(DOCKER_CONFIG);
    let layers = manifest["layers"].as_array_mut().expect("layers");
    for layer in &mut *layers {
        layer["mediaType"] = json!(DOCKER_LAYER);
    }
    let layers = layers.len();
    let mark = world::mark();
    let digest = base.put(&format!("docker-{mark}"), DOCKER, &manifest).await;
    let size = manifest.to_string().len();
    let entry = |system: &str| {
        json!({
            "mediaType": DOCKER, "digest": digest, "size": size,
            "platform": {"os": system, "architecture": "amd64"},
        })
    };
    // Of which one is no image for Linux.
    let list = json!({
        "schemaVersion": 2, "mediaType": DOCKER_LIST,
        "manifests": [entry("linux"), entry("unknown")],
    });
    let tag = format!("list-{mark}");
    base.put(&tag, DOCKER_LIST, &list).await;

    let builder: Arc<dyn Builder> =
        Arc::new(world::builder(&format!("docker-{mark}")).expect("a builder"));
    let files = [("handler.py", "A = 1\n")];
    let mut request = request(Runtime::Python311, &function("docker"), &files).await;
    request.runtime.image = request.runtime.image.replace(version, &tag);
    let artifact = built(&builder, &request).await;
    let (made, digest) = Repository::of(&artifact.reference, "@");
    let (list, _) = made.manifest(digest).await;
    assert_eq!(list["mediaType"], DOCKER_LIST, "{list}");
    let [entry] = &list["manifests"].as_array().expect("a list")[..] else {
        panic!("one platform: {list}");
    };
    let (manifest, _) = made
        .manifest(entry["digest"].as_str().expect("a digest"))
        .await;
    assert_eq!(manifest["mediaType"], DOCKER, "{manifest}");
    let all = manifest["layers"].as_array().expect("layers");
    assert_eq!(all.len(), layers + 1, "{manifest}");
    assert!(
        all.iter().all(|layer| layer["mediaType"] == DOCKER_LAYER),
        "{manifest}"
    );
}
