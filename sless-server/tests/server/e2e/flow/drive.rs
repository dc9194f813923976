//! What drives a function beside requests: messages, the clock, jobs; and what is recorded of it all.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::batch::v1::CronJob;
use serde_json::json;
use sless_api::{
    CreateJob, CreateTrigger, Job, JobPhase, ListQuery, PatchJob, PatchTrigger, Trigger,
};

use super::{Flow, until};

impl Flow<'_> {
    async fn trigger(&self, trigger: serde_json::Value) {
        let trigger: CreateTrigger = serde_json::from_value(trigger).unwrap();
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        client.create_trigger(namespace, &trigger).await.unwrap();
    }

    async fn trigger_is(&self, name: &str, holds: impl Fn(&Trigger) -> bool) -> Trigger {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        until(&format!("trigger {name}"), async || {
            let trigger = client.trigger(namespace, name).await.unwrap();
            if holds(&trigger) {
                Ok(trigger)
            } else {
                Err(format!("{trigger:?}"))
            }
        })
        .await
    }

    /// A message reaches the function and is acknowledged; one that fails becomes a dead letter.
    pub(super) async fn handles_messages(&self) {
        let queue = format!("{}-{}", self.place.namespace, self.name());
        self.trigger(json!({
            "name": "orders", "type": "event", "function_ref": self.name(), "queue": queue,
            "delivery": {"max_attempts": 2, "min_backoff": "10ms", "max_backoff": "20ms"},
        }))
        .await;
        self.trigger_is("orders", |it| it.connected == Some(true))
            .await;
        self.place.queue.publish(&queue, "m-1", r#"{"n": 7}"#).await;
        self.machine.logged(self.name(), "m-1").await;
        self.place
            .queue
            .publish(&queue, "m-2", r#"{"fail": true}"#)
            .await;
        let seen = self.trigger_is("orders", |it| it.dead_lettered == 1).await;
        assert_eq!(seen.delivered, 1, "{seen:?}");
        assert_eq!(
            self.place.queue.ready(&queue).await,
            0,
            "all is acknowledged"
        );
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        let query = ListQuery::default();
        let letters = client
            .dead_letters(namespace, "orders", &query)
            .await
            .unwrap()
            .items;
        assert_eq!((letters.len(), letters[0].attempts), (1, 2), "{letters:?}");
    }

    /// Made early, since the clock takes its time.
    pub(super) async fn schedules(&self) {
        let name = self.name();
        self.trigger(json!({
            "name": "clock", "type": "cron", "function_ref": name, "schedule": "* * * * *",
        }))
        .await;
        let clock = self
            .trigger_is("clock", |it| it.next_fire_at.is_some())
            .await;
        assert!(clock.active, "{clock:?}");
        assert_eq!(self.cron_jobs().await.len(), usize::from(self.by_cluster));
    }

    /// The names of the triggers that are CronJobs.
    async fn cron_jobs(&self) -> Vec<String> {
        let Some(objects) = &self.place.objects else {
            return Vec::new();
        };
        let owners = objects.owners::<CronJob>().await.into_iter();
        owners.map(|(trigger, _)| trigger).collect()
    }

    /// What was handed to the cluster before is taken back, and the engine's clock has it.
    pub(super) async fn is_taken_back(&self) {
        until("the CronJob is gone", async || {
            let left = self.cron_jobs().await;
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await;
        // Another schedule, so that what is seen is what the new process says.
        let patch: PatchTrigger = serde_json::from_value(json!({"schedule": "0 0 1 1 *"})).unwrap();
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        client
            .patch_trigger(namespace, "clock", &patch)
            .await
            .unwrap();
        let new_year = |it: &Trigger| {
            let next = it.next_fire_at.map(|next| next.to_string());
            it.active && next.is_some_and(|next| next.ends_with("-01-01T00:00:00Z"))
        };
        self.trigger_is("clock", new_year).await;
        assert_eq!(self.cron_jobs().await, Vec::<String>::new());
    }

    pub(super) async fn fires_by_schedule(&self) {
        self.trigger_is("clock", |it| it.last_fire_at.is_some())
            .await;
        self.machine.logged(self.name(), " cron ").await;
    }

    async fn job_is(&self, phase: JobPhase, after: Option<&Job>) -> Job {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        until(&format!("the job is {phase:?}"), async || {
            let job = client.job(namespace, "once").await.unwrap();
            let is_new = after.is_none_or(|before| job.finished_at > before.finished_at);
            if job.phase == phase && is_new {
                Ok(job)
            } else {
                Err(format!("{job:?}"))
            }
        })
        .await
    }

    /// Run id 0 runs nothing, 1 runs once, and 2 once more.
    pub(super) async fn runs_jobs(&self) {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        let job = CreateJob {
            name: "once".to_owned(),
            function_ref: self.name().to_owned(),
            event_json: Some(r#"{"n": 99}"#.to_owned()),
            run_id: None,
        };
        client.create_job(namespace, &job).await.unwrap();
        let skipped = self.job_is(JobPhase::Skipped, None).await;
        assert_eq!((skipped.run_id, skipped.result), (0, None));
        let run = async |run_id: i64| {
            let patch = PatchJob {
                run_id: Some(run_id),
                ..PatchJob::default()
            };
            client.patch_job(namespace, "once", &patch).await.unwrap();
        };
        run(1).await;
        let first = self.job_is(JobPhase::Succeeded, None).await;
        let result: serde_json::Value =
            serde_json::from_str(first.result.as_deref().unwrap()).unwrap();
        assert_eq!(result, json!({"n": 100, "word": "hi", "version": 2}));
        // Kubernetes tells times in whole seconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        run(2).await;
        let second = self.job_is(JobPhase::Succeeded, Some(&first)).await;
        assert!(second.started_at > first.started_at, "{second:?}");
    }

    /// The log of calls has one record of each, whoever made it.
    pub(super) async fn has_recorded_all(&self) {
        until("all calls are recorded", async || {
            let records = self.machine.records(self.name()).await.into_iter();
            let causes: BTreeSet<_> = records
                .map(|call| {
                    let cause = call.cause.unwrap_or_default();
                    format!("{} {cause} {}", call.origin.as_str(), call.status)
                })
                .collect();
            let wanted = [
                "http  200",
                "event orders 200",
                "event orders 500",
                "job once 200",
            ];
            // Where the cluster fires, its call is like any other one, and the engine makes none.
            let by_engine = causes.contains("cron clock 200");
            let all = wanted.iter().all(|wanted| causes.contains(*wanted));
            if all && by_engine != self.by_cluster {
                Ok(())
            } else {
                Err(format!("{causes:?}"))
            }
        })
        .await;
    }
}
