//! Other hands: what `kubectl` makes and changes is as good as what comes through the API, and each sees
//! the other's.

use serde_json::{Value, json};
use sless_api::{
    CreateJob, CreateTrigger, Field, FunctionPhase, JobPhase, PatchFunction, client::Content,
};

use super::super::{
    flow::{Language, nothing_is_left, until, version},
    machine::{self, Machine},
    place::{Backend, Place, cluster::kubectl_prints},
};

struct Hands<'a> {
    machine: &'a Machine,
}

impl Hands<'_> {
    fn apply(&self, kind: &str, name: &str, spec: Value) {
        let metadata = json!({"name": name, "namespace": self.machine.namespace});
        let object = json!({
            "apiVersion": "sless.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
        });
        kubectl_prints(&["apply", "-f", "-"], &object.to_string());
    }

    fn run(&self, arguments: &[&str]) -> String {
        kubectl_prints(&[&["-n", &self.machine.namespace], arguments].concat(), "")
    }

    fn read(&self, what: &str) -> Value {
        serde_json::from_str(&self.run(&["get", what, "-o", "json"])).unwrap()
    }

    async fn answers(&self, name: &str, word: &str) {
        until("it answers", async || {
            let (status, body) = self.machine.call(name, machine::json(r#"{"n": 1}"#)).await;
            let text = String::from_utf8_lossy(&body).into_owned();
            let value: Value = serde_json::from_str(&text).unwrap_or_default();
            if status == 200 && value["word"] == word {
                Ok(())
            } else {
                Err(format!("{status} {text}"))
            }
        })
        .await;
    }
}

// kubectl is waited for by a thread, and connections end meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn kubectl_and_the_api_see_each_other() {
    let place = Place::new(Backend::Kubernetes).await;
    let machine = place.start().await;
    let hands = Hands { machine: &machine };
    let (client, namespace) = (&machine.client, &machine.namespace);

    // Made by kubectl: seen by the API, which brings the code.
    let spec =
        |word: &str| json!({"runtime": "python3.11", "env": {"WORD": word}, "memory": "128Mi"});
    hands.apply("Function", "applied", spec("one"));
    hands.apply(
        "Trigger",
        "web",
        json!({"type": "http", "functionRef": "applied"}),
    );
    hands.apply(
        "FunctionJob",
        "once",
        json!({"functionRef": "applied", "eventJSON": "{\"n\": 1}", "runId": 1}),
    );
    let seen = client.function(namespace, "applied").await.unwrap();
    assert_eq!(seen.entrypoint, "handler.handle");
    assert_eq!(
        client.trigger(namespace, "web").await.unwrap().function_ref,
        "applied"
    );
    assert_eq!(client.job(namespace, "once").await.unwrap().run_id, 1);
    let zip = Content::bytes(version(Language::Python, 1));
    client.upload(namespace, "applied", zip).await.unwrap();
    hands.run(&[
        "wait",
        "--for=jsonpath={.status.phase}=Ready",
        "--timeout=120s",
        "fn/applied",
    ]);
    assert_eq!(machine.settled("applied").await.phase, FunctionPhase::Ready);
    hands.answers("applied", "one").await;
    hands.run(&[
        "wait",
        "--for=jsonpath={.status.phase}=Succeeded",
        "--timeout=120s",
        "fnjob/once",
    ]);
    let job = client.job(namespace, "once").await.unwrap();
    assert_eq!(job.phase, JobPhase::Succeeded);
    assert!(job.result.unwrap().contains(r#""n":2"#));

    // Changed by kubectl, with the code that the API brought.
    hands.apply("Function", "applied", spec("two"));
    hands.answers("applied", "two").await;
    hands.apply(
        "Trigger",
        "web",
        json!({"type": "http", "functionRef": "applied", "enabled": false}),
    );
    hands.run(&[
        "wait",
        "--for=jsonpath={.status.phase}=Stopped",
        "--timeout=120s",
        "fn/applied",
    ]);
    assert_eq!(
        client.function(namespace, "applied").await.unwrap().phase,
        FunctionPhase::Stopped
    );
    hands.apply(
        "Trigger",
        "web",
        json!({"type": "http", "functionRef": "applied", "enabled": true}),
    );
    hands.answers("applied", "two").await;

    // Changed by the API: seen by kubectl.
    let patch = PatchFunction {
        env: Field::Value([("WORD", "three")].into_iter().collect()),
        ..PatchFunction::default()
    };
    client
        .patch_function(namespace, "applied", &patch)
        .await
        .unwrap();
    assert_eq!(hands.read("fn/applied")["spec"]["env"]["WORD"], "three");
    hands.answers("applied", "three").await;

    // Made by the API: seen by kubectl.
    let trigger =
        json!({"name": "made", "type": "cron", "function_ref": "applied", "schedule": "0 0 1 1 *"});
    let trigger: CreateTrigger = serde_json::from_value(trigger).unwrap();
    client.create_trigger(namespace, &trigger).await.unwrap();
    assert_eq!(hands.read("trg/made")["spec"]["schedule"], "0 0 1 1 *");
    let job = CreateJob {
        name: "made".to_owned(),
        function_ref: "applied".to_owned(),
        ..CreateJob::default()
    };
    client.create_job(namespace, &job).await.unwrap();
    hands.run(&[
        "wait",
        "--for=jsonpath={.status.phase}=Skipped",
        "--timeout=120s",
        "fnjob/made",
    ]);

    // What is refused there is refused here, in the same words or better.
    let bad = json!({
        "apiVersion": "sless.io/v1alpha1", "kind": "Function", "spec": {"runtime": "cobol"},
        "metadata": {"name": "bad", "namespace": namespace},
    });
    let refused = super::super::place::cluster::kubectl(&["apply", "-f", "-"], &bad.to_string());
    assert!(!refused.status.success());

    // Deleted by kubectl, which waits for the end: nothing is left.
    hands.run(&[
        "delete",
        "--timeout=120s",
        "trg/web",
        "trg/made",
        "fnjob/once",
        "fnjob/made",
        "fn/applied",
    ]);
    until("the API says so", async || {
        let found = client.function(namespace, "applied").await;
        match found {
            Err(error) if error.is_not_found() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    nothing_is_left(&place).await;
    machine.stop().await;
}
