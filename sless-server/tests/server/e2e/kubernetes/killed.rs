//! An operator that is killed at any moment: the next one brings everything to what is wanted, within a
//! bounded time, and nothing is left over or there twice.

#![allow(clippy::print_stdout, reason = "the counts are told")]

use std::{
    collections::BTreeMap,
    env,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job as KubeJob,
    core::v1::{Pod, Service},
};
use serde_json::json;
use sless_api::{CreateJob, FunctionPhase, JobPhase, client::Content};

use super::{
    super::{
        flow::{Language, nothing_is_left, version},
        machine::{self, Machine},
        place::{Backend, Place, cluster::Objects},
        process::LOOK,
    },
    fleet::Fleet,
};

/// How many times it is killed; more by `SLESS_TEST_KILLS`.
const ROUNDS: u32 = 20;

/// How long everything may take to be as it is wanted, from the moment when an operator is there again.
const CONVERGES: Duration = Duration::from_secs(30);

/// How long after the changes of a round the operator is killed, at most: what the slowest step takes.
const KILL_WITHIN: Duration = Duration::from_millis(3_000);

/// What is wanted.
#[derive(Debug, Default)]
struct Wanted {
    /// The version of each function.
    functions: BTreeMap<String, u32>,
    jobs: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn an_operator_that_is_killed_leaves_nothing_half_done() {
    let rounds = env::var("SLESS_TEST_KILLS").map_or(ROUNDS, |count| count.parse().unwrap());
    let seed = env::var("SLESS_TEST_SEED")
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("{rounds} rounds, SLESS_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let place = Place::new(Backend::Kubernetes).await;
    let mut fleet = Fleet::start(&place, &["operator"]).await;
    let machine = place.machine(place.process("api", &[])).await;
    let objects = place.objects.as_ref().unwrap();
    let mut wanted = Wanted::default();
    create(&machine, &mut wanted, "steady", 0).await;
    let mut slowest = converge(&machine, objects, &wanted, 0).await;
    for round in 1..=rounds {
        change(&machine, &mut wanted, round).await;
        let after = KILL_WITHIN.as_secs_f64() * random.f64();
        tokio::time::sleep(Duration::from_secs_f64(after)).await;
        fleet.kill(0).await;
        let took = converge(&machine, objects, &wanted, round).await;
        println!(
            "round {round}: killed after {after:.2} s, as wanted after {:.1} s",
            took.as_secs_f64()
        );
        slowest = slowest.max(took);
    }
    println!("the slowest round took {:.1} s", slowest.as_secs_f64());
    // What has ended goes too, under an operator that is killed once more.
    for job in std::mem::take(&mut wanted.jobs) {
        machine
            .client
            .delete_job(&machine.namespace, &job)
            .await
            .unwrap();
    }
    for name in std::mem::take(&mut wanted.functions).into_keys() {
        machine
            .client
            .delete_function(&machine.namespace, &name)
            .await
            .unwrap();
    }
    fleet.kill(0).await;
    converge(&machine, objects, &wanted, rounds + 1).await;
    nothing_is_left(&place).await;
    machine.stop().await;
    fleet.stop().await;
}

async fn create(machine: &Machine, wanted: &mut Wanted, name: &str, number: u32) {
    let mut function = Language::Python.function();
    name.clone_into(&mut function.name);
    machine
        .upload(&function, version(Language::Python, number))
        .await;
    wanted.functions.insert(name.to_owned(), number);
}

/// One of everything: new code, a new function, one that goes, a job.
async fn change(machine: &Machine, wanted: &mut Wanted, round: u32) {
    let (client, namespace) = (&machine.client, &machine.namespace);
    let zip = Content::bytes(version(Language::Python, round));
    client.upload(namespace, "steady", zip).await.unwrap();
    wanted.functions.insert("steady".to_owned(), round);
    let (new, old) = (format!("f-{round}"), format!("f-{}", round - 1));
    create(machine, wanted, &new, round).await;
    if wanted.functions.remove(&old).is_some() {
        client.delete_function(namespace, &old).await.unwrap();
    }
    let job = CreateJob {
        name: format!("job-{round}"),
        function_ref: "steady".to_owned(),
        event_json: Some(json!({"n": round}).to_string()),
        run_id: Some(1),
    };
    client.create_job(namespace, &job).await.unwrap();
    wanted.jobs.push(job.name);
    // Of the jobs that have ended, the last few stay.
    while wanted.jobs.len() > 3 {
        client
            .delete_job(namespace, &wanted.jobs.remove(0))
            .await
            .unwrap();
    }
}

/// Waits until everything is as it is wanted, and answers how long that took.
async fn converge(machine: &Machine, objects: &Objects, wanted: &Wanted, round: u32) -> Duration {
    let began = Instant::now();
    loop {
        match look(machine, objects, wanted).await {
            Ok(()) => return began.elapsed(),
            Err(seen) => assert!(
                began.elapsed() < CONVERGES,
                "round {round}: not within {CONVERGES:?}: {seen}"
            ),
        }
        tokio::time::sleep(LOOK * 10).await;
    }
}

async fn look(machine: &Machine, objects: &Objects, wanted: &Wanted) -> Result<(), String> {
    let (client, namespace) = (&machine.client, &machine.namespace);
    let one_each = |found: Vec<(String, String)>| {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (owner, _) in found {
            *counts.entry(owner).or_default() += 1;
        }
        counts
    };
    for (name, number) in &wanted.functions {
        let function = client
            .function(namespace, name)
            .await
            .map_err(|error| format!("{name}: {error}"))?;
        if function.phase != FunctionPhase::Ready {
            return Err(format!("{function:?}"));
        }
        let (status, body) = machine.call(name, machine::json("{}")).await;
        let text = String::from_utf8_lossy(&body);
        if status != 200 || !text.contains(&format!("\"version\":{number}")) {
            return Err(format!(
                "{name} is not of version {number}: {status} {text}"
            ));
        }
    }
    for name in &wanted.jobs {
        let job = client
            .job(namespace, name)
            .await
            .map_err(|error| format!("{name}: {error}"))?;
        if job.phase != JobPhase::Succeeded {
            return Err(format!("{job:?}"));
        }
    }
    let functions: BTreeMap<_, _> = wanted
        .functions
        .keys()
        .map(|name| (name.clone(), 1))
        .collect();
    let jobs: BTreeMap<_, _> = wanted.jobs.iter().map(|name| (name.clone(), 1)).collect();
    let mut pods = functions.clone();
    pods.extend(jobs.clone());
    for (kind, found, expected) in [
        (
            "Deployments",
            objects.owners::<Deployment>().await,
            &functions,
        ),
        ("Services", objects.owners::<Service>().await, &functions),
        ("Jobs", objects.owners::<KubeJob>().await, &jobs),
        ("Pods", objects.owners::<Pod>().await, &pods),
    ] {
        let found = one_each(found);
        if found != *expected {
            return Err(format!("{kind}: {found:?}, wanted are {expected:?}"));
        }
    }
    Ok(())
}
