//! A cluster without the services that it lacks, and a cluster that is away.

use std::{path::Path, process::Command, time::Instant};

use k8s_openapi::api::networking::v1::Ingress;
use serde_json::{Value, json};
use sless_api::{CreateTrigger, FunctionPhase, InvocationsQuery};

use super::super::{
    flow::{Language, nothing_is_left, until, version},
    machine::{self, Machine},
    place::{Backend, Place},
    process::{DEADLINE, LOOK, Process, command},
};
use crate::support::refused;

async fn readiness(machine: &Machine) -> (bool, Value) {
    let request = "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = machine.exchange(request).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.starts_with("HTTP/1.1 200 "),
        serde_json::from_str(body).unwrap(),
    )
}

/// One process, its sources in files: functions work; what needs a service says which.
#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn one_process_needs_no_service_and_tells_what_it_lacks() {
    let place = Place::new(Backend::Kubernetes).await;
    let none = [
        "S3_ENDPOINT",
        "S3_BUCKET",
        "S3_REGION",
        "S3_ACCESS_KEY",
        "S3_SECRET_KEY",
        "RABBITMQ_URL",
        "DATABASE_URL",
    ];
    let mut further: Vec<_> = none.iter().map(|name| (*name, "")).collect();
    // Where it has no address of its own, functions are published by Ingresses.
    further.push(("INGRESS_HOST", "functions.example.com"));
    let roles = "api,operator,dispatcher,console";
    let machine = place.machine(place.process(roles, &further)).await;
    let (client, namespace) = (&machine.client, &machine.namespace);
    let function = Language::Python.function();
    machine
        .upload(&function, version(Language::Python, 1))
        .await;
    let ready = machine.settled(&function.name).await;
    assert_eq!(ready.phase, FunctionPhase::Ready, "{ready:?}");
    assert_eq!(
        ready.url,
        format!(
            "http://functions.example.com/fn/{namespace}/{}",
            function.name
        )
    );
    let (status, _) = machine.call(&function.name, machine::json("{}")).await;
    assert_eq!(status, 200);
    let ingresses = place.objects.as_ref().unwrap().owners::<Ingress>().await;
    assert_eq!(ingresses.len(), 1, "{ingresses:?}");
    assert!(
        place.store.keys().await.is_empty(),
        "nothing is in a store that was not named"
    );

    let trigger =
        json!({"name": "orders", "type": "event", "function_ref": function.name, "queue": "q"});
    let trigger: CreateTrigger = serde_json::from_value(trigger).unwrap();
    client.create_trigger(namespace, &trigger).await.unwrap();
    until("it says why it does not act", async || {
        let trigger = client.trigger(namespace, "orders").await.unwrap();
        let said = trigger.message.clone().unwrap_or_default();
        if said.contains("RABBITMQ_URL is not set") {
            Ok(())
        } else {
            Err(format!("{trigger:?}"))
        }
    })
    .await;
    let query = InvocationsQuery::default();
    let (status, ..) = refused(client.invocations(namespace, &function.name, &query).await);
    assert_eq!(status, 501, "no log of calls");
    let (ready, told) = readiness(&machine).await;
    assert!(ready, "{told}");
    assert_eq!(
        (&told["parts"]["kubernetes"], &told["parts"]["storage"]),
        (&json!("ok"), &json!("ok"))
    );

    client.delete_trigger(namespace, "orders").await.unwrap();
    client
        .delete_function(namespace, &function.name)
        .await
        .unwrap();
    nothing_is_left(&place).await;
    machine.stop().await;
}

/// A script of `testing/kubernetes`.
pub(super) fn script(name: &str) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testing/kubernetes");
    Command::new(scripts.join(name))
}

/// An API server that is away is told by `/readyz`, which stays well: functions that run are called
/// without it. It is the test's own, so that it can be stopped.
#[tokio::test]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn an_api_server_that_is_away_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let up = script("control-plane")
        .arg(&state)
        .arg(std::process::id().to_string())
        .output()
        .unwrap();
    assert!(
        up.status.success(),
        "{}",
        String::from_utf8_lossy(&up.stderr)
    );
    let lines = String::from_utf8(up.stdout).unwrap();
    let value = |name: &str| {
        lines
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .to_owned()
    };
    let kubeconfig = value("SLESS_TEST_KUBECONFIG=");
    let kubectl = value("SLESS_TEST_KUBECTL=");
    let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds");
    for arguments in [
        vec!["apply", "-f", crds.to_str().unwrap()],
        vec![
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "--all",
        ],
        vec!["create", "namespace", "sless-system"],
    ] {
        let done = Command::new(&kubectl)
            .env("KUBECONFIG", &kubeconfig)
            .args(&arguments)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    let mut serve = command(Some(folder.path()), ["serve"]);
    serve
        .env("SLESS_LISTEN", "127.0.0.1:0")
        .env("SLESS_BACKEND", "kubernetes")
        .env("REGISTRY_HOST", "registry.example.com")
        .env("SLESS_HS256_KEY_FILE", folder.path().join("key"))
        .env("KUBECONFIG", &kubeconfig);
    let mut process = Process::start(serve);
    let address = process.serving().await;
    let until_told = async |well: bool| {
        let began = Instant::now();
        loop {
            let answer = get(address, "/readyz").await;
            let told: Value =
                serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            if (told["parts"]["kubernetes"] == "ok") == well && answer.starts_with("HTTP/1.1 200 ")
            {
                return;
            }
            assert!(began.elapsed() < DEADLINE, "{answer}");
            tokio::time::sleep(LOOK).await;
        }
    };
    until_told(true).await;
    let component = |what: &str| {
        let done = script("component")
            .arg(&state)
            .args([what, "apiserver"])
            .status()
            .unwrap();
        assert!(done.success(), "{what}");
    };
    component("stop");
    until_told(false).await;
    component("start");
    until_told(true).await;
    process.signal(rustix::process::Signal::TERM);
    let status = process.ended(DEADLINE).await;
    assert!(status.success(), "{}", process.err.text());
    assert!(script("down").arg(&state).status().unwrap().success());
}

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    super::fleet::ask(stream, &request).await.unwrap()
}
