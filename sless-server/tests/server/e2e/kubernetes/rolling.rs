//! A rolling restart of every role under load loses no request, no message and no job.

#![allow(clippy::print_stdout, reason = "the counts are told")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::batch::v1::Job as KubeJob;
use serde_json::{Value, json};
use sless_api::{
    CreateJob, CreateTrigger, FunctionPhase, InvocationOrigin, InvocationsQuery, JobPhase,
    ListQuery,
    client::{Client, ClientConfig, Content},
};

use super::{
    super::{
        flow::{Language, nothing_is_left, until, version},
        place::{Backend, Place},
        process::{DEADLINE, LOOK},
    },
    fleet::{Apis, Fleet, ask},
};

/// Callers at once.
const CALLERS: usize = 4;
/// How far calls of one caller are apart.
const CALL_EVERY: Duration = Duration::from_millis(40);
const MESSAGE_EVERY: Duration = Duration::from_millis(80);
const JOB_EVERY: Duration = Duration::from_secs(4);

/// What was sent, and what came of it.
#[derive(Debug, Default)]
struct Load {
    done: AtomicBool,
    calls: AtomicUsize,
    messages: AtomicUsize,
    jobs: AtomicUsize,
}

impl Load {
    fn goes_on(&self) -> bool {
        !self.done.load(Ordering::Relaxed)
    }
}

struct User {
    apis: Apis,
    namespace: String,
    token: String,
}

impl User {
    /// A client of one of the copies that are there.
    fn client(&self, turn: usize) -> Client {
        let all = self.apis.all();
        let address = all[turn % all.len()];
        let mut config = ClientConfig::new(format!("http://{address}")).with_token(&*self.token);
        config.max_retries = 0;
        Client::new(config).unwrap()
    }

