//! The export of traces, as OTLP over HTTP.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::{TraceContextExt, TracerProvider},
};
use opentelemetry_otlp::{ExporterBuildError, WithExportConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::LevelFilter, registry::LookupSpan};

/// What sends spans to this address, in batches, on a thread of its own.
pub(super) fn provider(endpoint: &str) -> Result<SdkTracerProvider, ExporterBuildError> {
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .build()?;
    EXPORTS.store(true, Ordering::Relaxed);
    let resource = Resource::builder()
        .with_service_name("sless-server")
        .build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .build())
}

pub(super) fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("sless-server"))
        .with_filter(LevelFilter::INFO)
}

/// Whether anything is exported. Where nothing is, no request pays for it.
static EXPORTS: AtomicBool = AtomicBool::new(false);

/// Makes the span part of the caller's trace.
pub(crate) fn follow_trace(span: &Span, fields: &HeaderMap) {
    if !EXPORTS.load(Ordering::Relaxed) {
        return;
    }
    let context = TraceContextPropagator::new().extract(&Fields(fields));
    if context.span().span_context().is_valid() {
        // A span that nobody exports has no parent to set.
        let _ = span.set_parent(context);
    }
}

/// Tells the function that the current span is its parent. Without an exported span, the fields
/// stay as they are.
pub(crate) fn hand_on_trace(fields: &mut HeaderMap) {
    if !EXPORTS.load(Ordering::Relaxed) {
        return;
    }
    let context = Span::current().context();
    if context.span().span_context().is_valid() {
        TraceContextPropagator::new().inject_context(&context, &mut FieldsMut(fields));
    }
}

struct Fields<'a>(&'a HeaderMap);

impl Extractor for Fields<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct FieldsMut<'a>(&'a mut HeaderMap);

impl Injector for FieldsMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value))
            && !value.is_empty()
        {
            self.0.insert(name, value);
        }
    }
}
