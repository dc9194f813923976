//! Backends that a build may leave out, and the settings that ask for them.

use super::{parse, reader::Reader};

/// A backend that comes with a cargo feature of this crate.
#[derive(Clone, Copy, Debug)]
pub struct BackendFeature {
    /// The feature.
    pub feature: &'static str,
    /// Whether this build has it.
    pub built_in: bool,
    /// What it is, in a message.
    pub what: &'static str,
    /// The settings that ask for it when they are given.
    pub asked_by: &'static [&'static str],
}

/// All of them. A backend that comes in gets `cfg!(feature = "…")` for its `built_in`, when the
/// feature is declared.
pub const BACKENDS: &[BackendFeature] = &[
    BackendFeature {
        feature: "kubernetes",
        built_in: cfg!(feature = "kubernetes"),
        what: "the Kubernetes backend",
        asked_by: &["INGRESS_HOST", "REGISTRY_HOST", "SLESS_KUBERNETES_FILE"],
    },
    BackendFeature {
        feature: "s3",
        built_in: cfg!(feature = "s3"),
        what: "the S3 store",
        asked_by: &[
            "S3_ENDPOINT",
            "S3_BUCKET",
            "S3_ACCESS_KEY",
            "S3_SECRET_KEY",
            "S3_REGION",
        ],
    },
    BackendFeature {
        feature: "amqp",
        built_in: cfg!(feature = "amqp"),
        what: "the RabbitMQ dispatcher",
        asked_by: &["RABBITMQ_URL"],
    },
    BackendFeature {
        feature: "postgres",
        built_in: cfg!(feature = "postgres"),
        what: "the PostgreSQL invocation log",
        asked_by: &["DATABASE_URL"],
    },
    BackendFeature {
        feature: "llm",
        built_in: cfg!(feature = "llm"),
        what: "the LLM validator",
        asked_by: &[
            "LLM_ENDPOINT",
            "LLM_MODEL",
            "LLM_CANARY",
            "LLM_API_KEY",
            "LLM_PROMPT_FILE",
        ],
    },
    BackendFeature {
        feature: "otel",
        built_in: cfg!(feature = "otel"),
        what: "the export of traces",
        asked_by: &["SLESS_OTLP_ENDPOINT"],
    },
];

/// Notes every given setting whose backend is not in this build.
pub(super) fn check(reader: &mut Reader<'_>) {
    for backend in BACKENDS.iter().filter(|backend| !backend.built_in) {
        let named = backend.asked_by.iter().copied();
        let mut asking: Vec<_> = named.filter(|name| reader.is_given(name)).collect();
        // These two ask by their value, not by being there.
        if backend.feature == "kubernetes"
            && matches!(
                reader.peek("SLESS_BACKEND", parse::backend),
                Some(parse::BackendKind::Kubernetes)
            )
        {
            asking.insert(0, "SLESS_BACKEND");
        }
        if backend.feature == "llm" && reader.peek("LLM_ENABLED", parse::boolean) == Some(true) {
            asking.insert(0, "LLM_ENABLED");
        }
        for name in asking {
            reader.note(
                name,
                format!(
                    "asks for {}, which this build leaves out: build with --features {}",
                    backend.what, backend.feature
                ),
            );
        }
    }
}
