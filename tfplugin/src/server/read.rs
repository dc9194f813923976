//! Setting up, and looking at what is there.

use super::{Answer, Server, guard, received, sent};
use crate::{
    Action, Diagnostics, Operation, Private, Value,
    operation::Told,
    proto,
    provider::DEFAULT_TIMEOUT,
    value::{Extra, from_json},
};

impl Server {
    pub(crate) async fn configure(
        &self,
        request: proto::ConfigureRequest,
    ) -> proto::DiagnosticsResponse {
        tracing::debug!(terraform = request.terraform_version, "configuring");
        let mut found = Diagnostics::default();
        let config = received(request.config, &self.schema.value_type(), &mut found);
        if !found.has_error() {
            let provider = self.provider.clone();
            let work = tokio::spawn(async move {
                let mut found = Diagnostics::default();
                provider.configure(&config, &mut found).await;
                found
            });
            match work.await {
                Ok(told) => found.extend(told),
                Err(error) => {
                    let panic = error.try_into_panic();
                    let reason = panic
                        .as_ref()
                        .map_or("it was ended", |panic| guard::text(&**panic));
                    found.error("Setting up failed inside the provider", reason);
                }
            }
        }
        proto::DiagnosticsResponse {
            diagnostics: found.into_wire(),
        }
    }

    pub(crate) async fn read(&self, request: proto::ReadRequest) -> Answer<proto::ReadResponse> {
        let known = self.resource(&request.type_name)?;
        let mut found = Diagnostics::default();
        let state = received(request.current_state, &known.kind, &mut found);
        let timeout = known.does.timeout(Action::Read, &state);
        let private = Private::from_bytes(&request.private);
        let operation = Operation::new(self.stop.clone(), timeout, state.clone(), private);
        if found.has_error() {
            return Ok(proto::ReadResponse {
                new_state: sent(&state, &known.kind),
                diagnostics: found.into_wire(),
                private: request.private,
            });
        }
        let (does, within, before) = (known.does.clone(), operation.clone(), state.clone());
        let work = async move { does.read(&within, before).await };
        let told = guard::run(&operation, "Reading", work).await;
        let mut read = known.schema.complete(told.state.known_or_null());
        known.schema.settle(&state, &mut read);
        Ok(proto::ReadResponse {
            new_state: sent(&read, &known.kind),
            diagnostics: told.diagnostics.into_wire(),
            private: told.private.to_bytes(),
        })
    }

    pub(crate) async fn read_data(
        &self,
        request: proto::ReadDataRequest,
    ) -> Answer<proto::ReadDataResponse> {
        let known = self.data_source(&request.type_name)?;
        let mut found = Diagnostics::default();
        let config = received(request.config, &known.kind, &mut found);
        if found.has_error() {
            return Ok(proto::ReadDataResponse {
                state: None,
                diagnostics: found.into_wire(),
            });
        }
        let stop = self.stop.clone();
        let operation = Operation::new(stop, DEFAULT_TIMEOUT, Value::Null, Private::default());
        let (does, within) = (known.does.clone(), operation.clone());
        let work = async move { does.read(&within, config).await };
        let told = guard::run(&operation, "Reading", work).await;
        let state = known.schema.complete(told.state.known_or_null());
        Ok(proto::ReadDataResponse {
            state: sent(&state, &known.kind),
            diagnostics: told.diagnostics.into_wire(),
        })
    }

    pub(crate) async fn import(
        &self,
        request: proto::ImportRequest,
    ) -> Answer<proto::ImportResponse> {
        let known = self.resource(&request.type_name)?;
        let timeout = known.does.timeout(Action::Import, &Value::Null);
        let stop = self.stop.clone();
        let operation = Operation::new(stop, timeout, Value::Null, Private::default());
        let (does, within, id) = (known.does.clone(), operation.clone(), request.id);
        let work = async move { does.import(&within, &id).await };
        let Told {
            state,
            private,
            diagnostics,
            ..
        } = guard::run(&operation, "Importing", work).await;
        let imported = (!diagnostics.has_error()).then(|| proto::ImportedResource {
            type_name: request.type_name,
            state: sent(&known.schema.complete(state.known_or_null()), &known.kind),
            private: private.to_bytes(),
        });
        Ok(proto::ImportResponse {
            imported_resources: imported.into_iter().collect(),
            diagnostics: diagnostics.into_wire(),
        })
    }

    pub(crate) fn upgrade(&self, request: proto::UpgradeRequest) -> Answer<proto::UpgradeResponse> {
        let known = self.resource(&request.type_name)?;
        let mut found = Diagnostics::default();
        let raw = request.raw_state.unwrap_or_default();
        let summary = "The stored state cannot be used";
        let mut state = Value::Null;
        if !raw.flatmap.is_empty() {
            found.error(summary, "It is from Terraform 0.11 or earlier.");
        } else if request.version > known.schema.version {
            found.error(
                summary,
                format!(
                    "It has version {} of `{}`, and this provider knows up to {}. Use a newer provider.",
                    request.version, request.type_name, known.schema.version
                ),
            );
        } else {
            let read = from_json(&raw.json, &known.kind, Extra::Ignore);
            let upgraded = read.map_err(|error| error.to_string()).and_then(|state| {
                if request.version == known.schema.version {
                    return Ok(state);
                }
                let raw = serde_json::from_slice(&raw.json).unwrap_or_default();
                known.does.upgrade(request.version, state, &raw)
            });
            match upgraded {
                Ok(upgraded) => state = upgraded,
                Err(problem) => found.error(summary, problem),
            }
        }
        Ok(proto::UpgradeResponse {
            upgraded_state: sent(&known.schema.complete(state), &known.kind),
            diagnostics: found.into_wire(),
        })
    }
}
