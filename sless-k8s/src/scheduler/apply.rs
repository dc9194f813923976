//! Bringing a function's objects to what is wanted, with no write where nothing differs; and taking them
//! away.

use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Service},
        networking::v1::Ingress,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use sless_core::{
    Error, ErrorKind, Failure, FunctionId, Left, Receipt, Result, Retry, Workload, WorkloadPhase,
    WorkloadStatus, reason,
};

use super::{
    Inner, annotation,
    cache::{DeploymentView, ServiceView, Text, View},
    failure, manifest, same, status,
};
use crate::{
    error::{BACKEND, Fault},
    labels, names,
};

/// What a step of an apply came to.
enum Step {
    Done,
    /// The object changed under it: look again.
    Again,
    /// The cluster takes no such object.
    Refused(Failure),
}

impl Inner {
    pub(super) async fn apply(&self, workload: &Workload) -> Result<WorkloadStatus> {
        let function = &workload.function;
        for _ in 0..self.config.apply_attempts.max(1) {
            let step = match self.bring(workload).await {
                Ok(step) => step,
                Err(Fault::Rule(error)) => return Err(error.at(BACKEND).on(function)),
                Err(fault) if is_ending(&fault) => return Ok(ending(workload)),
                Err(fault) => match refusal(&fault) {
                    Some(failure) => Step::Refused(failure),
                    None => return Err(misplaced(fault, workload)),
                },
            };
            match step {
                Step::Again => continue,
                Step::Done => self.note_proven(function).await?,
                Step::Refused(failure) => {
                    let refused = Some((workload.revision(), failure));
                    self.cache.change(function, |view| {
                        let same = view.refused == refused;
                        view.refused = refused;
                        !same
                    });
                }
            }
            let view = self.cache.function(&function.uid).map(|entry| entry.view());
            return Ok(status::of(&view.unwrap_or_default()));
        }
        let message = "the Deployment changed again and again while it was applied";
        Err(Error::conflict(message)
            .with_reason("limit_apply_attempts")
            .at(BACKEND)
            .on(function))
    }

    async fn bring(&self, workload: &Workload) -> Result<Step, Fault> {
        let function = &workload.function;
        // Before a pod of it is there.
        self.ensure_policies(&function.namespace).await?;
        let step = self.bring_deployment(workload).await?;
        if matches!(step, Step::Done) {
            self.bring_children(function).await?;
        }
        Ok(step)
    }

    async fn bring_deployment(&self, workload: &Workload) -> Result<Step, Fault> {
        let function = &workload.function;
        let api: Api<Deployment> = self.api(&function.namespace);
        let name = names::function(function);
        let mut view = self.view(function);
        if view.deployment.is_none() {
            // It may have lost its labels, or a watch may lag behind.
            if let Some(found) = self.cluster.call(api.get_opt(&name)).await? {
                self.cache.put_deployment(&found, false);
                view = self.view(function);
                if view.deployment.is_none() {
                    return self.bring_unlabelled(workload, found.metadata).await;
                }
            }
        }
        let known = view.deployment.as_deref();
        if let Some(known) = known {
            fence(known, workload)?;
        }
        let revision = workload.revision();
        let same_revision = known.filter(|known| known.revision == Some(revision));
        let restarted_at = same_revision.and_then(|known| known.restarted_at);
        let mut wanted = manifest::deployment(
            &self.config,
            workload,
            restarted_at.unwrap_or(workload.built_at),
        );
        let digest = manifest::digest(&wanted);
        let by_keda = known.is_some_and(|known| self.leaves_to_keda(known));
        let copies = copies(workload, known, &wanted, by_keda);
        if let Some(known) = known
            && is_there(known, &wanted, &digest, copies)
        {
            self.verified(function, known.generation);
            self.forget_refusal(function);
            return Ok(Step::Done);
        }
        manifest::annotate(&mut wanted, annotation::APPLIED, digest);
        wanted["spec"]["replicas"] = json!(copies);
        if let Some(known) = known {
            // A writer that comes between is met by a conflict, and looked at.
            wanted["metadata"]["resourceVersion"] = json!(known.resource_version);
        }
        self.write_deployment(workload, &api, &name, &wanted).await
    }

