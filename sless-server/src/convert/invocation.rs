//! Records of calls.

use sless_api::InvocationOrigin;
use sless_core::{Invocation, Origin};

/// A record as it is answered.
pub(crate) fn invocation_view(record: Invocation) -> sless_api::Invocation {
    sless_api::Invocation {
        id: record.id.as_str().to_owned(),
        request_id: record.request_id,
        function: record.function.to_string(),
        origin: match record.origin {
            Origin::Http => InvocationOrigin::Http,
            Origin::Cron => InvocationOrigin::Cron,
            Origin::Event => InvocationOrigin::Event,
            Origin::Job => InvocationOrigin::Job,
            Origin::Direct => InvocationOrigin::Direct,
        },
        cause: record.cause.map(|name| name.to_string()),
        attempt: record.attempt,
        started_at: record.started_at,
        duration_ms: u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX),
        status: record.status,
        error: record.error,
        response_bytes: record.response_bytes,
    }
}
