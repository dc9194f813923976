//! What the roles do apart from calls: a job for the operator, a message for the dispatcher, a log for the API.
//!
//! Each has an account of its own, so that what one may not do shows here.

use futures::TryStreamExt as _;
use sless_api::{
    CreateJob, CreateTrigger, JobPhase, LogQuery, TriggerType,
    client::{Client, Content},
};

use crate::function::eventually;

/// Runs a job, and removes it.
pub(crate) async fn job(client: &Client, namespace: &str, function: &str) {
    let job = CreateJob {
        name: "once".into(),
        function_ref: function.into(),
        event_json: Some(r#"{"name":"Grace"}"#.into()),
        run_id: Some(1),
    };
    client.create_job(namespace, &job).await.expect("a job");
    let result = eventually("the job has run", async || {
        let job = client.job(namespace, "once").await;
        let job = job.map_err(|error| error.to_string())?;
        match job.phase {
            JobPhase::Succeeded => Ok(job.result),
            _ => Err(format!("{job:?}")),
        }
    })
    .await;
    assert_eq!(result.as_deref(), Some(r#""Grace""#));
    let receipt = client.delete_job(namespace, "once").await;
    receipt.expect("it is removed");
}

/// Sends a message to a queue, which becomes a call.
pub(crate) async fn message(client: &Client, namespace: &str, function: &str, queue: &str) {
    let trigger = CreateTrigger {
        name: "letters".into(),
        kind: TriggerType::Event,
        function_ref: function.into(),
        enabled: None,
        schedule: None,
        time_zone: None,
        policies: None,
        queue: Some(queue.into()),
        queue_declare: None,
        delivery: None,
    };
    let made = client.create_trigger(namespace, &trigger).await;
    made.expect("a trigger");
    let seen = async || {
        let trigger = client.trigger(namespace, "letters").await;
        trigger.map_err(|error| error.to_string())
    };
    eventually("the queue is consumed", async || {
        let trigger = seen().await?;
        match trigger.connected {
            Some(true) => Ok(()),
            _ => Err(format!("{trigger:?}")),
        }
    })
    .await;
    let letter = Content::bytes(&br#"{"name":"Mary"}"#[..]);
    let sent = client.publish(namespace, queue, "application/json", letter);
    sent.await.expect("it is sent");
    logged(client, namespace, function, "greeting Mary").await;
    // The counts are stored from time to time.
    eventually("the message is counted", async || {
        let trigger = seen().await?;
        match trigger.delivered {
            0 => Err(format!("{trigger:?}")),
            _ => Ok(()),
        }
    })
    .await;
    let receipt = client.delete_trigger(namespace, "letters").await;
    receipt.expect("it is removed");
}

/// Waits until a function's log has this line.
pub(crate) async fn logged(client: &Client, namespace: &str, function: &str, line: &str) {
    eventually("the line is in the log", async || {
        let told = |error: sless_api::client::ClientError| error.to_string();
        let all = LogQuery::default();
        let lines = client.logs(namespace, function, &all);
        let lines: Vec<_> = lines
            .await
            .map_err(told)?
            .try_collect()
            .await
            .map_err(told)?;
        let there = lines.iter().any(|written| written.text.contains(line));
        if there {
            Ok(())
        } else {
            Err(format!("{lines:?}"))
        }
    })
    .await;
}