    async fn write_deployment(
        &self,
        workload: &Workload,
        api: &Api<Deployment>,
        name: &str,
        wanted: &Value,
    ) -> Result<Step, Fault> {
        let function = &workload.function;
        let (params, patch) = (self.apply_params(), Patch::Apply(wanted));
        match self.cluster.call(api.patch(name, &params, &patch)).await {
            Ok(object) => {
                self.cache.put_deployment(&object, true);
                self.verified(function, object.metadata.generation.unwrap_or_default());
                self.forget_refusal(function);
                Ok(Step::Done)
            }
            Err(fault) if fault.is_conflict() => {
                match self.cluster.call(api.get_opt(name)).await? {
                    Some(object) => self.cache.put_deployment(&object, false),
                    None => self.cache.forget_deployment(function),
                }
                Ok(Step::Again)
            }
            Err(fault) => Err(fault),
        }
    }

    /// A Deployment of ours that has lost its labels: no watch shows it, so it gets them back.
    async fn bring_unlabelled(
        &self,
        workload: &Workload,
        found: ObjectMeta,
    ) -> Result<Step, Fault> {
        let function = &workload.function;
        let api: Api<Deployment> = self.api(&function.namespace);
        let name = names::function(function);
        if found.deletion_timestamp.is_some() {
            let message = "an earlier Deployment of this function is still ending";
            let error = Error::unavailable(message).with_reason("deployment_ending");
            return Err(error.into());
        }
        let labels = labels::of_owner(&function.key(), &function.uid);
        let patch = json!({"metadata": {"labels": labels}});
        let params = kube::api::PatchParams {
            field_manager: Some(self.cluster.config().field_manager.clone()),
            ..Default::default()
        };
        let object = self
            .cluster
            .call(api.patch(&name, &params, &Patch::Merge(&patch)))
            .await?;
        self.cache.put_deployment(&object, true);
        Ok(Step::Again)
    }

