//! The agent of a node is killed and comes back: what runs goes on without it, and what was asked for
//! meanwhile is made, once.

#![allow(clippy::print_stdout, reason = "the times are told")]

use std::{
    cell::Cell,
    collections::BTreeMap,
    env, fs,
    process::id,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use sless_api::{CreateJob, FunctionPhase, JobPhase, client::Content};

use super::{
    super::{
        flow::{Language, nothing_is_left, until, version},
        machine,
        place::{Backend, Place, cluster::variable},
        process::LOOK,
    },
    bare::script,
};

/// How long everything may take to be as it is wanted, from the moment when the agent is there again, where
/// the machine does nothing else.
const CONVERGES: Duration = Duration::from_secs(30);

/// How long the agent is away in the long form: the cluster gives a node up after 40 seconds.
const GIVEN_UP: Duration = Duration::from_secs(70);

/// Calls that are answered while it is away.
const CALLS: usize = 20;

/// A node of this test's own, so that the others keep theirs.
struct Node {
    state: String,
    name: String,
}

impl Node {
    fn add() -> Self {
        let node = Self {
            state: variable("SLESS_TEST_KUBERNETES_STATE"),
            name: format!("n{:08x}", fastrand::u32(..)),
        };
        node.run("add-node", &[&node.name, &id().to_string()]);
        node
    }

    fn run(&self, name: &str, arguments: &[&str]) {
        let status = script(name).arg(&self.state).args(arguments).status();
        assert!(status.unwrap().success(), "{name} {arguments:?}");
    }

    /// Kills its agent, or starts it.
    fn agent(&self, action: &str) {
        self.run("component", &[action, &format!("kubelet-{}", self.name)]);
    }

    /// What has pods land here.
    fn settings(&self, place: &Place) -> [(&'static str, String); 1] {
        let text = format!(
            "[scheduler.pods]\nnode_selector = {{ 'sless.test/node' = '{}' }}\n\
             tolerations = [{{ key = 'sless.test/node', operator = 'Exists' }}]\n",
            self.name
        );
        let file = place.data().join("node.toml");
        fs::write(&file, text).unwrap();
        [("SLESS_KUBERNETES_FILE", file.display().to_string())]
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let gone = script("remove-node")
            .args([&self.state, &self.name])
            .status();
        assert!(gone.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// How many pods each owner has.
async fn pods(place: &Place) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (owner, _) in place.objects.as_ref().unwrap().owners::<Pod>().await {
        *counts.entry(owner).or_default() += 1;
    }
    counts
}

async fn has_pods(place: &Place, what: &str, wanted: &[(&str, usize)]) {
    let wanted: BTreeMap<_, _> = wanted
        .iter()
        .map(|(owner, count)| ((*owner).to_owned(), *count))
        .collect();
    until(what, async || match pods(place).await {
        counts if counts == wanted => Ok(()),
        counts => Err(format!("{counts:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn what_runs_goes_on_without_the_agent_of_its_node() {
    let is_long = env::var_os("SLESS_TEST_LONG").is_some();
    let node = Node::add();
    let place = Place::new(Backend::Kubernetes).await;
    let machine = place.start_with(&node.settings(&place)).await;
    let (client, namespace) = (&machine.client, &machine.namespace);
    let function = Language::Python.function();
    let name = &*function.name;
    machine
        .upload(&function, version(Language::Python, 1))
        .await;
    let ready = machine.settled(name).await;
    assert_eq!(ready.phase, FunctionPhase::Ready, "{ready:?}");

    // By what they were answered with.
    let (answered, refused) = (Cell::new(0), Cell::new(0));
    let (given_up, done) = (Cell::new(false), Cell::new(false));
    let call = async || {
        let (status, body) = machine.call(name, machine::json("{}")).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        if status == 200 {
            answered.set(answered.get() + 1);
            let answer: Value = serde_json::from_str(&text).unwrap();
            return answer["version"].as_u64();
        }
        assert!(given_up.get(), "{status}: {text}");
        refused.set(refused.get() + 1);
        None
    };
    let calling = async {
        while !done.get() {
            let version = call().await;
            assert!(version.is_none_or(|version| version == 1 || version == 2));
            tokio::time::sleep(LOOK * 5).await;
        }
    };
    let breaking = async {
        node.agent("kill");
        let job = CreateJob {
            name: "once".to_owned(),
            function_ref: name.to_owned(),
            event_json: Some(json!({"n": 1}).to_string()),
            run_id: Some(1),
        };
        client.create_job(namespace, &job).await.unwrap();
        has_pods(&place, "the job waits for it", &[(name, 1), ("once", 1)]).await;
        let zip = Content::bytes(version(Language::Python, 2));
        client.upload(namespace, name, zip).await.unwrap();
        has_pods(
            &place,
            "the new version waits for it",
            &[(name, 2), ("once", 1)],
        )
        .await;
        let before = answered.get();
        until("calls go on", async || match answered.get() - before {
            CALLS.. => Ok(()),
            count => Err(format!("{count} calls")),
        })
        .await;
        let job = client.job(namespace, "once").await.unwrap();
        assert!(
            job.finished_at.is_none(),
            "nothing starts without it: {job:?}"
        );
        if is_long {
            given_up.set(true);
            tokio::time::sleep(GIVEN_UP).await;
        }
        node.agent("start");
        let back = Instant::now();
        until("it is of version 2", async || {
            let seen = client.function(namespace, name).await.unwrap();
            match (seen.phase, call().await) {
                (FunctionPhase::Ready, Some(2)) => Ok(()),
                (_, version) => Err(format!("{version:?}: {seen:?}")),
            }
        })
        .await;
        given_up.set(false);
        until("the job has run", async || {
            match client.job(namespace, "once").await.unwrap() {
                job if job.phase == JobPhase::Succeeded => Ok(()),
                job => Err(format!("{job:?}")),
            }
        })
        .await;
        has_pods(&place, "one of each is left", &[(name, 1), ("once", 1)]).await;
        let took = back.elapsed();
        done.set(true);
        println!(
            "as wanted {:.1} s after the agent was back; {} calls answered, {} refused",
            took.as_secs_f64(),
            answered.get(),
            refused.get()
        );
        assert!(!is_long || took < CONVERGES, "{took:?}");
    };
    futures::join!(calling, breaking);

    // Each call and the run are recorded, and none twice.
    let recorded = async |origin: &str| {
        let records = machine.records(name).await.into_iter();
        let of_these = records.filter(|it| it.origin.as_str() == origin && it.status == 200);
        of_these.count()
    };
    until("all is recorded", async || {
        let counts = (recorded("http").await, recorded("job").await);
        if counts == (answered.get(), 1) {
            Ok(())
        } else {
            Err(format!("{counts:?}, and {} calls", answered.get()))
        }
    })
    .await;
    client.delete_job(namespace, "once").await.unwrap();
    client.delete_function(namespace, name).await.unwrap();
    nothing_is_left(&place).await;
    machine.stop().await;
}
