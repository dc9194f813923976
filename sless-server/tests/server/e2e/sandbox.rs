//! What the server says of what keeps functions apart.

use serde_json::Value;

use super::machine::Machine;

async fn told(machine: &Machine) -> Value {
    let ready = reqwest::get(format!("http://{}/readyz", machine.address)).await;
    let ready = ready.unwrap().bytes().await.unwrap();
    let ready: Value = serde_json::from_slice(&ready).unwrap();
    assert_eq!(ready["parts"]["local"], "ok", "{ready}");
    ready["sandbox"].clone()
}

#[tokio::test]
async fn what_is_enforced_and_what_is_lacking_is_told_at_the_start_and_by_readyz() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start(data.path()).await;
    let sandbox = told(&machine).await;
    assert_eq!(sandbox["mode"], "auto");
    let count = |field: &str| match &sandbox[field] {
        Value::Array(names) => names.len(),
        Value::Object(names) => names.len(),
        other => panic!("{field} is {other}"),
    };
    assert_eq!(count("partly"), 1, "{sandbox}");
    assert_eq!(
        count("enforced") + count("partly") + count("lacking"),
        12,
        "{sandbox}"
    );
    let log = machine.process.err.text();
    assert!(log.contains("functions are confined"), "{log}");
    for name in sandbox["lacking"].as_object().unwrap().keys() {
        assert!(log.contains(name.as_str()), "{name}: {log}");
    }
    machine.stop().await;
}

#[tokio::test]
async fn a_sandbox_that_is_off_is_told() {
    let data = tempfile::tempdir().unwrap();
    let machine = Machine::start_with(data.path(), &[("SLESS_LOCAL_SANDBOX", "off")]).await;
    assert_eq!(told(&machine).await, serde_json::json!({ "mode": "off" }));
    let log = machine.process.err.text();
    assert!(log.contains("SLESS_LOCAL_SANDBOX is off"), "{log}");
    machine.stop().await;
}