    /// Brings a child whose whole manifest is compared. Answers it where it was written.
    pub(super) async fn bring_child<K>(
        &self,
        function: &FunctionId,
        wanted: &Value,
        there: Option<&Text>,
    ) -> Result<Option<K>, Fault>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        if there.is_some_and(|there| same::child_holds(wanted, &there.read())) {
            return Ok(None);
        }
        Ok(Some(self.write_child(function, wanted).await?))
    }

    async fn write_child<K>(&self, function: &FunctionId, wanted: &Value) -> Result<K, Fault>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = self.api(&function.namespace);
        let (name, params) = (names::function(function), self.apply_params());
        let patch = Patch::Apply(wanted);
        self.cluster.call(api.patch(&name, &params, &patch)).await
    }

    async fn bring_children(&self, function: &FunctionId) -> Result<(), Fault> {
        let view = self.view(function);
        if view.service != Some(ServiceView::Right)
            && let Some(wanted) = manifest::service(self.cache.services, function)
        {
            if view.service == Some(ServiceView::OtherKind) {
                let services: Api<Service> = self.api(&function.namespace);
                let (name, gone) = (names::function(function), DeleteParams::background());
                self.deleted(services.delete(&name, &gone)).await?;
            }
            let object = self.write_child::<Service>(function, &wanted).await?;
            self.cache.put_service(&object);
        }
        if let Some(config) = &self.config.ingress {
            let wanted = manifest::ingress(config, function);
            let written = self.bring_child::<Ingress>(function, &wanted, view.ingress.as_ref());
            if let Some(object) = written.await? {
                self.cache.put_ingress(&object);
            }
        }
        self.bring_scaled(function, &view).await?;
        Ok(())
    }

    fn view(&self, function: &FunctionId) -> std::sync::Arc<View> {
        let entry = self.cache.function(&function.uid);
        entry.map(|entry| entry.view()).unwrap_or_default()
    }

    /// Takes note that a generation of the Deployment is what is wanted.
    fn verified(&self, function: &FunctionId, generation: i64) {
        let Some(entry) = self.cache.function(&function.uid) else {
            return;
        };
        entry.change(|view| {
            if let Some(known) = &mut view.deployment
                && known.generation == generation
                && known.verified != Some(generation)
            {
                let verified = DeploymentView {
                    verified: Some(generation),
                    unverified: None,
                    ..DeploymentView::clone(known)
                };
                *known = verified.into();
            }
            false
        });
    }

    fn forget_refusal(&self, function: &FunctionId) {
        if let Some(entry) = self.cache.function(&function.uid) {
            entry.change(|view| view.refused.take().is_some());
        }
    }

    pub(super) async fn remove(&self, function: &FunctionId) -> Result<Receipt> {
        let mut receipt = Receipt::default();
        let name = names::function(function);
        let gone = DeleteParams::background();
        let deployments: Api<Deployment> = self.api(&function.namespace);
        // By name, not by what is known here: it may be that of another process, a moment ago.
        if self.deleted(deployments.delete(&name, &gone)).await? {
            receipt.add("deployment", &name, BACKEND);
        }
        let services: Api<Service> = self.api(&function.namespace);
        if self.deleted(services.delete(&name, &gone)).await? {
            receipt.add("service", &name, BACKEND);
        }
        let ingresses: Api<Ingress> = self.api(&function.namespace);
        if self.config.ingress.is_some() && self.deleted(ingresses.delete(&name, &gone)).await? {
            receipt.add("ingress", &name, BACKEND);
        }
        self.drop_scaled(function, &mut receipt).await?;
        self.cache.forget_ingress(function);
        self.cache.forget_service(function);
        self.cache.forget_deployment(function);
        let pods: Api<Pod> = self.api(&function.namespace);
        let of_function =
            ListParams::default().labels(&format!("{}={}", labels::UID, function.uid));
        for pod in self.listed(&pods, &of_function).await? {
            receipt
                .left
                .push(left("pod", pod.metadata.name.unwrap_or_default()));
        }
        Ok(receipt)
    }

    /// Whether a deletion found something.
    pub(super) async fn deleted<T: Send>(
        &self,
        deletion: impl Future<Output = kube::Result<T>> + Send,
    ) -> Result<bool, Fault> {
        match self.cluster.call(deletion).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.is_not_found() => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// What is there; nothing where the namespace is not.
    pub(super) async fn listed<K>(
        &self,
        api: &Api<K>,
        params: &ListParams,
    ) -> Result<Vec<PartialObjectMeta<K>>, Fault>
    where
        K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        match self.cluster.call(api.list_metadata(params)).await {
            Ok(list) => Ok(list.items),
            Err(fault) if fault.is_not_found() => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }
}

/// Something that ends by itself, a little later.
pub(super) fn left(kind: &str, name: String) -> Left {
    Left {
        kind: kind.to_owned(),
        name,
        backend: BACKEND.to_owned(),
        why: "it finishes the calls that it is at".to_owned(),
        again: true,
    }
}

/// A writer that was overtaken may not write.
fn fence(known: &DeploymentView, workload: &Workload) -> Result<(), Error> {
    if known.function_generation <= workload.generation {
        return Ok(());
    }
    let (applied, given) = (known.function_generation, workload.generation);
    Err(Error::conflict(format!(
        "generation {applied} was applied already, and this is {given}"
    ))
    .with_reason("generation_overtaken"))
}

