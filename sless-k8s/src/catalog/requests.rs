//! One function for each request to the API server.

use kube::{
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sless_core::{
    Kind, ListQuery, Metadata, Namespace, Object, ObjectKey, Page, catalog::object_not_found,
};

use super::wire;
use crate::{client::Cluster, crd, error::Fault};

/// The requests of a kind, in one namespace or in all.
pub(super) fn of(kind: Kind, namespace: Option<&Namespace>) -> Request {
    let (group, version, plural) = (crd::GROUP, crd::VERSION, crd::plural(kind));
    Request::new(match namespace {
        Some(namespace) => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/apis/{group}/{version}/{plural}"),
    })
}

fn at(key: &ObjectKey) -> Request {
    of(key.kind, Some(&key.namespace))
}

/// An object without what nobody asks for: `managedFields` alone is most of it, and a page of them is many
/// times what is kept of it.
#[derive(Deserialize, Serialize)]
struct Item {
    metadata: ItemMeta,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct ItemMeta {
    name: Value,
    namespace: Value,
    uid: Value,
    resource_version: Value,
    generation: Value,
    creation_timestamp: Value,
    deletion_timestamp: Value,
    finalizers: Value,
    labels: Value,
    annotations: Value,
}

impl Item {
    fn into_value(self) -> Value {
        json!(self)
    }
}

/// Sends a request whose answer is one object.
async fn send_one(
    cluster: &Cluster,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Value, Fault> {
    Ok(send::<Item>(cluster, request).await?.into_value())
}

async fn send<T: serde::de::DeserializeOwned>(
    cluster: &Cluster,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, Fault> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    cluster.call(cluster.client().request(request)).await
}

pub(super) async fn get(cluster: &Cluster, key: &ObjectKey) -> Result<Object, Fault> {
    let request = at(key).get(key.name.as_str(), &GetParams::default());
    match send_one(cluster, request).await {
        Ok(value) => wire::read(key.kind, value),
        Err(fault) if fault.is_not_found() => Err(object_not_found(key).into()),
        Err(fault) => Err(fault),
    }
}

pub(super) async fn create(cluster: &Cluster, object: &Object) -> Result<Object, Fault> {
    let key = object.key();
    let body = serde_json::to_vec(&wire::write(object)?).map_err(kube::Error::SerdeError)?;
    let parameters = PostParams {
        field_manager: Some(cluster.config().field_manager.clone()),
        ..PostParams::default()
    };
    let value = send_one(cluster, at(&key).create(&parameters, body)).await?;
    wire::read(key.kind, value)
}

/// Patches an object, or its status, held to the version and the uid of `held`.
pub(super) async fn patch(
    cluster: &Cluster,
    key: &ObjectKey,
    subresource: Option<&str>,
    held: &Metadata,
    mut patch: Value,
) -> Result<Object, Fault> {
    patch["metadata"]["resourceVersion"] = json!(held.version);
    patch["metadata"]["uid"] = json!(held.uid);
    let parameters = PatchParams {
        field_manager: Some(cluster.config().field_manager.clone()),
        ..PatchParams::default()
    };
    let (name, patch) = (key.name.as_str(), Patch::Merge(&patch));
    let request = match subresource {
        Some(subresource) => at(key).patch_subresource(subresource, name, &parameters, &patch),
        None => at(key).patch(name, &parameters, &patch),
    };
    let value = send_one(cluster, request).await?;
    wire::read(key.kind, value)
}

/// Deletes an object, held to the uid and perhaps the version of `held`. Answers what is left of it.
pub(super) async fn delete(
    cluster: &Cluster,
    key: &ObjectKey,
    held: &Metadata,
    exact: bool,
) -> Result<Option<Object>, Fault> {
    // Nothing waits for dependents: what an object made is taken away by its finalizer.
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(held.uid.to_string()),
            resource_version: exact.then(|| held.version.to_string()),
        }),
        ..DeleteParams::background()
    };
    let request = at(key).delete(key.name.as_str(), &parameters);
    let answer: Value = send(cluster, request).await?;
    // Of an object that is gone at once, the answer is a Status.
    if answer["kind"] == key.kind.as_str() && answer["metadata"]["deletionTimestamp"].is_string() {
        return wire::read(key.kind, answer).map(Some);
    }
    Ok(None)
}

#[derive(Deserialize)]
struct List {
    metadata: ListMeta,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    next: String,
}

pub(super) async fn list(cluster: &Cluster, query: &ListQuery) -> Result<Page<Object>, Fault> {
    let limit = query.limit.clamp(1, ListQuery::LIMIT_MAX);
    let parameters = ListParams {
        limit: u32::try_from(limit).ok(),
        continue_token: query.cursor.clone(),
        ..ListParams::default()
    };
    let request = of(query.kind, query.namespace.as_ref()).list(&parameters);
    let list: List = send(cluster, request).await?;
    let mut items = Vec::with_capacity(list.items.len());
    for item in list.items {
        let value = item.into_value();
        let name = value["metadata"]["name"].to_string();
        let namespace = value["metadata"]["namespace"].to_string();
        match wire::read(query.kind, value) {
            Ok(object) => items.push(object),
            Err(fault) => {
                let error = sless_core::Error::from(fault);
                tracing::warn!(kind = %query.kind, namespace, name, error = %error.chain(), "an object is left out");
            }
        }
    }
    let next = (!list.metadata.next.is_empty()).then_some(list.metadata.next);
    Ok(Page {
        items,
        next,
        position: super::position(&list.metadata.resource_version),
    })
}
