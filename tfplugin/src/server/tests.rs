//! Requests, answered by a provider that misbehaves on demand.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::Server;
use crate::{
    Action, Attribute, DataSource, Diagnostics, Operation, Plan, Provider, Resource, Schema, Type,
    Value, proto,
    value::{from_msgpack, to_msgpack},
};

#[derive(Debug)]
struct Things;

#[async_trait]
impl Provider for Things {
    fn schema(&self) -> Schema {
        Schema::new("", vec![Attribute::string("mode", "").optional()])
    }

    fn resources(&self) -> Vec<(String, Arc<dyn Resource>)> {
        vec![("thing".to_owned(), Arc::new(Thing))]
    }

    fn data_sources(&self) -> Vec<(String, Arc<dyn DataSource>)> {
        vec![]
    }

    async fn configure(&self, config: &Value, found: &mut Diagnostics) {
        assert!(config.at("mode").as_str() != Some("panic"), "no such mode");
        if config.at("mode").is_null() {
            found.error_at("mode", "Missing", "Give one.");
        }
    }
}

#[derive(Debug)]
struct Thing;

fn schema() -> Schema {
    Schema::new(
        "",
        vec![
            Attribute::string("id", "").computed().keeps_state(),
            Attribute::string("does", "").optional(),
            Attribute::string("key", "").write_only(),
        ],
    )
    .with_version(2)
}

