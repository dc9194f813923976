//! What `/metrics` shows.
//!
//! Labels have few values: routes, methods, statuses and origins, never functions or namespaces, of
//! which there may be tens of thousands.

use std::{borrow::Cow, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use sless_core::{Invocation, Observer, Stats};

/// The content type of what [`Metrics::encode`] answers.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a server. Clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    calls: Family<CallLabels, Counter>,
    call_seconds: Family<OriginLabels, Histogram>,
    connections: Gauge,
    waiting: Gauge,
    reconciling: Gauge,
    in_flight: Gauge,
    records_dropped: Counter,
    records_waiting: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Cow<'static, str>,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    origin: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabels {
    origin: &'static str,
}

fn histogram() -> Histogram {
    // From a millisecond to a minute.
    Histogram::new(exponential_buckets(0.001, 2.5, 13))
}

impl Metrics {
    /// Metrics that are all at zero.
    pub fn new() -> Self {
        let requests = Family::default();
        let request_seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let calls = Family::default();
        let call_seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let connections = Gauge::default();
        let waiting = Gauge::default();
        let reconciling = Gauge::default();
        let in_flight = Gauge::default();
        let records_dropped = Counter::default();
        let records_waiting = Gauge::default();
        let mut registry = Registry::with_prefix("sless");
        registry.register("http_requests", "Requests, by route", requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "Time until the head of the answer, by route",
            Unit::Seconds,
            request_seconds.clone(),
        );
        registry.register(
            "calls",
            "Calls of functions, by origin and outcome",
            calls.clone(),
        );
        registry.register_with_unit(
            "call_duration",
            "Time of a call until its answer ended, by origin",
            Unit::Seconds,
            call_seconds.clone(),
        );
        registry.register("connections", "Open connections", connections.clone());
        registry.register(
            "reconciles_waiting",
            "Objects to reconcile",
            waiting.clone(),
        );
        registry.register(
            "reconciles_running",
            "Objects being reconciled",
            reconciling.clone(),
        );
        registry.register(
            "calls_in_flight",
            "Calls not answered yet",
            in_flight.clone(),
        );
        registry.register(
            "invocation_records_dropped",
            "Records of calls that the log could not take",
            records_dropped.clone(),
        );
        registry.register(
            "invocation_records_waiting",
            "Records of calls that wait for the log",
            records_waiting.clone(),
        );
        Self(Arc::new(Inner {
            registry,
            requests,
            request_seconds,
            calls,
            call_seconds,
            connections,
            waiting,
            reconciling,
            in_flight,
            records_dropped,
            records_waiting,
        }))
    }

    /// Counts a request.
    pub fn request(
        &self,
        route: impl Into<Cow<'static, str>>,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        let labels = RouteLabels {
            route: route.into(),
        };
        let seconds = self.0.request_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
        let RouteLabels { route } = labels;
        let labels = RequestLabels {
            route,
            method,
            status,
        };
        self.0.requests.get_or_create(&labels).inc();
    }

    /// Counts a connection, until the guard is dropped.
    pub fn connection(&self) -> ConnectionGuard {
        self.0.connections.inc();
        ConnectionGuard(self.clone())
    }

    /// All metrics as text, with those of the engine as they are now.
    pub fn encode(&self, stats: &Stats) -> Result<String, std::fmt::Error> {
        let set = |gauge: &Gauge, value: usize| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.0.waiting, stats.waiting);
        set(&self.0.reconciling, stats.reconciling);
        set(&self.0.in_flight, stats.calls);
        set(&self.0.records_waiting, stats.records_waiting);
        let dropped = stats
            .records_dropped
            .saturating_sub(self.0.records_dropped.get());
        self.0.records_dropped.inc_by(dropped);
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Metrics {
    fn invoked(&self, call: &Invocation) {
        let outcome = match (&call.error, call.status) {
            (Some(_), _) => "error",
            (None, ..400) => "ok",
            (None, _) => "failed",
        };
        let origin = call.origin.as_str();
        self.0
            .calls
            .get_or_create(&CallLabels { origin, outcome })
            .inc();
        let seconds = self.0.call_seconds.get_or_create(&OriginLabels { origin });
        seconds.observe(call.duration.as_secs_f64());
    }
}

/// Counts a connection as open.
#[derive(Debug)]
pub struct ConnectionGuard(Metrics);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.0.connections.dec();
    }
}