    /// Calls the function once and never again: what has been sent has to be answered.
    async fn call(&self, number: usize) {
        let body = format!("{{\"n\": {number}}}");
        let request = format!(
            "POST /fn/{}/{} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.namespace,
            Language::Python.name(),
            body.len()
        );
        let stream = self.apis.connect(number).await;
        let answer = ask(stream, &request).await;
        let answer = answer.unwrap_or_else(|error| panic!("call {number} was lost: {error}"));
        let right = format!("\"n\":{}", number + 1);
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains(&right),
            "call {number}: {answer}"
        );
    }

    /// Creates a job, again where nobody answered.
    async fn create_job(&self, number: usize) {
        let job = CreateJob {
            name: format!("job-{number}"),
            function_ref: Language::Python.name().to_owned(),
            event_json: Some(format!("{{\"n\": {number}}}")),
            run_id: Some(1),
        };
        let began = Instant::now();
        for turn in number.. {
            let error = match self.client(turn).create_job(&self.namespace, &job).await {
                Ok(_) => return,
                Err(error) => error,
            };
            if error.api().is_some_and(|api| api.code == "already_exists") {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{error:?}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn a_rolling_restart_of_every_role_loses_nothing() {
    let place = Arc::new(Place::new(Backend::Kubernetes).await);
    let roles = [
        "api",
        "api",
        "operator",
        "operator",
        "dispatcher",
        "dispatcher",
    ];
    let mut fleet = Fleet::start(&place, &roles).await;
    let user = Arc::new(User {
        apis: fleet.apis(),
        namespace: place.namespace.clone(),
        token: place.token().to_owned(),
    });
    let (client, namespace) = (user.client(0), &place.namespace);
    client.ensure_namespace(namespace).await.unwrap();
    let name = Language::Python.name();
    let mut function = Language::Python.function();
    function.concurrency = Some(8);
    client.create_function(namespace, &function).await.unwrap();
    let zip = Content::bytes(version(Language::Python, 1));
    client.upload(namespace, name, zip).await.unwrap();
    until("ready", async || {
        let function = client.function(namespace, name).await.unwrap();
        if function.phase == FunctionPhase::Ready {
            Ok(())
        } else {
            Err(format!("{function:?}"))
        }
    })
    .await;
    let queue = format!("{namespace}-rolling");
    let trigger = json!({"name": "orders", "type": "event", "function_ref": name, "queue": queue});
    let trigger: CreateTrigger = serde_json::from_value(trigger).unwrap();
    client.create_trigger(namespace, &trigger).await.unwrap();
    until("connected", async || {
        let trigger = client.trigger(namespace, "orders").await.unwrap();
        if trigger.connected == Some(true) {
            Ok(())
        } else {
            Err(format!("{trigger:?}"))
        }
    })
    .await;

    let load = Arc::new(Load::default());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let (load, user) = (load.clone(), user.clone());
        tasks.spawn(async move {
            while load.goes_on() {
                user.call(load.calls.fetch_add(1, Ordering::Relaxed)).await;
                tokio::time::sleep(CALL_EVERY).await;
            }
        });
    }
    {
        let (load, place, queue) = (load.clone(), place.clone(), queue.clone());
        tasks.spawn(async move {
            while load.goes_on() {
                let number = load.messages.fetch_add(1, Ordering::Relaxed);
                let (id, body) = (format!("m-{number}"), format!("{{\"n\": {number}}}"));
                place.queue.publish(&queue, &id, &body).await;
                tokio::time::sleep(MESSAGE_EVERY).await;
            }
        });
    }
    {
        let (load, user) = (load.clone(), user.clone());
        tasks.spawn(async move {
            while load.goes_on() {
                user.create_job(load.jobs.fetch_add(1, Ordering::Relaxed))
                    .await;
                tokio::time::sleep(JOB_EVERY).await;
            }
        });
    }
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let enough = || count(&load.calls) > 100 && count(&load.messages) > 50 && count(&load.jobs) > 2;
    // Once, and on a quick machine again until the load has met enough of it.
    for round in 0..10 {
        if round > 0 && enough() {
            break;
        }
        for at in 0..fleet.len() {
            fleet.restart(at).await;
        }
    }
    load.done.store(true, Ordering::Relaxed);
    // A call that was lost is the panic of its caller.
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let (calls, messages, jobs) = (count(&load.calls), count(&load.messages), count(&load.jobs));
    assert!(enough(), "{load:?}");

    every_message_was_handled(&user, &place, &queue, messages).await;
    every_job_has_run_once(&user, &place, jobs).await;

    let client = user.client(0);
    for job in 0..jobs {
        client
            .delete_job(namespace, &format!("job-{job}"))
            .await
            .unwrap();
    }
    client.delete_trigger(namespace, "orders").await.unwrap();
    client.delete_function(namespace, name).await.unwrap();
    nothing_is_left(&place).await;
    let troubles = fleet.troubles();
    fleet.stop().await;
    // For whoever looks at a run, which is shown where it fails or is asked for.
    println!("{calls} calls, {messages} messages, {jobs} jobs\n{troubles}");
}

/// The records of calls of this origin: request id and status.
async fn recorded(user: &User, origin: InvocationOrigin) -> Vec<(String, u16)> {
    let mut query = InvocationsQuery {
        origin: Some(origin),
        ..InvocationsQuery::default()
    };
    let mut all = Vec::new();
    loop {
        let asked = user.client(0);
        let page = asked
            .invocations(&user.namespace, Language::Python.name(), &query)
            .await
            .unwrap();
        all.extend(
            page.items
                .into_iter()
                .map(|call| (call.request_id, call.status)),
        );
        query.cursor = page.next;
        if query.cursor.is_none() {
            return all;
        }
    }
}

async fn every_message_was_handled(user: &User, place: &Place, queue: &str, messages: usize) {
    until("every message was handled", async || {
        let handled: BTreeSet<String> = recorded(user, InvocationOrigin::Event)
            .await
            .into_iter()
            .filter(|(_, status)| *status == 200)
            // The name of the message, and which attempt it was.
            .filter_map(|(id, _)| Some(id.rsplit_once('-')?.0.to_owned()))
            .collect();
        let left: Vec<_> = (0..messages)
            .map(|number| format!("m-{number}"))
            .filter(|id| !handled.contains(id))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("not handled: {left:?}"))
        }
    })
    .await;
    until("the queue is empty", async || {
        match place.queue.ready(queue).await {
            0 => Ok(()),
            ready => Err(format!("{ready} are ready")),
        }
    })
    .await;
    let query = ListQuery::default();
    let letters = user
        .client(0)
        .dead_letters(&user.namespace, "orders", &query)
        .await
        .unwrap();
    assert!(letters.items.is_empty(), "{:?}", letters.items);
}

async fn every_job_has_run_once(user: &User, place: &Place, jobs: usize) {
    let client = user.client(0);
    for number in 0..jobs {
        let name = format!("job-{number}");
        let job = until(&format!("{name} has ended"), async || {
            let job = client.job(&user.namespace, &name).await.unwrap();
            let over = matches!(job.phase, JobPhase::Succeeded | JobPhase::Failed);
            if over {
                Ok(job)
            } else {
                Err(format!("{job:?}"))
            }
        })
        .await;
        assert_eq!(job.phase, JobPhase::Succeeded, "{job:?}");
        let result: Value = serde_json::from_str(job.result.as_deref().unwrap()).unwrap();
        assert_eq!(result["n"], number + 1);
    }
    let objects = place.objects.as_ref().unwrap();
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    for (owner, _) in objects.owners::<KubeJob>().await {
        *runs.entry(owner).or_default() += 1;
    }
    let wanted: BTreeMap<_, _> = (0..jobs)
        .map(|number| (format!("job-{number}"), 1))
        .collect();
    assert_eq!(runs, wanted, "one run of each");
    until("every run is recorded once", async || {
        let records = recorded(user, InvocationOrigin::Job).await;
        let well = records.len() == jobs && records.iter().all(|(_, status)| *status == 200);
        if well {
            Ok(())
        } else {
            Err(format!("{records:?}"))
        }
    })
    .await;
}