impl Thing {
    async fn act(operation: &Operation, mut state: Value) {
        let does = state.at("does").as_str().unwrap_or_default().to_owned();
        if does == "nothing" {
            return;
        }
        state.put("id", "1");
        operation.save(&state);
        match does.as_str() {
            "panic" => panic!("boom"),
            "hang" => std::future::pending::<()>().await,
            "wait" => {
                let why = operation.interrupted().await;
                operation.error("Ended", format!("{why:?}"));
            }
            "unknown" => {
                state.put("id", Value::UNKNOWN);
                operation.save(&state);
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Resource for Thing {
    fn schema(&self) -> Schema {
        schema()
    }

    fn validate(&self, _: &Value, _: &mut Diagnostics) {}

    async fn plan(&self, plan: &mut Plan) {
        assert!(
            plan.planned().at("does").as_str() != Some("panic-plan"),
            "no plan"
        );
    }

    async fn create(&self, operation: &Operation, planned: Value, _: Value) {
        Self::act(operation, planned).await;
    }

    async fn read(&self, operation: &Operation, mut state: Value) {
        state.put("key", "never stored");
        operation.save(&state);
    }

    async fn update(&self, operation: &Operation, _: Value, planned: Value, _: Value) {
        Self::act(operation, planned).await;
    }

    async fn delete(&self, operation: &Operation, prior: Value) {
        if prior.at("does").as_str() != Some("nothing") {
            operation.save(&Value::Null);
        }
    }

    async fn import(&self, operation: &Operation, id: &str) {
        operation.save(&Value::from_iter([("id", id)]));
    }

    fn timeout(&self, _: Action, _: &Value) -> Duration {
        Duration::from_secs(60)
    }

    fn upgrade(
        &self,
        from: i64,
        mut state: Value,
        raw: &serde_json::Value,
    ) -> Result<Value, String> {
        if from == 0 {
            return Err("version 0 was never published".to_owned());
        }
        state.put("does", raw["did"].as_str());
        Ok(state)
    }
}

fn kind() -> Type {
    schema().value_type()
}

fn server() -> Server {
    Server::new(Arc::new(Things), CancellationToken::new())
}

fn wire(value: &Value) -> Option<proto::DynamicValue> {
    Some(proto::DynamicValue {
        msgpack: to_msgpack(value, &kind()),
        json: Vec::new(),
    })
}

fn unwire(value: Option<proto::DynamicValue>) -> Value {
    from_msgpack(&value.unwrap_or_default().msgpack, &kind()).expect("a thing")
}

fn doing(does: &str) -> Value {
    Value::from_iter([("id", Value::UNKNOWN), ("does", does.into())])
}

async fn apply(server: &Server, prior: &Value, planned: &Value) -> (Value, Vec<String>) {
    let answer = server.apply(proto::ApplyRequest {
        type_name: "thing".to_owned(),
        prior_state: wire(prior),
        planned_state: wire(planned),
        config: wire(planned),
        ..proto::ApplyRequest::default()
    });
    let answer = answer.await.expect("answered");
    let errors = answer
        .diagnostics
        .into_iter()
        .map(|told| format!("{}: {}", told.summary, told.detail));
    (unwire(answer.new_state), errors.collect())
}

#[tokio::test]
async fn what_is_saved_is_the_state_and_nothing_saved_is_an_error() {
    let server = server();
    let (made, errors) = apply(&server, &Value::Null, &doing("well")).await;
    assert_eq!((made.at("id").as_str(), errors), (Some("1"), vec![]));
    let (state, errors) = apply(&server, &Value::Null, &doing("nothing")).await;
    assert!(
        state.is_null() && errors[0].contains("a create without an outcome"),
        "{errors:?}"
    );
    let (state, errors) = apply(&server, &doing("nothing").known_or_null(), &Value::Null).await;
    assert!(
        !state.is_null() && errors[0].contains("a delete without an outcome"),
        "{errors:?}"
    );
    let (state, errors) = apply(&server, &Value::Null, &doing("unknown")).await;
    assert!(
        state.at("id").is_null() && errors[0].contains("a create without"),
        "{errors:?}"
    );
    let (state, errors) = apply(&server, &made, &Value::Null).await;
    assert!(state.is_null() && errors.is_empty());
}

#[tokio::test]
async fn a_panic_is_one_error_and_loses_nothing() {
    let (state, errors) = apply(&server(), &Value::Null, &doing("panic")).await;
    assert_eq!(state.at("id").as_str(), Some("1"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("Creating failed inside the provider: boom"),
        "{errors:?}"
    );
    let server = server();
    let planned = server.plan(proto::PlanRequest {
        type_name: "thing".to_owned(),
        proposed_new_state: wire(&doing("panic-plan")),
        config: wire(&doing("panic-plan").known_or_null()),
        ..proto::PlanRequest::default()
    });
    let planned = planned.await.expect("answered");
    assert_eq!(planned.diagnostics[0].detail, "no plan");
}

#[tokio::test]
async fn a_stop_reaches_the_operation() {
    let server = server();
    let planned = doing("wait");
    let (ended, ()) = tokio::join!(apply(&server, &Value::Null, &planned), async {
        tokio::task::yield_now().await;
        server.stop();
    });
    assert_eq!(ended.0.at("id").as_str(), Some("1"));
    assert_eq!(ended.1, ["Ended: Stopped"]);
}

#[tokio::test(start_paused = true)]
async fn time_up_is_one_error_whether_the_operation_notices_or_not() {
    let (state, errors) = apply(&server(), &Value::Null, &doing("wait")).await;
    assert_eq!(
        (state.at("id").as_str(), errors),
        (Some("1"), vec!["Ended: TimedOut".to_owned()])
    );
    let (state, errors) = apply(&server(), &Value::Null, &doing("hang")).await;
    assert_eq!(state.at("id").as_str(), Some("1"));
    assert_eq!(
        errors,
        ["Creating took too long: It did not end within 1m."]
    );
}

#[tokio::test]
async fn what_is_never_stored_is_not_read_either() {
    let server = server();
    let read = server.read(proto::ReadRequest {
        type_name: "thing".to_owned(),
        current_state: wire(&Value::from_iter([("id", "1")])),
        private: b"{\"version\":1,\"values\":{\"a\":\"b\"}}".to_vec(),
    });
    let read = read.await.expect("answered");
    assert_eq!(read.private, b"{\"version\":1,\"values\":{\"a\":\"b\"}}");
    assert!(unwire(read.new_state).at("key").is_null());
}

#[test]
fn stored_states_are_read_upgraded_or_refused() {
    let server = server();
    let upgrade = |version, json: &str| {
        let answer = server.upgrade(proto::UpgradeRequest {
            type_name: "thing".to_owned(),
            version,
            raw_state: Some(proto::RawState {
                json: json.as_bytes().to_vec(),
                ..proto::RawState::default()
            }),
        });
        let answer = answer.expect("answered");
        let problem = answer.diagnostics.first().map(|told| told.detail.clone());
        problem.map_or_else(|| Ok(unwire(answer.upgraded_state)), Err)
    };
    assert_eq!(
        upgrade(2, r#"{"id": "1", "gone": 7}"#)
            .expect("state")
            .at("id")
            .as_str(),
        Some("1")
    );
    assert_eq!(
        upgrade(1, r#"{"did": "x"}"#)
            .expect("state")
            .at("does")
            .as_str(),
        Some("x")
    );
    assert_eq!(
        upgrade(0, "{}"),
        Err("version 0 was never published".to_owned())
    );
    assert!(
        upgrade(3, "{}")
            .expect_err("newer")
            .contains("Use a newer provider")
    );
    assert!(upgrade(2, r#"{"id": ["secret"]}"#).is_err_and(|problem| !problem.contains("secret")));
}

#[tokio::test]
async fn setting_up_tells_its_errors_at_their_attribute() {
    let configure = async |mode: Value| {
        let config = Value::from_iter([("mode", mode)]);
        let kind = Type::object([("mode", Type::String)]);
        let server = server();
        let answer = server.configure(proto::ConfigureRequest {
            config: Some(proto::DynamicValue {
                msgpack: to_msgpack(&config, &kind),
                json: Vec::new(),
            }),
            ..proto::ConfigureRequest::default()
        });
        answer.await.diagnostics
    };
    assert!(configure("fast".into()).await.is_empty());
    let missing = configure(Value::Null).await;
    assert!(missing[0].attribute.is_some(), "{missing:?}");
    assert_eq!(configure("panic".into()).await[0].detail, "no such mode");
}

#[tokio::test]
async fn unknown_types_and_broken_values_are_errors_not_ends() {
    let server = server();
    assert!(server.plan(proto::PlanRequest::default()).await.is_err());
    let answer = server.apply(proto::ApplyRequest {
        type_name: "thing".to_owned(),
        planned_state: Some(proto::DynamicValue {
            msgpack: b"\x81\xa2id\xc3".to_vec(),
            json: Vec::new(),
        }),
        ..proto::ApplyRequest::default()
    });
    let answer = answer.await.expect("answered");
    assert!(
        answer.diagnostics[0].detail.contains("at id"),
        "{:?}",
        answer.diagnostics
    );
}

#[test]
fn an_old_terraform_is_told_about_write_only_attributes() {
    let config = Value::from_iter([("key", "k")]);
    let found = |allowed| {
        let answer = server().validate_resource(proto::ValidateConfigRequest {
            type_name: "thing".to_owned(),
            config: wire(&config),
            client_capabilities: Some(proto::ClientCapabilities {
                write_only_attributes_allowed: allowed,
                ..proto::ClientCapabilities::default()
            }),
        });
        answer.expect("answered").diagnostics.len()
    };
    assert_eq!((found(true), found(false)), (0, 1));
}
