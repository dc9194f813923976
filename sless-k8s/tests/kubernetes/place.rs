//! A place for one test: a scheduler, and a namespace with nothing else in it.

use std::{sync::Arc, time::Duration};

use http::Request;
use kube::{Api, Client, api::ListParams};
use serde_json::Value;
use sless_conformance::Fixture;
use sless_core::{
    Body, CallContext, FunctionId, Invoke, Namespace, Runtime, Scheduler as _, Workload,
    WorkloadPhase, WorkloadStatus,
};
use sless_k8s::{K8sConfig, KubeScheduler};

use super::world::{self, eventually, fixture, python};

/// A scheduler and a namespace of its own.
pub(crate) struct Place {
    pub(crate) mark: String,
    pub(crate) scheduler: KubeScheduler,
    pub(crate) namespace: Namespace,
    client: Client,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let mark = world::mark();
        Self::of(mark.clone(), world::config(&mark)).await
    }

    pub(crate) async fn of(mark: String, config: K8sConfig) -> Self {
        let namespace = Namespace::new(format!("test-{mark}")).expect("a name");
        let scheduler = world::scheduler(config).await.expect("a scheduler");
        scheduler
            .ensure_namespace(&namespace)
            .await
            .expect("a namespace");
        Self {
            mark,
            scheduler,
            namespace,
            client: world::client().await,
        }
    }

    pub(crate) async fn fixture(&self, name: &str, of: Fixture) -> Workload {
        let tree = fixture(of, Runtime::Python311);
        world::workload(&self.namespace, name, Runtime::Python311, tree).await
    }

    pub(crate) async fn python(&self, name: &str, text: &str) -> Workload {
        world::workload(&self.namespace, name, Runtime::Python311, python(text)).await
    }

    pub(crate) async fn reach(&self, workload: &Workload, phase: WorkloadPhase) -> WorkloadStatus {
        self.scheduler.apply(workload).await.expect("an apply");
        eventually(&format!("{} is {phase:?}", workload.function), async || {
            let status = self
                .scheduler
                .status(&workload.function)
                .await
                .expect("a status");
            let there = status.phase == phase && status.applied == Some(workload.revision());
            if there {
                Ok(status)
            } else {
                Err(format!("{status:?}"))
            }
        })
        .await
    }

    pub(crate) async fn ready(&self, workload: &Workload) -> Arc<dyn Invoke> {
        self.reach(workload, WorkloadPhase::Ready).await;
        self.scheduler
            .invoker(&workload.function)
            .await
            .expect("an invoker")
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.namespace.workloads().as_str())
    }

    pub(crate) async fn one<K>(&self, function: &FunctionId) -> K
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let of_function = ListParams::default().labels(&format!("sless.io/uid={}", function.uid));
        let mut found = self
            .api::<K>()
            .list(&of_function)
            .await
            .expect("a list")
            .items;
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    pub(crate) async fn end(self) {
        world::remove_namespaces(&self.mark).await;
        self.scheduler.shutdown().await;
    }
}

pub(crate) async fn ask(invoker: &Arc<dyn Invoke>, event: &Value) -> Value {
    let response = call(invoker, event).await.expect("an answer");
    let body = response.into_body().bytes(1 << 20).await.expect("a body");
    serde_json::from_slice(&body).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(&body)))
}

pub(crate) async fn call(
    invoker: &Arc<dyn Invoke>,
    event: &Value,
) -> sless_core::Result<http::Response<Body>> {
    let mut request = Request::new(Body::from(event.to_string()));
    *request.method_mut() = http::Method::POST;
    let json = http::HeaderValue::from_static("application/json");
    request
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    let context = CallContext::new(world::mark(), Duration::from_secs(30));
    invoker.invoke(request, &context).await
}
