//! Functions, triggers and jobs over REST.

use serde_json::{Value, json};
use sless_api::{
    CreateFunction, CreateJob, CreateTrigger, EnsuredStatus, Field, FunctionPhase, JobPhase,
    ListQuery, PatchFunction, PatchJob, PatchTrigger, TriggerType,
};

use crate::support::{Server, refused, until};

fn function(name: &str) -> CreateFunction {
    CreateFunction {
        name: name.into(),
        runtime: "python3.11".into(),
        ..CreateFunction::default()
    }
}

fn trigger(name: &str, kind: TriggerType) -> CreateTrigger {
    let body = json!({"name": name, "type": kind, "function_ref": "hello"});
    serde_json::from_value(body).unwrap()
}

#[tokio::test]
async fn a_namespace_is_made_once_also_under_parallel_calls() {
    let server = Server::start().await;
    let calls = (0..8).map(|_| server.ensure());
    let made = futures::future::join_all(calls).await;
    let created = made
        .iter()
        .filter(|ensured| ensured.status == EnsuredStatus::Created);
    assert_eq!(created.count(), 1);
    let answer = server.ask_json("POST", "/ensure", "").await;
    assert_eq!(answer.status, 200);
    let expected = json!({"namespace": server.namespace, "status": "exists"});
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn nothing_but_ensure_makes_a_namespace() {
    let server = Server::start().await;
    let created = server
        .client
        .create_function(&server.namespace, &function("hello"))
        .await;
    assert_eq!(refused(created).0, 404);
}

#[tokio::test]
async fn a_function_is_created_read_changed_listed_and_removed() {
    let server = Server::start_ensured().await;
    let (client, namespace) = (&server.client, &server.namespace);
    let wanted = CreateFunction {
        env: Some([("B", "2"), ("A", "1")].into_iter().collect()),
        memory: Some("256Mi".into()),
        cpu: Some("500m".into()),
        max_replicas: Some(4),
        idle_seconds: Some(90),
        ..function("hello")
    };
    let created = client.create_function(namespace, &wanted).await.unwrap();
    assert_eq!(created.entrypoint, "handler.handle");
    assert_eq!((created.timeout_seconds, created.replicas), (60, None));
    assert_eq!(created.memory.as_deref(), Some("256Mi"));
    assert_eq!(
        (created.max_replicas, created.idle_seconds),
        (Some(4), Some(90))
    );
    assert_eq!(created.phase, FunctionPhase::Pending);
    assert_eq!(
        created.url,
        format!("http://{}/fn/{namespace}/hello", server.address)
    );
    let again = refused(client.create_function(namespace, &wanted).await);
    assert_eq!((again.0, again.1.as_str()), (409, "already_exists"));
    let read = client.function(namespace, "hello").await.unwrap();
    assert_eq!(read.env, wanted.env.unwrap());

    let patch = PatchFunction {
        replicas: Field::Value(0),
        memory: Field::Null,
        timeout_seconds: Field::Value(5),
        max_replicas: Field::Value(7),
        idle_seconds: Field::Value(0),
        ..PatchFunction::default()
    };
    let changed = client
        .patch_function(namespace, "hello", &patch)
        .await
        .unwrap();
    assert_eq!(
        (changed.replicas, changed.memory, changed.timeout_seconds),
        (Some(0), None, 5)
    );
    assert_eq!(
        (changed.max_replicas, changed.idle_seconds),
        (Some(7), Some(0))
    );
    assert_eq!(
        (changed.cpu.as_deref(), changed.env.0.len()),
        (Some("500m"), 2)
    );
    let patch = PatchFunction {
        replicas: Field::Null,
        timeout_seconds: Field::Null,
        max_replicas: Field::Null,
        idle_seconds: Field::Null,
        env: Field::Null,
        ..PatchFunction::default()
    };
    let changed = client
        .patch_function(namespace, "hello", &patch)
        .await
        .unwrap();
    assert_eq!((changed.replicas, changed.timeout_seconds), (None, 60));
    assert_eq!((changed.max_replicas, changed.idle_seconds), (None, None));
    let read = client.function(namespace, "hello").await.unwrap();
    assert_eq!((read.max_replicas, read.idle_seconds), (None, None));
    let none = PatchFunction {
        max_replicas: Field::Value(0),
        ..PatchFunction::default()
    };
    let (status, _, told) = refused(client.patch_function(namespace, "hello", &none).await);
    assert_eq!(status, 400);
    assert!(told.contains("max_replicas is 0"), "{told}");
    assert!(changed.env.0.is_empty());

    let receipt = client.delete_function(namespace, "hello").await.unwrap();
    assert!(receipt.complete, "{receipt:?}");
    assert_eq!(refused(client.function(namespace, "hello").await).0, 404);
    assert_eq!(
        refused(client.delete_function(namespace, "hello").await).0,
        404
    );
}

#[tokio::test]
async fn what_is_deployed_is_removed_with_a_receipt() {
    let server = Server::with_hello().await;
    let receipt = server
        .client
        .delete_function(&server.namespace, "hello")
        .await
        .unwrap();
    assert!(receipt.complete);
    let kinds: Vec<_> = receipt
        .removed
        .iter()
        .map(|removed| removed.kind.as_str())
        .collect();
    assert!(
        kinds.iter().any(|kind| kind.contains("source")),
        "{receipt:?}"
    );
    assert_eq!(server.ask("GET", &server.hello(""), &[]).await.status, 404);
}

#[tokio::test]
async fn a_wrong_field_is_400_naming_it() {
    let server = Server::start_ensured().await;
    for (body, code, named) in [
        (
            json!({"name": "a", "runtime": "python3.11", "cpus": 1}),
            "unknown_field",
            "cpus",
        ),
        (json!({"name": "a"}), "missing_field", "runtime"),
        (
            json!({"name": "a", "runtime": "python2"}),
            "field_invalid",
            "runtime",
        ),
        (
            json!({"name": "a", "runtime": "nodejs20", "memory": "much"}),
            "field_invalid",
            "memory",
        ),
        (
            json!({"name": "a", "runtime": "nodejs20", "entrypoint": "x"}),
            "field_invalid",
            "entrypoint",
        ),
        (
            json!({"name": "a", "runtime": "nodejs20", "replicas": -1}),
            "invalid_field",
            "replicas",
        ),
        (
            json!({"name": "a", "runtime": "nodejs20", "replicas": 100_000}),
            "field_out_of_range",
            "replicas",
        ),
        (
            json!({"name": "a", "runtime": "nodejs20", "env": {"1": "x"}}),
            "env_invalid",
            "env",
        ),
        (
            json!({"name": "a", "runtime": "nodejs20", "timeout_seconds": 0}),
            "field_out_of_range",
            "timeout_seconds",
        ),
        (json!(["a", "python3.11"]), "invalid_json", "list"),
        (json!("a"), "invalid_field", "expected"),
    ] {
        let answer = server
            .ask_json("POST", "/functions", &body.to_string())
            .await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.error().code, code, "{body}: {answer:?}");
        assert!(answer.error().error.contains(named), "{body}: {answer:?}");
    }
    let answer = server.ask_json("POST", "/functions", "{").await;
    assert_eq!(
        (answer.status, answer.error().code.as_str()),
        (400, "invalid_json")
    );
    let page = server
        .client
        .functions(&server.namespace, &ListQuery::default())
        .await
        .unwrap();
    assert!(page.items.is_empty(), "nothing half done stays behind");
}

