//! Waiting for many objects, and bare Deployments to hold functions against.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};

use super::until;

/// How many are created at once.
pub(super) const AT_ONCE: usize = 16;

/// Waits until so many objects of a kind, in all namespaces together, are as they should be. It watches,
/// since to list a thousand of them takes the API server that is measured a tenth of a second.
pub(super) async fn until_all(
    client: &Client,
    kind: &GroupVersionKind,
    plural: &str,
    count: usize,
    patience: Duration,
    is_ready: fn(&Value) -> bool,
) {
    let resource = ApiResource::from_gvk_with_plural(kind, plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut changes = watcher(api, watcher::Config::default())
        .applied_objects()
        .boxed();
    let mut ready = HashSet::new();
    let all = async {
        while ready.len() < count {
            let object = changes.try_next().await.expect("a watch").expect("no end");
            let mut whole = object.data;
            whole["metadata"] = json!(object.metadata);
            if is_ready(&whole) {
                ready.insert(object.metadata.uid);
            } else {
                ready.remove(&object.metadata.uid);
            }
        }
    };
    let done = tokio::time::timeout(patience, all).await;
    assert!(
        done.is_ok(),
        "{} of {count} {plural} are ready",
        ready.len()
    );
}

/// How long Kubernetes takes for so many Deployments of one pod each, from the first creation until all are
/// available: what no function can be faster than.
pub(super) async fn bare_deployments(
    client: &Client,
    count: usize,
    patience: Duration,
) -> Duration {
    let api: Api<Deployment> = Api::namespaced(client.clone(), "default");
    let begun = Instant::now();
    let create = stream::iter(0..count).for_each_concurrent(AT_ONCE, |at| {
        let api = &api;
        async move {
            let name = format!("bare-{at}");
            let bare: Deployment = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"of": "bare"}},
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {
                            "nodeSelector": {"type": "kwok"},
                            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                            "containers": [{"name": "main", "image": "pause"}],
                        },
                    },
                },
            }))
            .expect("a Deployment");
            let made = api.create(&PostParams::default(), &bare).await;
            made.expect("created");
        }
    });
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let available = |object: &Value| object["status"]["availableReplicas"] == 1;
    let ready = until_all(client, &kind, "deployments", count, patience, available);
    tokio::join!(create, ready);
    let took = begun.elapsed();
    let gone = DeleteParams::background();
    let of = ListParams::default().labels("of=bare");
    api.delete_collection(&gone, &of).await.expect("deleted");
    // What the controllers still have to do for it must not be counted for what comes next.
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let any = ListParams::default().limit(1);
    let ended = async || match pods.list_metadata(&any).await.expect("listed").items.len() {
        0 => Ok(()),
        _ => Err("pods are left".to_owned()),
    };
    let pause = Duration::from_secs(1);
    until("the bare Deployments end", patience, pause, ended).await;
    took
}
