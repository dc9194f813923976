//! Plans.

use super::{Answer, Server, guard, received, sent};
use crate::{Diagnostics, Plan, Private, Value, proto};

impl Server {
    pub(crate) async fn plan(&self, request: proto::PlanRequest) -> Answer<proto::PlanResponse> {
        let known = self.resource(&request.type_name)?;
        let mut found = Diagnostics::default();
        let prior = received(request.prior_state, &known.kind, &mut found);
        let proposed = received(request.proposed_new_state, &known.kind, &mut found);
        let config = received(request.config, &known.kind, &mut found);
        if found.has_error() || proposed.is_null() {
            return Ok(proto::PlanResponse {
                planned_state: sent(&Value::Null, &known.kind),
                planned_private: request.prior_private,
                diagnostics: found.into_wire(),
                ..proto::PlanResponse::default()
            });
        }
        let plan = Plan {
            planned: known.schema.fill(&prior, proposed, &config),
            prior,
            config,
            decided: Vec::new(),
            replace: Vec::new(),
            private: Private::from_bytes(&request.prior_private),
            diagnostics: Diagnostics::default(),
        };
        let (does, mut within) = (known.does.clone(), plan.clone());
        let work = tokio::spawn(async move {
            does.plan(&mut within).await;
            within
        });
        let mut plan = match work.await {
            Ok(plan) => plan,
            Err(error) => {
                let panic = error.try_into_panic();
                let reason = panic
                    .as_ref()
                    .map_or("it was ended", |panic| guard::text(&**panic));
                found.error("Planning failed inside the provider", reason);
                plan
            }
        };
        found.extend(std::mem::take(&mut plan.diagnostics));
        let planned = known.schema.settle_plan(plan);
        Ok(proto::PlanResponse {
            planned_state: sent(&planned.state, &known.kind),
            requires_replace: planned.replace.iter().map(crate::Path::to_wire).collect(),
            planned_private: request.prior_private,
            diagnostics: found.into_wire(),
        })
    }
}
