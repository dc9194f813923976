//! Where a function is, out of what is known of it.

use sless_core::{Digest, Failure, WorkloadPhase, WorkloadStatus, reason};

use super::cache::{DeploymentView, View};

/// The status of a function.
pub(super) fn of(view: &View) -> WorkloadStatus {
    let Some(deployment) = &view.deployment else {
        return match &view.refused {
            Some((revision, failure)) => {
                let status = WorkloadStatus::new(WorkloadPhase::Failed, Some(*revision));
                status.with_failure(failure.clone())
            }
            None => WorkloadStatus::default(),
        };
    };
    let applied = deployment.revision;
    let of_applied = |revision: &Option<Digest>| *revision == applied;
    let current = count(view.ready().filter(|pod| of_applied(&pod.revision)));
    let older: Vec<_> = view
        .ready()
        .filter(|pod| !of_applied(&pod.revision))
        .collect();
    if let Some((revision, failure)) = &view.refused {
        let serving = older.first().map_or(applied, |pod| pod.revision);
        let serving = (current > 0 || !older.is_empty())
            .then_some(serving)
            .flatten();
        let status = WorkloadStatus::new(WorkloadPhase::Failed, Some(*revision));
        let ready = current.max(count(older.iter()));
        return status
            .with_serving(serving, ready)
            .with_failure(failure.clone());
    }
    if deployment.replicas == 0 {
        let phase = if current > 0 || !older.is_empty() {
            WorkloadPhase::Starting
        } else {
            WorkloadPhase::Stopped
        };
        return WorkloadStatus::new(phase, applied);
    }
    if deployment.asleep() && deployment.proven == applied {
        let status = WorkloadStatus::new(WorkloadPhase::Ready, applied);
        return status
            .with_serving(applied, deployment.replicas)
            .with_asleep(true);
    }
    let trouble = trouble(view, deployment);
    if let Some(old) = older.first() {
        let phase = match &trouble {
            Some((_, true)) if current == 0 => WorkloadPhase::Failed,
            _ => WorkloadPhase::Starting,
        };
        let status =
            WorkloadStatus::new(phase, applied).with_serving(old.revision, count(older.iter()));
        return with_failure(status, trouble);
    }
    if current > 0 {
        return WorkloadStatus::new(WorkloadPhase::Ready, applied).with_serving(applied, current);
    }
    let phase = match &trouble {
        Some((_, true)) => WorkloadPhase::Failed,
        // It was ready before it slept; it is on its way, and a call waits for it.
        None if deployment.proven == applied => {
            return WorkloadStatus::new(WorkloadPhase::Ready, applied).with_serving(applied, 0);
        }
        _ => WorkloadPhase::Starting,
    };
    with_failure(WorkloadStatus::new(phase, applied), trouble)
}

fn with_failure(status: WorkloadStatus, trouble: Option<(Failure, bool)>) -> WorkloadStatus {
    match trouble {
        Some((failure, _)) => status.with_failure(failure),
        None => status,
    }
}

