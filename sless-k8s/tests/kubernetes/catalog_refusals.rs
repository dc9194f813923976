//! What a create must refuse: the API server refuses it by the rules of the custom resources, as the core
//! does.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    strategy::ValueTree as _,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};
use sless_core::{Catalog as _, FunctionSpec, JobSpec, Kind, Name, Namespace, Object};
use sless_k8s::KubeCatalog;

use super::plane::Plane;

/// Whether the core takes this spec.
fn core_takes(kind: Kind, spec: &Value) -> bool {
    let object =
        json!({"kind": kind, "metadata": {"name": "x", "namespace": "schema"}, "spec": spec});
    serde_json::from_value::<Object>(object).is_ok_and(|object| object.validate().is_ok())
}

/// Whether Kubernetes takes this spec; it stores nothing.
struct Kubernetes(kube::Client);

impl Kubernetes {
    async fn connect() -> Self {
        let plane = Plane::shared();
        let catalog = KubeCatalog::new(plane.cluster().await);
        let namespace = Namespace::new("schema").expect("a label");
        catalog.ensure_namespace(&namespace).await.expect("made");
        let file = kube::config::Kubeconfig::read_from(&plane.kubeconfig).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await;
        Self(kube::Client::try_from(config.expect("usable")).expect("a client"))
    }

