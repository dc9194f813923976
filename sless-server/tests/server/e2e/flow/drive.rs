//! What drives a function beside requests: messages, the clock, jobs; and what is recorded of it all.

use std::collections::BTreeSet;

use serde_json::json;
use sless_api::{
    CreateJob, CreateTrigger, InvocationsQuery, Job, JobPhase, ListQuery, PatchJob, Trigger,
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
        run(2).await;
        let second = self.job_is(JobPhase::Succeeded, Some(&first)).await;
        assert!(second.started_at > first.started_at, "{second:?}");
    }

    /// The log of calls has one record of each, whoever made it.
    pub(super) async fn has_recorded_all(&self) {
        let (client, namespace) = (&self.machine.client, &self.machine.namespace);
        until("all calls are recorded", async || {
            let mut causes = BTreeSet::new();
            let mut query = InvocationsQuery::default();
            loop {
                let page = client
                    .invocations(namespace, self.name(), &query)
                    .await
                    .unwrap();
                for call in page.items {
                    let cause = call.cause.unwrap_or_default();
                    causes.insert(format!("{} {cause} {}", call.origin.as_str(), call.status));
                }
                query.cursor = page.next;
                if query.cursor.is_none() {
                    break;
                }
            }
            let wanted = [
                "http  200",
                "cron clock 200",
                "event orders 200",
                "event orders 500",
                "job once 200",
            ];
            if wanted.iter().all(|wanted| causes.contains(*wanted)) {
                Ok(())
            } else {
                Err(format!("{causes:?}"))
            }
        })
        .await;
    }
}
