//! Making, changing and removing objects.

use super::{Answer, Server, guard, received, sent};
use crate::{Action, Diagnostics, Operation, Private, Value, proto};

impl Server {
    pub(crate) async fn apply(&self, request: proto::ApplyRequest) -> Answer<proto::ApplyResponse> {
        let known = self.resource(&request.type_name)?;
        let mut found = Diagnostics::default();
        let prior = received(request.prior_state, &known.kind, &mut found);
        let planned = received(request.planned_state, &known.kind, &mut found);
        let config = received(request.config, &known.kind, &mut found);
        if found.has_error() {
            return Ok(proto::ApplyResponse {
                new_state: sent(&prior, &known.kind),
                private: request.planned_private,
                diagnostics: found.into_wire(),
            });
        }
        let (action, what, given) = match (prior.is_null(), planned.is_null()) {
            (true, _) => (Action::Create, "Creating", &planned),
            (false, true) => (Action::Delete, "Deleting", &prior),
            (false, false) => (Action::Update, "Updating", &planned),
        };
        let timeout = known.does.timeout(action, given);
        let private = Private::from_bytes(&request.planned_private);
        let operation = Operation::new(self.stop.clone(), timeout, prior.clone(), private);
        let (does, within, wanted) = (known.does.clone(), operation.clone(), planned.clone());
        let work = async move {
            match action {
                Action::Create => does.create(&within, planned, config).await,
                Action::Delete => does.delete(&within, prior).await,
                _ => does.update(&within, prior, planned, config).await,
            }
        };
        let told = guard::run(&operation, what, work).await;
        let mut diagnostics = told.diagnostics;
        if !diagnostics.has_error() {
            outcome(action, told.saved, &told.state, &mut diagnostics);
        }
        let state = match told.state {
            Value::Null => Value::Null,
            state => {
                let mut state = known.schema.complete(state.known_or_null());
                known.schema.settle(&wanted, &mut state);
                state
            }
        };
        Ok(proto::ApplyResponse {
            new_state: sent(&state, &known.kind),
            private: told.private.to_bytes(),
            diagnostics: diagnostics.into_wire(),
        })
    }
}

/// An operation that says nothing of what became of the object is no success.
fn outcome(action: Action, saved: bool, state: &Value, diagnostics: &mut Diagnostics) {
    let is_delete = action == Action::Delete;
    let problem = if !saved {
        "it did not say what became of the object"
    } else if is_delete != state.is_null() {
        "it says the contrary of what was asked for"
    } else if !state.is_wholly_known() {
        "it left a value unknown"
    } else {
        return;
    };
    diagnostics.error(
        format!("The provider ended a {} without an outcome", action.name()),
        format!("{problem}. This is a bug in the provider; the object may still exist."),
    );
}
