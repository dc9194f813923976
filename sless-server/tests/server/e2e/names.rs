//! Names: refused alike by every path, and whatever could be created can be deleted.

use sless_api::{
    CreateFunction, CreateJob, CreateTrigger, FunctionPhase, TriggerType,
    client::{ClientError, Content},
};

use super::machine::{Machine, python, zip};

const CODE: &str = "def handle(event):\n    return 'ok'\n";

fn trigger(name: &str, function: &str) -> CreateTrigger {
    CreateTrigger {
        name: name.to_owned(),
        kind: TriggerType::Http,
        function_ref: function.to_owned(),
        enabled: None,
        schedule: None,
        time_zone: None,
        policies: None,
        queue: None,
        queue_declare: None,
        delivery: None,
    }
}

fn job(name: &str, function: &str) -> CreateJob {
    CreateJob {
        name: name.to_owned(),
        function_ref: function.to_owned(),
        ..CreateJob::default()
    }
}

fn word<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> (u16, String) {
    match answer.unwrap_err() {
        ClientError::Api(error) => (error.status, error.code),
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn a_name_is_refused_by_all_paths_alike_or_by_none() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let (client, namespace) = (&machine.client, &machine.namespace);
    let refused = (400, "name_invalid".to_owned());
    let too_long = "a".repeat(64);
    for name in [
        "", &too_long, "Hello", "a.b", "a_b", "-a", "a-", "a b", "ä", "a/b", "../a",
    ] {
        let answer = client.create_function(namespace, &python(name)).await;
        assert_eq!(word(answer), refused, "function {name:?}");
        let answer = client.create_trigger(namespace, &trigger(name, "f")).await;
        assert_eq!(word(answer), refused, "trigger {name:?}");
        let answer = client.create_job(namespace, &job(name, "f")).await;
        assert_eq!(word(answer), refused, "job {name:?}");
        if !name.is_empty() {
            assert_eq!(
                word(client.function(namespace, name).await),
                refused,
                "path {name:?}"
            );
        }
    }
    let longest = "a".repeat(63);
    for name in ["a", "0", "a-0", &longest] {
        machine.deploy(python(name), &[("handler.py", CODE)]).await;
        client
            .create_trigger(namespace, &trigger(name, name))
            .await
            .unwrap();
        client
            .create_job(namespace, &job(name, name))
            .await
            .unwrap();
        let answer = client.create_function(namespace, &python(name)).await;
        assert_eq!(word(answer).0, 409);
        let (status, body) = machine
            .call(name, sless_api::client::Call::new("GET"))
            .await;
        assert_eq!((status, &*body), (200, &b"ok"[..]), "{name}");
        client.delete_trigger(namespace, name).await.unwrap();
        client.delete_job(namespace, name).await.unwrap();
        client.delete_function(namespace, name).await.unwrap();
        assert_eq!(word(client.function(namespace, name).await).0, 404);
    }
    machine.stop().await;
}

#[tokio::test]
async fn a_function_is_deleted_in_any_state_and_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let (client, namespace) = (&machine.client, &machine.namespace);
    // Without code, failed, off, ready.
    client
        .create_function(namespace, &python("empty"))
        .await
        .unwrap();
    machine
        .upload(
            &python("failed"),
            zip(&[("handler.py", "import nothing_like_it\n")]),
        )
        .await;
    assert_eq!(machine.settled("failed").await.phase, FunctionPhase::Failed);
    let off = CreateFunction {
        replicas: Some(0),
        ..python("off")
    };
    machine.upload(&off, zip(&[("handler.py", CODE)])).await;
    assert_eq!(machine.settled("off").await.phase, FunctionPhase::Stopped);
    machine
        .deploy(python("ready"), &[("handler.py", CODE)])
        .await;
    // While it is being built.
    let installs = [("handler.py", CODE), ("requirements.txt", "six==1.16.0\n")];
    machine.upload(&python("building"), zip(&installs)).await;
    for name in ["empty", "failed", "off", "ready", "building"] {
        client.delete_function(namespace, name).await.unwrap();
        assert_eq!(
            word(client.function(namespace, name).await).0,
            404,
            "{name}"
        );
    }
    // The same name again is another function, which nothing of the old one reaches.
    let answer = client
        .upload(namespace, "building", Content::bytes(zip(&installs)))
        .await;
    assert_eq!(word(answer).0, 404);
    machine
        .deploy(python("building"), &[("handler.py", CODE)])
        .await;
    client.delete_function(namespace, "building").await.unwrap();

    for folder in ["artifacts", "work", "home"] {
        let left: Vec<_> = std::fs::read_dir(data.path().join(folder))
            .unwrap()
            .collect();
        assert!(left.is_empty(), "{folder}: {left:?}");
    }
    machine.stop().await;
}
