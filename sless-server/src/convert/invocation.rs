//! Records of calls.

use sless_api::InvocationOrigin;
use sless_core::{Invocation, Origin};

/// The origin that a query means.
pub(crate) fn origin(origin: InvocationOrigin) -> Option<Origin> {
    Some(match origin {
        InvocationOrigin::Http => Origin::Http,
        InvocationOrigin::Cron => Origin::Cron,
        InvocationOrigin::Event => Origin::Event,
        InvocationOrigin::Job => Origin::Job,
        InvocationOrigin::Direct => Origin::Direct,
        _ => return None,
    })
}

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
        caller: record.caller,
        attempt: record.attempt,
        started_at: record.started_at,
        duration_ms: u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX),
        status: record.status,
        error: record.error,
        request_bytes: record.request_bytes,
        response_bytes: record.response_bytes,
        log_tail: record.log_tail,
    }
}
