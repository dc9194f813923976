//! The custom resources: what Kubernetes keeps and checks of each kind, written as types.
//!
//! These types are never filled. They are the schema: which fields there are, their defaults, and what a
//! create has to refuse, so that `kubectl apply` refuses what the REST API refuses. Objects themselves are
//! read and written as the types of `sless-core`; a test holds the two against each other.

mod function;
mod job;
mod schema;
mod trigger;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use sless_core::Kind;

/// The API group.
pub(crate) const GROUP: &str = "sless.io";
/// The version of the API group.
pub(crate) const VERSION: &str = "v1alpha1";

/// The plural of a kind, as it stands in URLs.
pub(crate) const fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Function => "functions",
        Kind::Trigger => "triggers",
        Kind::FunctionJob => "functionjobs",
    }
}

/// The definition of a kind.
pub(crate) fn definition(kind: Kind) -> CustomResourceDefinition {
    let (mut definition, columns) = match kind {
        Kind::Function => (function::Function::crd(), function::COLUMNS),
        Kind::Trigger => (trigger::Trigger::crd(), trigger::COLUMNS),
        Kind::FunctionJob => (job::FunctionJob::crd(), job::COLUMNS),
    };
    schema::complete(&mut definition, columns);
    definition
}

/// The manifests of the custom resources that [`KubeCatalog`](crate::KubeCatalog) keeps its objects in: the
/// name of a file, and its YAML. They lie in `deploy/crds`, written by the example `crds` of this crate.
///
/// ```
/// let manifests = sless_k8s::crd_manifests();
/// assert_eq!(manifests[0].0, "functions.yaml");
/// assert!(manifests[0].1.contains("kind: CustomResourceDefinition"));
/// ```
pub fn crd_manifests() -> Vec<(String, String)> {
    Kind::ALL
        .into_iter()
        .map(|kind| {
            let value = serde_json::to_value(definition(kind)).unwrap_or_default();
            (format!("{}.yaml", plural(kind)), schema::yaml(&value))
        })
        .collect()
}
