//! The suite of schedulers on a real cluster.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use sless_conformance::{
    Fixture, Harness,
    scheduler::{Prepared, SchedulerHarness},
};
use sless_core::{FunctionId, Name, Namespace, Result, Runtime, Scheduler, Uid};
use sless_k8s::KubeScheduler;

use super::world;

/// A scheduler of its own for each clause, on the cluster of all.
#[derive(Debug)]
struct OnCluster {
    mark: String,
    runtime: Runtime,
    scheduler: Mutex<Option<Arc<KubeScheduler>>>,
}

impl OnCluster {
    fn new(runtime: Runtime) -> Self {
        Self {
            mark: world::mark(),
            runtime,
            scheduler: Mutex::default(),
        }
    }

    fn known(&self) -> Option<Arc<KubeScheduler>> {
        self.scheduler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[async_trait]
impl Harness for OnCluster {
    fn patience(&self) -> Duration {
        world::PATIENCE
    }

    async fn clean_up(&self) -> Result<()> {
        world::remove_namespaces(&self.mark).await;
        Ok(())
    }
}

#[async_trait]
impl SchedulerHarness for OnCluster {
    async fn scheduler(&self) -> Result<Arc<dyn Scheduler>> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let opened = Arc::new(world::scheduler(world::config(&self.mark)).await?);
        *self
            .scheduler
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(opened.clone());
        Ok(opened)
    }

    async fn reopen(&self) -> Result<bool> {
        *self
            .scheduler
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        Ok(true)
    }

    async fn prepare(&self, fixture: Fixture) -> Result<Option<Prepared>> {
        let nobody = FunctionId {
            namespace: Namespace::new("fixtures")?,
            name: Name::new("f")?,
            uid: Uid::new("fixture"),
        };
        let made = world::workload_of(nobody, self.runtime, fixture.source(self.runtime)?).await?;
        Ok(Some(Prepared {
            artifact: made.artifact,
            runtime: made.runtime,
            entrypoint: made.entrypoint,
        }))
    }

    fn overflow(&self) -> usize {
        world::QUEUE_LENGTH + 2
    }

    fn runs_survive(&self) -> bool {
        true
    }
}

sless_conformance::scheduler!(
    #[ignore = "needs Kubernetes: testing/kubernetes/up"]
    OnCluster::new(Runtime::Python311)
);

/// What can differ between languages.
const OF_A_LANGUAGE: [&str; 12] = [
    "an_applied_workload_answers",
    "the_function_sees_its_environment",
    "every_byte_arrives_both_ways",
    "the_request_arrives_as_it_is",
    "a_raised_error_is_a_response",
    "a_response_streams_out",
    "a_workload_that_cannot_start_is_failed_and_says_why",
    "an_idle_function_sleeps_and_wakes",
    "a_process_that_ends_fails_its_call_only",
    "a_job_runs_and_gives_its_result",
    "a_job_that_raises_has_failed",
    "lines_carry_their_request_and_source",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Kubernetes: testing/kubernetes/up"]
async fn node_functions_do_the_same() {
    let harnesses: Vec<_> = OF_A_LANGUAGE
        .iter()
        .map(|_| OnCluster::new(Runtime::NodeJs20))
        .collect();
    let checks = OF_A_LANGUAGE
        .iter()
        .zip(&harnesses)
        .map(|(name, harness)| async move {
            let checked = sless_conformance::scheduler::check(name, harness).await;
            checked
                .err()
                .map(|violation| format!("{name}: {violation}"))
        });
    let violations: Vec<_> = futures::future::join_all(checks)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert!(violations.is_empty(), "{violations:#?}");
}
