//! What the cluster keeps for functions, jobs and triggers, asked of the cluster itself.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        batch::v1::{CronJob, Job},
        core::v1::{ConfigMap, Service},
        networking::v1::Ingress,
    },
};
use kube::{Api, ResourceExt as _, api::ListParams};
use sless_core::{Held, HeldStream, Uid};

use super::{Inner, failure, keda::HttpScaledObject};
use crate::{error::BACKEND, labels};

/// Objects that are listed at once, of which only what their metadata says is read.
const PAGE: u32 = 250;

/// Lists everything that carries the labels of an owner. Pods and Secrets go with what made them.
pub(super) fn all(inner: &Arc<Inner>) -> HeldStream {
    let mut kinds = vec![
        of_kind::<Deployment>(inner, "deployment"),
        of_kind::<Service>(inner, "service"),
        of_kind::<Ingress>(inner, "ingress"),
        of_kind::<Job>(inner, "job"),
        of_kind::<ConfigMap>(inner, "config_map"),
        of_kind::<CronJob>(inner, "cron_job"),
    ];
    if inner.interceptor.is_some() {
        kinds.push(of_kind::<HttpScaledObject>(inner, "http_scaled_object"));
    }
    stream::iter(kinds).flatten().boxed()
}

fn of_kind<K>(inner: &Arc<Inner>, kind: &'static str) -> HeldStream
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static,
{
    let (inner, selector) = (
        inner.clone(),
        format!("{},{}", labels::SELECTOR, labels::UID),
    );
    // The state is where the next page begins: `None` after the last one.
    let pages = stream::try_unfold(Some(None::<String>), move |begin| {
        let inner = inner.clone();
        let mut params = ListParams::default().labels(&selector).limit(PAGE);
        async move {
            let Some(begin) = begin else { return Ok(None) };
            params.continue_token = begin;
            let api: Api<K> = Api::all(inner.cluster.client());
            let list = match inner.cluster.call(api.list_metadata(&params)).await {
                Ok(list) => list,
                Err(fault) if fault.status().is_some_and(|status| status.code == 403) => {
                    let sentence = format!("{}s may not be listed by this process", K::kind(&()));
                    return Err(Held::cannot_list(BACKEND, sentence));
                }
                Err(fault) => return Err(fault.into()),
            };
            let next = list.metadata.continue_.filter(|next| !next.is_empty());
            let held = list.items.into_iter().map(move |object| {
                let place = object.namespace().unwrap_or_default();
                let mut held = Held::new(kind, format!("{place}/{}", object.name_any()), BACKEND);
                held.uid = object.labels().get(labels::UID).map(Uid::new);
                held.owner = labels::owner(object.labels()).map(|(key, _)| key);
                let since = object.creation_timestamp();
                Ok(held.since(since.as_ref().and_then(failure::timestamp)))
            });
            Ok(Some((stream::iter(held), next.map(Some))))
        }
    });
    pages.try_flatten().boxed()
}
