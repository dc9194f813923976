//! Every setting: its name, its default, and what it is for.

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name, in the environment and in the file.
    pub name: &'static str,
    /// What it is where nothing is given, in the form in which it is given.
    pub default: Option<&'static str>,
    /// What it is for, and in which form.
    pub help: &'static str,
    /// Whether its value is never shown.
    pub secret: bool,
}

const fn set(name: &'static str, default: &'static str, help: &'static str) -> Setting {
    Setting {
        name,
        default: Some(default),
        help,
        secret: false,
    }
}

const fn open(name: &'static str, help: &'static str) -> Setting {
    Setting {
        name,
        default: None,
        help,
        secret: false,
    }
}

const fn secret(name: &'static str, help: &'static str) -> Setting {
    Setting {
        name,
        default: None,
        help,
        secret: true,
    }
}

/// All settings, in the order of the help text.
pub const SETTINGS: &[Setting] = &[
    set(
        "SLESS_LISTEN",
        "127.0.0.1:8080",
        "address and port to listen on",
    ),
    open(
        "SLESS_DATA_DIR",
        "folder of the local backend; the system's folder for a user's data",
    ),
    set(
        "SLESS_LOCAL_SANDBOX",
        "auto",
        "how functions and installers of the local backend are kept apart: auto (as far as this machine \
         can), required (or nothing starts) or off",
    ),
    set(
        "SLESS_LOCAL_SANDBOX_READ",
        "",
        "what they may read beyond what they are made of, a list with commas",
    ),
    set(
        "SLESS_LOCAL_SANDBOX_WRITE",
        "",
        "what they may read and write beyond their own folder, a list with commas",
    ),
    set(
        "SLESS_BACKEND",
        "local",
        "what runs functions: local or kubernetes",
    ),
    set(
        "SLESS_ROLES",
        "api,operator,dispatcher,console",
        "what this process does, a list with commas",
    ),
    open(
        "EXTERNAL_URL",
        "address that users see; http:// and SLESS_LISTEN",
    ),
    open(
        "KUBECONFIG",
        "kubeconfig file; in a pod its service account (kubernetes)",
    ),
    open(
        "SLESS_KUBE_CONTEXT",
        "context of the kubeconfig; its current one (kubernetes)",
    ),
    open(
        "SLESS_SYSTEM_NAMESPACE",
        "namespace of the leases; the pod's own, else sless-system (kubernetes)",
    ),
    open(
        "SLESS_NAMESPACE_PREFIX",
        "looks after namespaces that begin so, and no others; all (kubernetes)",
    ),
    open(
        "REGISTRY_HOST",
        "registry of images, with a path or not: functions/… and sless-runtime-… (kubernetes)",
    ),
    open(
        "REGISTRY_USERNAME",
        "name to push and pull with (kubernetes)",
    ),
    secret("REGISTRY_PASSWORD", "its password or token (kubernetes)"),
    set(
        "REGISTRY_PLAIN_HTTP",
        "false",
        "whether the registry speaks plain HTTP: true or false (kubernetes)",
    ),
    open(
        "REGISTRY_PULL_HOST",
        "what nodes call REGISTRY_HOST, where they have another name for it (kubernetes)",
    ),
    open(
        "SLESS_RUNTIME_REGISTRY",
        "where the runtimes' images are; REGISTRY_HOST (kubernetes)",
    ),
    open(
        "SLESS_RUNTIME_VERSIONS",
        "their tags where they differ, such as python3.11=v0.2.0, a list with commas (kubernetes)",
    ),
    open(
        "INGRESS_HOST",
        "host of an Ingress for each function, where EXTERNAL_URL is not set (kubernetes)",
    ),
    open(
        "INGRESS_CLASS",
        "class of the Ingresses; the cluster's default (kubernetes)",
    ),
    open(
        "INGRESS_TLS_SECRET",
        "Secret with the certificate of INGRESS_HOST, in the functions' namespaces (kubernetes)",
    ),
    set(
        "SLESS_CALLER_NAMESPACES",
        "",
        "namespaces that may call functions beside the server's own, a list with commas (kubernetes)",
    ),
    set(
        "SLESS_CALLER_CIDRS",
        "",
        "addresses that may call functions, as 10.0.0.0/8, a list with commas (kubernetes)",
    ),
    open(
        "SLESS_IDLE",
        "how long a function is without calls until it sleeps; never (kubernetes)",
    ),
    open(
        "SLESS_KUBERNETES_FILE",
        "TOML file with what else can be set: quota, pods, policies, builds, cron_jobs, keda (kubernetes)",
    ),
    set(
        "SLESS_LEASE_TTL",
        "15s",
        "how long a leading process may be silent until another takes over, from 2s (kubernetes)",
    ),
    secret(
        "RABBITMQ_URL",
        "broker of event triggers, amqp:// or amqps:// (amqp)",
    ),
    secret(
        "DATABASE_URL",
        "PostgreSQL of the invocation log (postgres)",
    ),
    open("S3_ENDPOINT", "S3 store of sources and contexts (s3)"),
    open("S3_BUCKET", "bucket in it (s3)"),
    open("S3_ACCESS_KEY", "its access key (s3)"),
    secret("S3_SECRET_KEY", "its secret key (s3)"),
    open("S3_REGION", "its region (s3)"),
    set(
        "S3_CREATE_BUCKET",
        "false",
        "whether the bucket is made where it is not there: true or false (s3)",
    ),
    set(
        "LLM_ENABLED",
        "false",
        "whether a model reviews uploads: true or false (llm)",
    ),
    open(
        "LLM_ENDPOINT",
        "OpenAI-compatible address of the model (llm)",
    ),
    open(
        "LLM_MODEL",
        "name of the model, where the server has several (llm)",
    ),
    set(
        "LLM_CANARY",
        "where-addressed",
        "which answers must carry the canary: where-addressed or always (llm)",
    ),
    secret("LLM_API_KEY", "its key (llm)"),
    set("LLM_TIMEOUT", "15s", "how long its answer may take (llm)"),
    open(
        "LLM_PROMPT_FILE",
        "prompt to use in place of the built-in one (llm)",
    ),
    set(
        "SLESS_STATIC_VALIDATION",
        "false",
        "whether rules without a network review uploads: true or false",
    ),
    set(
        "SLESS_VALIDATION",
        "block",
        "what becomes of code that is found unsafe: block, warn, or off for no review",
    ),
    set(
        "SLESS_VALIDATION_ON_FAILURE",
        "soft",
        "what becomes of code that could not be reviewed: soft (accepted with a warning) or hard",
    ),
    set(
        "SLESS_AUTH",
        "hs256",
        "how tokens are checked: jwks, hs256 or structural",
    ),
    open(
        "SLESS_JWKS_URL",
        "key set of the identity provider, for jwks",
    ),
    open(
        "SLESS_HS256_KEY_FILE",
        "shared secret, for hs256; hs256.key in SLESS_DATA_DIR, made there",
    ),
    secret(
        "SLESS_SERVICE_TOKEN",
        "token of the console where it runs apart from the API",
    ),
    set(
        "SLESS_ADMIN_SUBS",
        "",
        "subjects that open every namespace, a list with commas",
    ),
    set(
        "SLESS_CONSOLE_PUBLIC",
        "false",
        "whether the console shows everything that can be read without sign-in: true or false",
    ),
    open(
        "SLESS_CONSOLE_KEY_FILE",
        "key of the console's sessions, the same for all copies; console.key in SLESS_DATA_DIR, made there",
    ),
    open(
        "SLESS_CONSOLE_HOST",
        "host under which alone the console answers, and functions do not",
    ),
    set(
        "SLESS_CONSOLE_SANDBOX",
        "true",
        "whether pages of functions are kept from the console on their host: true or false",
    ),
    set(
        "SLESS_LOG",
        "info",
        "what is logged, such as info or sless_server=debug,info",
    ),
    set(
        "SLESS_LOG_FORMAT",
        "auto",
        "auto (pretty on a terminal, else json), pretty or json",
    ),
    open(
        "SLESS_OTLP_ENDPOINT",
        "where traces go, OTLP over HTTP (otel)",
    ),
    set(
        "SLESS_DRAIN_TIMEOUT",
        "30s",
        "how long calls under way may take to end at a stop",
    ),
    set("SLESS_MAX_ZIP_BYTES", "50MiB", "largest zip of an upload"),
    set(
        "SLESS_MAX_SOURCE_BYTES",
        "250MiB",
        "largest sum of the files in a zip",
    ),
    set("SLESS_MAX_SOURCE_ENTRIES", "10000", "most entries of a zip"),
    set(
        "SLESS_MAX_SOURCE_FILE_BYTES",
        "100MiB",
        "largest file in a zip",
    ),
    set(
        "SLESS_MAX_UPLOADS",
        "4",
        "most uploads that are checked at once",
    ),
    set(
        "SLESS_MAX_ZYGOTES",
        "32",
        "most Python functions that keep a process to fork workers from, 0 for none (local)",
    ),
    set(
        "SLESS_MAX_JSON_BYTES",
        "4MiB",
        "largest JSON body of a request",
    ),
    set(
        "SLESS_MAX_MESSAGE_BYTES",
        "1MiB",
        "largest message that is published to a queue",
    ),
    set(
        "SLESS_MAX_HEADER_BYTES",
        "64KiB",
        "largest head of a request",
    ),
    set(
        "SLESS_MAX_HEADERS",
        "128",
        "most fields in the head of a request",
    ),
    set("SLESS_MAX_CONNECTIONS", "10000", "most connections at once"),
    set(
        "SLESS_MAX_STREAMS",
        "100",
        "most requests at once on one connection of HTTP/2",
    ),
    set(
        "SLESS_HEADER_TIMEOUT",
        "15s",
        "how long the head of a request may take to arrive",
    ),
    set(
        "SLESS_STALL_TIMEOUT",
        "60s",
        "how long a client may send nothing of a body, or take nothing of an answer",
    ),
    set(
        "SLESS_REQUEST_TIMEOUT",
        "60s",
        "how long a request to the API may take, streams aside",
    ),
    set("SLESS_UPLOAD_TIMEOUT", "10m", "how long an upload may take"),
    set(
        "SLESS_MAX_PAGE_ITEMS",
        "500",
        "most items on one page of a list",
    ),
    set("SLESS_MAX_TOKEN_BYTES", "16KiB", "longest bearer token"),
    set(
        "SLESS_MAX_SOURCE_VIEW_BYTES",
        "8MiB",
        "largest source that is shown as JSON",
    ),
    set(
        "SLESS_INVOCATIONS_KEPT",
        "1000000",
        "most records of the invocation log",
    ),
    set(
        "SLESS_INVOCATIONS_KEPT_FOR",
        "720h",
        "how long records of the invocation log are kept",
    ),
];

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