/// Why the applied revision is not there, and whether that lasts.
fn trouble(view: &View, deployment: &DeploymentView) -> Option<(Failure, bool)> {
    let of_applied = || {
        let pods = view.pods.iter().filter(|pod| !pod.deleting);
        pods.filter(|pod| pod.revision == deployment.revision)
    };
    let newest = of_applied()
        .filter_map(|pod| pod.trouble.as_ref().map(|trouble| (pod.created, trouble)))
        .max_by_key(|(created, trouble)| (trouble.lasting, *created));
    if let Some((_, trouble)) = newest {
        return Some((
            trouble.failure.clone(),
            trouble.lasting || deployment.overdue,
        ));
    }
    if of_applied().next().is_none()
        && let Some(refusal) = &deployment.refusal
    {
        return Some((refusal.clone(), true));
    }
    deployment.overdue.then(|| {
        let message = "no pod was ready in time, and Kubernetes does not say why";
        (Failure::new(reason::START_TIMEOUT, message), true)
    })
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
    use serde_json::{Value, json};

    use super::*;
    use crate::scheduler::cache::PodView;

    fn revision(name: &str) -> Digest {
        Digest::of(name)
    }

    fn deployment(replicas: u32, spec: u32, proven: bool, status: Value) -> Arc<DeploymentView> {
        let mut notes = json!({
            "sless.io/revision": revision("new"),
            "sless.io/replicas": replicas.to_string(),
        });
        if proven {
            notes["sless.io/proven"] = json!(revision("new"));
        }
        let object = json!({
            "metadata": {"uid": "d", "generation": 1, "annotations": notes},
            "spec": {"replicas": spec, "selector": {}, "template": {}},
            "status": status,
        });
        let object: Deployment = serde_json::from_value(object).expect("a deployment");
        Arc::new(DeploymentView::of(&object, None))
    }

    fn pod(of: &str, ready: bool, more: Value) -> Arc<PodView> {
        let mut container = json!({
            "name": "function", "image": "", "imageID": "", "ready": ready, "restartCount": 0,
            "state": {"running": {}},
        });
        if let Value::Object(more) = more {
            for (field, value) in more {
                container[field] = value;
            }
        }
        let ready = if ready { "True" } else { "False" };
        let object: Pod = serde_json::from_value(json!({
            "metadata": {"name": of, "uid": of, "annotations": {"sless.io/revision": revision(of)}},
            "status": {
                "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [container],
            },
        }))
        .expect("a pod");
        Arc::new(PodView::of(&object, None))
    }

    fn view(deployment: Arc<DeploymentView>, pods: &[Arc<PodView>]) -> View {
        View {
            deployment: Some(deployment),
            pods: pods.to_vec(),
            ..View::default()
        }
    }

    #[test]
    fn a_status_is_read_out_of_a_view() {
        let (new, old) = (Some(revision("new")), Some(revision("old")));
        let pulling = json!({"state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}});
        let refused = json!({"conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": "forbidden: exceeded quota: q"},
        ]});
        let up = |name| pod(name, true, json!({}));
        let down = |name| pod(name, false, json!({}));
        for (seen, phase, serving, ready, reason) in [
            (
                view(deployment(1, 1, false, json!({})), &[]),
                WorkloadPhase::Starting,
                None,
                0,
                None,
            ),
            (
                view(deployment(1, 1, false, json!({})), &[down("new")]),
                WorkloadPhase::Starting,
                None,
                0,
                None,
            ),
            (
                view(deployment(1, 1, false, json!({})), &[up("new")]),
                WorkloadPhase::Ready,
                new,
                1,
                None,
            ),
            (
                view(deployment(1, 1, false, json!({})), &[up("new"), up("old")]),
                WorkloadPhase::Starting,
                old,
                1,
                None,
            ),
            (
                view(
                    deployment(1, 1, false, json!({})),
                    &[pod("new", false, pulling.clone()), up("old")],
                ),
                WorkloadPhase::Failed,
                old,
                1,
                Some("image_pull"),
            ),
            (
                view(deployment(2, 2, false, refused), &[]),
                WorkloadPhase::Failed,
                None,
                0,
                Some("quota"),
            ),
            (
                view(deployment(0, 0, false, json!({})), &[up("new")]),
                WorkloadPhase::Starting,
                None,
                0,
                None,
            ),
            (
                view(deployment(0, 0, false, json!({})), &[]),
                WorkloadPhase::Stopped,
                None,
                0,
                None,
            ),
            (
                view(deployment(2, 0, true, json!({})), &[]),
                WorkloadPhase::Ready,
                new,
                2,
                None,
            ),
            (
                view(deployment(2, 0, false, json!({})), &[]),
                WorkloadPhase::Starting,
                None,
                0,
                None,
            ),
            (
                view(deployment(2, 2, true, json!({})), &[down("new")]),
                WorkloadPhase::Ready,
                new,
                0,
                None,
            ),
        ] {
            let status = of(&seen);
            let told = status
                .failure
                .as_ref()
                .map(|failure| failure.reason.as_ref());
            let found = (status.phase, status.serving, status.ready_replicas, told);
            assert_eq!(found, (phase, serving, ready, reason), "{seen:?}");
        }
        assert_eq!(of(&View::default()), WorkloadStatus::default());
    }
}