#[tokio::test]
async fn names_are_refused_alike_everywhere() {
    let server = Server::start_ensured().await;
    let longest = "a".repeat(63);
    for name in ["a", longest.as_str()] {
        server
            .client
            .create_function(&server.namespace, &function(name))
            .await
            .unwrap();
        server
            .client
            .delete_function(&server.namespace, name)
            .await
            .unwrap();
    }
    let too_long = "a".repeat(64);
    for name in ["A", "a.b", "a-", "-a", "a_b", "", too_long.as_str()] {
        for (path, body) in [
            ("/functions", json!({"name": name, "runtime": "nodejs20"})),
            (
                "/triggers",
                json!({"name": name, "type": "http", "function_ref": "f"}),
            ),
            ("/jobs", json!({"name": name, "function_ref": "f"})),
        ] {
            let answer = server.ask_json("POST", path, &body.to_string()).await;
            assert_eq!(answer.status, 400, "{path} {name}: {answer:?}");
            assert_eq!(answer.error().code, "name_invalid", "{path} {name}");
        }
        if !name.is_empty() {
            let answer = server
                .ask_json("GET", &format!("/functions/{name}"), "")
                .await;
            assert_eq!(answer.error().code, "name_invalid", "{name}");
        }
    }
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let server = Server::start_ensured().await;
    for number in 0..5 {
        let function = function(&format!("f{number}"));
        server
            .client
            .create_function(&server.namespace, &function)
            .await
            .unwrap();
    }
    let mut names = Vec::new();
    let mut query = ListQuery {
        limit: Some(2),
        cursor: None,
    };
    loop {
        let page = server
            .client
            .functions(&server.namespace, &query)
            .await
            .unwrap();
        assert!(page.items.len() <= 2);
        names.extend(page.items.into_iter().map(|function| function.name));
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, ["f0", "f1", "f2", "f3", "f4"]);
    for wrong in [
        "limit=0",
        "limit=501",
        "limit=x",
        "limits=1",
        "cursor=%00nonsense",
    ] {
        let answer = server
            .ask_json("GET", &format!("/functions?{wrong}"), "")
            .await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
}

#[tokio::test]
async fn an_http_trigger_turns_its_function_off_and_on() {
    let server = Server::with_hello().await;
    let (client, namespace) = (&server.client, &server.namespace);
    client
        .create_trigger(namespace, &trigger("web", TriggerType::Http))
        .await
        .unwrap();
    until("active", async || {
        client.trigger(namespace, "web").await.unwrap().active
    })
    .await;
    let url = client.trigger(namespace, "web").await.unwrap().url.unwrap();
    assert!(url.ends_with(&format!("/fn/{namespace}/hello")), "{url}");
    let off = PatchTrigger {
        enabled: Field::Value(false),
        ..PatchTrigger::default()
    };
    let changed = client.patch_trigger(namespace, "web", &off).await.unwrap();
    assert!(!changed.enabled);
    until("off", async || {
        server.ask("GET", &server.hello(""), &[]).await.status == 503
    })
    .await;
    let on = PatchTrigger {
        enabled: Field::Value(true),
        ..PatchTrigger::default()
    };
    client.patch_trigger(namespace, "web", &on).await.unwrap();
    until("on", async || {
        server.ask("GET", &server.hello(""), &[]).await.status == 200
    })
    .await;
    assert!(
        client
            .delete_trigger(namespace, "web")
            .await
            .unwrap()
            .complete
    );
}

#[tokio::test]
async fn a_cron_trigger_shows_its_next_fires_and_refuses_what_never_fires() {
    let server = Server::with_hello().await;
    let cron = |schedule: &str| CreateTrigger {
        schedule: Some(schedule.into()),
        time_zone: Some("Europe/Berlin".into()),
        ..trigger("nightly", TriggerType::Cron)
    };
    for schedule in [
        "0 0 31 2 *",
        "60 * * * *",
        "0 9 * * 1-5 2026",
        "",
        "@sometimes",
    ] {
        let (status, _, message) = refused(
            server
                .client
                .create_trigger(&server.namespace, &cron(schedule))
                .await,
        );
        assert_eq!(status, 400, "{schedule}");
        assert!(!message.is_empty());
    }
    let mut unknown = cron("0 3 * * *");
    unknown.time_zone = Some("Mars/Olympus".into());
    let code = refused(
        server
            .client
            .create_trigger(&server.namespace, &unknown)
            .await,
    )
    .1;
    assert_eq!(code, "time_zone_unknown");
    let created = server
        .client
        .create_trigger(&server.namespace, &cron("0 3 * * 7"))
        .await
        .unwrap();
    assert_eq!(created.next_fires.len(), 5);
    assert!(created.next_fires.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(created.delivery, None);
}

#[tokio::test]
async fn a_field_of_another_type_of_trigger_is_refused() {
    let server = Server::with_hello().await;
    for body in [
        json!({"name": "t", "type": "http", "function_ref": "hello", "queue": "q"}),
        json!({"name": "t", "type": "event", "function_ref": "hello", "queue": "q", "schedule": "* * * * *"}),
        json!({"name": "t", "type": "event", "function_ref": "hello"}),
        json!({"name": "t", "type": "cron", "function_ref": "hello"}),
        json!({"name": "t", "type": "mail", "function_ref": "hello"}),
    ] {
        let answer = server
            .ask_json("POST", "/triggers", &body.to_string())
            .await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn a_job_runs_once_for_each_run_id() {
    let server = Server::with_hello().await;
    let (client, namespace) = (&server.client, &server.namespace);
    let job = CreateJob {
        name: "once".into(),
        function_ref: "hello".into(),
        event_json: Some(r#"{"a": 1}"#.into()),
        run_id: None,
    };
    client.create_job(namespace, &job).await.unwrap();
    assert_eq!(
        client.job(namespace, "once").await.unwrap().phase,
        JobPhase::Skipped
    );
    let run = PatchJob {
        run_id: Some(1),
        ..PatchJob::default()
    };
    client.patch_job(namespace, "once", &run).await.unwrap();
    until("done", async || {
        client.job(namespace, "once").await.unwrap().phase == JobPhase::Succeeded
    })
    .await;
    let done = client.job(namespace, "once").await.unwrap();
    let result: Value = serde_json::from_str(&done.result.unwrap()).unwrap();
    let event: Value = serde_json::from_str(result["body"].as_str().unwrap()).unwrap();
    assert_eq!(event, json!({"a": 1}));
    assert!(done.started_at.is_some() && done.finished_at >= done.started_at);
    let wrong = CreateJob {
        name: "wrong".into(),
        event_json: Some("{".into()),
        ..job
    };
    assert_eq!(refused(client.create_job(namespace, &wrong).await).0, 400);
    assert!(client.delete_job(namespace, "once").await.unwrap().complete);
}

#[tokio::test]
async fn an_admin_opens_every_namespace() {
    let server = Server::start_ensured().await;
    let root = server.client_of("root");
    root.create_function(&server.namespace, &function("hello"))
        .await
        .unwrap();
    let other = server.client_of("mallory");
    let denied = refused(other.function(&server.namespace, "hello").await);
    assert_eq!((denied.0, denied.1.as_str()), (403, "namespace_denied"));
}