    async fn takes(&self, kind: Kind, name: &str, spec: &Value) -> Result<(), String> {
        let plural = match kind {
            Kind::Function => "functions",
            Kind::Trigger => "triggers",
            Kind::FunctionJob => "functionjobs",
        };
        let path = format!("/apis/sless.io/v1alpha1/namespaces/schema/{plural}");
        let body = json!({
            "apiVersion": "sless.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
        });
        let parameters = kube::api::PostParams {
            dry_run: true,
            ..Default::default()
        };
        let request =
            kube::core::Request::new(path).create(&parameters, body.to_string().into_bytes());
        match self.0.request::<Value>(request.expect("a request")).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 422 || status.code == 400 => {
                Err(status.message)
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// What both refuse or take: the kind, the spec, and whether it is taken.
fn table() -> Vec<(Kind, Value, bool)> {
    let function = |more: Value| {
        let mut spec = json!({"runtime": "python3.11"});
        spec.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        spec
    };
    let trigger = |kind: &str, more: Value| {
        let mut spec = json!({"type": kind, "functionRef": "f"});
        spec.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        spec
    };
    let mut all = vec![
        (Kind::Function, json!({}), false),
        (Kind::Function, json!({"runtime": "cobol"}), false),
        (Kind::FunctionJob, json!({}), false),
        (Kind::FunctionJob, json!({"functionRef": "A"}), false),
        (
            Kind::FunctionJob,
            json!({"functionRef": "a".repeat(63)}),
            true,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "a".repeat(64)}),
            false,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "f", "runId": -1}),
            false,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "f", "runId": 1}),
            true,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "f", "eventJSON": null}),
            true,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "f", "eventJSON": format!("\"{}\"", "x".repeat(JobSpec::EVENT_BYTES_MAX - 2))}),
            true,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "f", "eventJSON": format!("\"{}\"", "x".repeat(JobSpec::EVENT_BYTES_MAX - 1))}),
            false,
        ),
        (
            Kind::FunctionJob,
            json!({"functionRef": "f", "eventJSON": format!("\"{}\"", "é".repeat(JobSpec::EVENT_BYTES_MAX / 2))}),
            false,
        ),
        (Kind::Trigger, json!({"functionRef": "f"}), false),
        (Kind::Trigger, trigger("push", json!({})), false),
        (Kind::Trigger, json!({"type": "http"}), false),
    ];
    for (more, taken) in [
        (json!({}), true),
        (json!({"replicas": null, "memory": null}), true),
        (json!({"replicas": 0}), true),
        (json!({"replicas": 1000}), true),
        (json!({"replicas": 1001}), false),
        (json!({"replicas": -1}), false),
        (json!({"replicas": "1"}), false),
        (json!({"replicas": 2, "maxReplicas": null}), true),
        (json!({"replicas": 2, "maxReplicas": 1}), true),
        (json!({"maxReplicas": 1000}), true),
        (json!({"maxReplicas": 0}), false),
        (json!({"maxReplicas": 1001}), false),
        (json!({"timeoutSeconds": 0}), false),
        (json!({"timeoutSeconds": 3601}), false),
        (json!({"concurrency": 0}), false),
        (json!({"concurrency": 1001}), false),
        (json!({"idleSeconds": 0}), true),
        (json!({"idleSeconds": 4_294_967_295_u64}), true),
        (json!({"idleSeconds": 4_294_967_296_u64}), false),
        (json!({"entrypoint": "a-b.c.d"}), true),
        (json!({"entrypoint": "handler"}), false),
        (json!({"entrypoint": "a.b-c"}), false),
        (json!({"entrypoint": "1a.b"}), false),
        (
            json!({"entrypoint": format!("{}.b", "a".repeat(254))}),
            false,
        ),
        (
            json!({"codeSha256": format!("sha256:{}", "aB".repeat(32))}),
            true,
        ),
        (json!({"codeSha256": "a".repeat(64)}), false),
        (json!({"memory": "256Mi"}), true),
        (json!({"memory": "1.5"}), true),
        (json!({"memory": "0"}), false),
        (json!({"memory": "0.000"}), false),
        (json!({"memory": "1e3"}), false),
        (json!({"memory": "-1"}), false),
        (json!({"memory": "18446744073709551615m"}), true),
        (json!({"memory": "18446744073709551616m"}), false),
        (json!({"memory": "99999999999999Ti"}), false),
        (json!({"cpu": "1mi"}), false),
        (json!({"env": {"A_1": "", "_": "x"}}), true),
        (json!({"env": {"1A": ""}}), false),
        (json!({"env": {"A-B": ""}}), false),
        (json!({"env": {"": ""}}), false),
        (json!({"env": {"SLESS_X": ""}}), false),
        (json!({"env": {"A": "a\u{0}b"}}), false),
        (
            json!({"env": {"A": "x".repeat(FunctionSpec::ENV_BYTES_MAX + 1)}}),
            false,
        ),
    ] {
        all.push((Kind::Function, function(more), taken));
    }
    for (count, taken) in [
        (FunctionSpec::ENV_NAMES_MAX, true),
        (FunctionSpec::ENV_NAMES_MAX + 1, false),
    ] {
        let env: BTreeMap<_, _> = (0..count).map(|at| (format!("V{at}"), "x")).collect();
        all.push((Kind::Function, function(json!({"env": env})), taken));
    }
    for (kind, more, taken) in [
        ("http", json!({}), true),
        ("http", json!({"enabled": "yes"}), false),
        ("http", json!({"schedule": "* * * * *"}), false),
        ("http", json!({"queue": "q"}), false),
        ("cron", json!({}), false),
        ("cron", json!({"schedule": "* * * * *"}), true),
        (
            "cron",
            json!({"schedule": "* * * * *", "delivery": {}}),
            false,
        ),
        (
            "cron",
            json!({"schedule": "* * * * *", "policies": {"overlap": "allow"}}),
            true,
        ),
        (
            "cron",
            json!({"schedule": "* * * * *", "policies": {"overlap": "often"}}),
            false,
        ),
        ("event", json!({}), false),
        ("event", json!({"queue": ""}), false),
        ("event", json!({"queue": "q"}), true),
        ("event", json!({"queue": "a\nb"}), false),
        ("event", json!({"queue": "a\u{85}b"}), false),
        ("event", json!({"queue": "é".repeat(127)}), true),
        ("event", json!({"queue": "é".repeat(128)}), false),
        ("event", json!({"queue": "q", "timeZone": "UTC"}), false),
        (
            "event",
            json!({"queue": "q", "queueDeclare": "classic"}),
            true,
        ),
        ("event", json!({"queue": "q", "queueDeclare": null}), true),
        (
            "event",
            json!({"queue": "q", "queueDeclare": "once"}),
            false,
        ),
        (
            "event",
            json!({"queue": "q", "delivery": {"maxAttempts": 101}}),
            false,
        ),
        (
            "event",
            json!({"queue": "q", "delivery": {"minBackoffMs": 20, "maxBackoffMs": 10}}),
            false,
        ),
        (
            "event",
            json!({"queue": "q", "delivery": {"maxBackoffMs": 10}}),
            false,
        ),
        (
            "event",
            json!({"queue": "q", "delivery": {"inFlight": 1000, "prefetch": 10000}}),
            true,
        ),
    ] {
        all.push((Kind::Trigger, trigger(kind, more), taken));
    }
    for (schedule, taken) in [
        ("0 9 * * 1-5", true),
        ("0 0 * * 7", true),
        ("0 0 * * 8", false),
        ("@weekly", true),
        (" @Daily ", true),
        ("@reboot", false),
        ("*/7 * * * *", true),
        ("*/0 * * * *", false),
        ("*/60 * * * *", false),
        ("60 * * * *", false),
        ("* 24 * * *", false),
        ("* * 0 * *", false),
        ("* * 32 * *", false),
        ("* * * 13 *", false),
        ("* * * JAN-mar Sun,fri-sun", true),
        ("007 * * * *", true),
        ("1,,2 * * * *", false),
        ("* * * * * *", false),
        ("* * * *", false),
        ("", false),
        ("0\t0 1 1 *", true),
        ("0 0 L * *", false),
    ] {
        all.push((
            Kind::Trigger,
            trigger("cron", json!({"schedule": schedule})),
            taken,
        ));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn kubernetes_refuses_what_the_core_refuses() {
    let kubernetes = Kubernetes::connect().await;
    let mut wrong = Vec::new();
    for (kind, spec, taken) in table() {
        let core = core_takes(kind, &spec);
        let answer = kubernetes.takes(kind, "x", &spec).await;
        if core != taken || answer.is_ok() != taken {
            let mut shown = spec.to_string();
            shown.truncate(200);
            wrong.push(format!(
                "{kind} {shown}: core {core}, Kubernetes {answer:?}, expected {taken}"
            ));
        }
    }
    for (name, taken) in [
        ("a".repeat(63), true),
        ("0".to_owned(), true),
        ("a".repeat(64), false),
        ("a.b".to_owned(), false),
        ("A".to_owned(), false),
        ("a-".to_owned(), false),
    ] {
        let answer = kubernetes
            .takes(Kind::Function, &name, &json!({"runtime": "nodejs20"}))
            .await;
        if Name::new(&name).is_ok() != taken || answer.is_ok() != taken {
            wrong.push(format!("name {name}: {answer:?}, expected {taken}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Values near the limits of every field.
fn any_spec() -> impl Strategy<Value = (Kind, Value)> {
    let number =
        |max: i64| prop_oneof![Just(-1), Just(0), Just(1), Just(max), Just(max + 1), 0..max];
    let quantity = "[0-9]{1,3}(\\.[0-9]{1,2})?(m|k|M|G|Ki|Mi|Gi|e3|x)?";
    let names = prop::collection::btree_map("[A-Za-z0-9_.-]{0,6}|SLESS_[A-Z]?", ".{0,6}", 0..4);
    let function = (
        number(1000),
        number(3600),
        number(1000),
        quantity,
        "[a-z0-9_.-]{1,8}\\.[a-z0-9_-]{1,4}",
        names,
    )
        .prop_map(|(replicas, timeout, concurrency, memory, entrypoint, env)| {
            let spec = json!({
                "runtime": "nodejs20", "replicas": replicas, "timeoutSeconds": timeout,
                "concurrency": concurrency, "memory": memory, "entrypoint": entrypoint, "env": env,
            });
            (Kind::Function, spec)
        });
    let kind = prop_oneof![Just("http"), Just("cron"), Just("event")];
    let delivery = (number(100), number(2000), number(2000), number(1000), number(10_000)).prop_map(
        |(attempts, min, max, in_flight, prefetch)| {
            json!({
                "maxAttempts": attempts, "minBackoffMs": min, "maxBackoffMs": max, "inFlight": in_flight,
                "prefetch": prefetch,
            })
        },
    );
    let trigger = (
        kind,
        "[a-z0-9-]{1,5}",
        prop::option::of(".{0,8}"),
        prop::option::of(delivery),
        prop::option::of(Just("5 4 * * *")),
    )
        .prop_map(|(kind, function, queue, delivery, schedule)| {
            let spec = json!({
                "type": kind, "functionRef": function, "queue": queue, "delivery": delivery,
                "schedule": schedule,
            });
            (Kind::Trigger, spec)
        });
    // Ranges that end before they begin are left out: the status tells those.
    let field = |range: &str| format!("(\\*|{range}|{range},{range})(/[0-9]{{1,2}})?");
    let schedule = [
        field("[0-9]{1,2}"),
        field("[0-9]{1,2}"),
        "\\*".to_owned(),
        field("[0-9]{1,2}|[a-z]{3}|jan|dec"),
        field("[0-9]|sun|SAT|su"),
    ];
    let schedule =
        proptest::string::string_regex(&schedule.join("[ \t]{1,2}")).expect("an expression");
    let cron = schedule.prop_map(|schedule| {
        (
            Kind::Trigger,
            json!({"type": "cron", "functionRef": "f", "schedule": schedule}),
        )
    });
    let job = ("[a-z0-9A-Z.-]{1,4}", number(5)).prop_map(|(function, run)| {
        (
            Kind::FunctionJob,
            json!({"functionRef": function, "runId": run}),
        )
    });
    prop_oneof![4 => function, 4 => trigger, 4 => cron, 1 => job]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Kubernetes: testing/kubernetes/control-plane"]
async fn kubernetes_and_the_core_agree_on_any_spec() {
    const CASES: usize = 600;
    const ENOUGH: usize = CASES / 20;
    // Some one in fifteen is taken, and chance may give fewer.
    const MOST: usize = 2 * CASES;
    let kubernetes = Kubernetes::connect().await;
    let mut runner = TestRunner::new(Config::default());
    let (mut taken, mut refused) = (0, 0);
    for case in 0..MOST {
        if case >= CASES && taken > ENOUGH && refused > ENOUGH {
            break;
        }
        let (kind, spec) = any_spec().new_tree(&mut runner).expect("a value").current();
        let core = core_takes(kind, &spec);
        let answer = kubernetes.takes(kind, "x", &spec).await;
        assert_eq!(core, answer.is_ok(), "{kind} {spec}: {answer:?}");
        if core { taken += 1 } else { refused += 1 }
    }
    assert!(
        taken > ENOUGH && refused > ENOUGH,
        "{taken} taken, {refused} refused"
    );
}