/// How many pods are asked for: none where the function sleeps and may go on sleeping, and else as many as
/// there are, within the bounds: between them it is not for an apply to say.
fn copies(
    workload: &Workload,
    known: Option<&DeploymentView>,
    wanted: &Value,
    by_keda: bool,
) -> u32 {
    let (least, most) = (
        workload.replicas,
        workload.max_replicas.max(workload.replicas),
    );
    // Off is off, whatever there may be at most.
    let Some(known) = known.filter(|_| least > 0) else {
        return least;
    };
    let same = known.revision == Some(workload.revision());
    let may_sleep = wanted["metadata"]["annotations"][annotation::IDLE] != "0";
    if by_keda && same {
        return known.spec_replicas.min(most);
    }
    let sleeps = known.asleep() && same && known.proven == known.revision;
    if sleeps && may_sleep && known.replicas == least {
        return 0;
    }
    known.spec_replicas.clamp(least, most)
}

/// Whether the Deployment is what is wanted already.
fn is_there(known: &DeploymentView, wanted: &Value, digest: &str, copies: u32) -> bool {
    let notes = &wanted["metadata"]["annotations"];
    let noted = |name: &str| notes[name].as_str().unwrap_or_default();
    let revision = known.revision.map(|revision| revision.to_string());
    let same = known.applied == digest
        && known.spec_replicas == copies
        && revision.as_deref() == Some(noted(annotation::REVISION))
        && known.function_generation.to_string() == noted(annotation::GENERATION)
        && known.replicas.to_string() == noted(annotation::REPLICAS)
        && known.max_replicas.to_string() == noted(annotation::MAX_REPLICAS)
        && known.idle_ms.to_string() == noted(annotation::IDLE);
    if !same || known.verified == Some(known.generation) {
        return same;
    }
    // Other hands may have been there, or this process has not seen it yet.
    known
        .unverified
        .as_ref()
        .is_some_and(|spec| same::holds(&wanted["spec"], &spec.read()))
}

/// Whether the namespace is being deleted, by somebody else.
fn is_ending(fault: &Fault) -> bool {
    let status = fault.status();
    status.is_some_and(|status| status.message.contains("because it is being terminated"))
}

/// What is told as long as the namespace ends. It passes: afterwards it is missing, or there again.
fn ending(workload: &Workload) -> WorkloadStatus {
    let place = workload.function.namespace.workloads();
    let message = format!("the namespace {place} is being deleted by somebody else");
    WorkloadStatus::new(WorkloadPhase::Starting, Some(workload.revision()))
        .with_failure(Failure::new("namespace_terminating", message))
}

/// Why the cluster takes no such object, where it is the object that it refuses, and not who asks.
pub(super) fn refusal(fault: &Fault) -> Option<Failure> {
    let status = fault.status()?;
    match status.code {
        400 | 422 => {
            let message = status.message.chars().take(1_000).collect::<String>();
            Some(Failure::new(reason::ADMISSION_DENIED, message))
        }
        403 => {
            let found = failure::of_refusal(&status.message);
            // "User x cannot patch resource y" is a right that sless lacks, not a refused function.
            let lacks_right =
                status.message.contains("cannot ") && status.message.contains("resource ");
            (!lacks_right && !is_ending(fault)).then_some(found)
        }
        _ => None,
    }
}

/// An error of an apply, where a missing namespace has a word of its own.
fn misplaced(fault: Fault, workload: &Workload) -> Error {
    let function = &workload.function;
    let missing = fault
        .status()
        .is_some_and(|status| status.code == 404 && status.message.contains("namespaces"));
    if missing {
        let place = function.namespace.workloads();
        return Error::new(
            ErrorKind::NotFound,
            format!("the namespace {place} is not there"),
        )
        .with_reason(reason::NAMESPACE_MISSING)
        .with_retry(Retry::Never)
        .with_source(fault)
        .at(BACKEND)
        .on(function);
    }
    Error::from(fault).on(function)
}
