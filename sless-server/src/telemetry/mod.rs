//! Logs, and traces where the build has them.

use std::io::{self, IsTerminal};

use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::settings::{LogFormat, LogSettings};

#[cfg(feature = "otel")]
mod export;

#[cfg(feature = "otel")]
pub(crate) use export::{follow_trace, hand_on_trace};

/// Why logging cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("SLESS_LOG cannot be read")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// Something else logs in this process already.
    #[error("logging was begun already")]
    Begun(#[from] tracing_subscriber::util::TryInitError),
    /// Traces cannot be exported.
    #[cfg(feature = "otel")]
    #[error("SLESS_OTLP_ENDPOINT cannot be used")]
    Export(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// Keeps what must be ended with the process. Dropping it sends the last traces.
#[derive(Debug)]
#[must_use]
pub struct Telemetry {
    #[cfg(feature = "otel")]
    traces: Option<opentelemetry_sdk::trace::SdkTracerProvider>,
}

impl Telemetry {
    /// Begins to log to standard error: pretty on a terminal, one JSON object per line otherwise.
    ///
    /// # Errors
    /// [`TelemetryError`] naming the setting.
    pub fn begin(settings: &LogSettings) -> Result<Self, TelemetryError> {
        let pretty = match settings.format {
            LogFormat::Pretty => true,
            LogFormat::Json => false,
            LogFormat::Auto => io::stderr().is_terminal(),
        };
        let layer: Box<dyn Layer<Registry> + Send + Sync> = if pretty {
            let layer = tracing_subscriber::fmt::layer().with_target(false);
            layer
                .with_ansi(io::stderr().is_terminal())
                .with_writer(io::stderr)
                .boxed()
        } else {
            let layer = tracing_subscriber::fmt::layer().json().flatten_event(true);
            layer
                .with_current_span(true)
                .with_span_list(false)
                .with_writer(io::stderr)
                .boxed()
        };
        let logs = layer.with_filter(EnvFilter::try_new(&settings.filter)?);
        let registry = tracing_subscriber::registry().with(logs);
        #[cfg(feature = "otel")]
        {
            let traces = settings
                .otlp_endpoint
                .as_deref()
                .map(export::provider)
                .transpose()?;
            registry
                .with(traces.as_ref().map(export::layer))
                .try_init()?;
            Ok(Self { traces })
        }
        #[cfg(not(feature = "otel"))]
        {
            registry.try_init()?;
            Ok(Self {})
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        #[cfg(feature = "otel")]
        if let Some(traces) = &self.traces
            && let Err(error) = traces.shutdown()
        {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}
