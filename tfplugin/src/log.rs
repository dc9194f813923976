//! Log lines as Terraform understands them.

use std::{
    fmt::{Debug, Write as _},
    io::Write as _,
};

use serde_json::{Map, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::layer::{Context, Layer};

/// What carries bytes: of interest where it complains, a flood otherwise.
const CARRIERS: [&str; 9] = [
    "h2",
    "hyper",
    "hyper_util",
    "mio",
    "reqwest",
    "rustls",
    "tokio",
    "tonic",
    "tower",
];

/// A layer that writes each event to standard error as one line of JSON in the form of hclog, so that
/// Terraform shows and filters it by `TF_LOG`.
#[derive(Clone, Debug)]
pub struct HclogLayer {
    module: String,
    most: LevelFilter,
}

impl HclogLayer {
    /// A layer for the provider of this name, at the level that Terraform's own variables ask for:
    /// `TF_LOG_PROVIDER_NAME`, `TF_LOG_PROVIDER`, `TF_LOG`. Without them it writes warnings.
    pub fn new(name: &str, variable: impl Fn(&str) -> Option<String>) -> Self {
        let own = format!("TF_LOG_PROVIDER_{}", name.to_uppercase().replace('-', "_"));
        let asked = [own.as_str(), "TF_LOG_PROVIDER", "TF_LOG"]
            .into_iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()));
        Self {
            module: format!("provider.{name}"),
            most: asked.map_or(LevelFilter::WARN, |level| parse(&level)),
        }
    }

    fn line(&self, event: &Event<'_>) -> String {
        let metadata = event.metadata();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = Map::new();
        line.insert("@level".to_owned(), level(metadata).into());
        line.insert("@message".to_owned(), fields.message.into());
        line.insert("@module".to_owned(), self.module.clone().into());
        let now = jiff::Timestamp::now();
        line.insert("@timestamp".to_owned(), format!("{now:.6}").into());
        line.insert("target".to_owned(), metadata.target().into());
        line.extend(fields.others);
        Value::Object(line).to_string()
    }
}

fn parse(level: &str) -> LevelFilter {
    match level.to_uppercase().as_str() {
        "OFF" => LevelFilter::OFF,
        "ERROR" => LevelFilter::ERROR,
        "WARN" => LevelFilter::WARN,
        "INFO" => LevelFilter::INFO,
        "DEBUG" => LevelFilter::DEBUG,
        // JSON, and whatever Terraform takes for TRACE.
        _ => LevelFilter::TRACE,
    }
}

fn level(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

impl<S: Subscriber> Layer<S> for HclogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let root = metadata.target().split("::").next().unwrap_or_default();
        let is_flood = *metadata.level() > Level::INFO && CARRIERS.contains(&root);
        *metadata.level() <= self.most && !is_flood
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Where standard error is gone, there is nobody to tell.
        let _ = writeln!(std::io::stderr().lock(), "{}", self.line(event));
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
        } else {
            self.others.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        let _ = write!(text, "{value:?}");
        self.put(field, text.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::prelude::*;

    use super::*;

    #[test]
    fn terraforms_variables_choose_the_level() {
        let level = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            HclogLayer::new("my-cloud", variable).most
        };
        assert_eq!(level(&[]), LevelFilter::WARN);
        assert_eq!(level(&[("TF_LOG", "")]), LevelFilter::WARN);
        assert_eq!(level(&[("TF_LOG", "info")]), LevelFilter::INFO);
        assert_eq!(level(&[("TF_LOG", "JSON")]), LevelFilter::TRACE);
        assert_eq!(
            level(&[("TF_LOG", "TRACE"), ("TF_LOG_PROVIDER", "OFF")]),
            LevelFilter::OFF
        );
        assert_eq!(
            level(&[("TF_LOG", "OFF"), ("TF_LOG_PROVIDER_MY_CLOUD", "DEBUG")]),
            LevelFilter::DEBUG
        );
    }

    struct Keep(HclogLayer, Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Keep {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.1.lock().expect("lines").push(self.0.line(event));
        }
    }

    #[test]
    fn a_line_is_what_hclog_writes() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let layer = Keep(HclogLayer::new("x", |_| None), lines.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(function = "hello", tries = 3, ok = true, "now {}", "Ready");
        });
        let line: Value = serde_json::from_str(&lines.lock().expect("lines")[0]).expect("JSON");
        for (field, expected) in [
            ("@level", Value::from("info")),
            ("@message", "now Ready".into()),
            ("@module", "provider.x".into()),
            ("function", "hello".into()),
            ("tries", 3.into()),
            ("ok", true.into()),
        ] {
            assert_eq!(line[field], expected, "{field}");
        }
        assert!(
            line["@timestamp"]
                .as_str()
                .is_some_and(|time| time.ends_with('Z'))
        );
    }
}
