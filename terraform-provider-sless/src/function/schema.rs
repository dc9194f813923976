//! The attributes of a function.

use sless_core::{FunctionSpec, Runtime};
use tfplugin::{Action, Attribute, Schema, Type, Value};

use super::TIMEOUT;
use crate::name;

/// How long a function may take to become ready, in seconds, where `build_timeout_sec` does not say
/// otherwise.
pub(super) const BUILD_TIMEOUT_SEC: i64 = 900;

/// The attributes of a function.
pub(crate) fn schema() -> Schema {
    let mut attributes = name::computed("function");
    attributes.push(name::attribute("function"));
    attributes.extend(settings());
    attributes.extend(variables());
    attributes.extend(code());
    attributes.extend(seen());
    attributes.push(tfplugin::timeouts::attribute(
        &[Action::Create, Action::Update, Action::Delete],
        TIMEOUT,
    ));
    Schema::new(DOCS, attributes).exactly_one_of(&["source_dir", "filename"])
}

const DOCS: &str = "\
A function: code, and how it runs.

Creating it and changing its code waits until it is ready, or until it is known that it will not be: a \
refused upload and a failed build are errors, with the reason and the end of the build's log. A function \
that exists and does not run is planned to be brought up again.

The provider compares contents, never archives: paths, bytes and the executable bit. Times, owners and \
the order of files do not count, and neither does the path of the folder. Code that was changed by \
somebody else shows as drift.";

fn settings() -> Vec<Attribute> {
    // Defaults are written down in every plan, so that they do not change with the server.
    let defaults = FunctionSpec::new(Runtime::Python311);
    let quantity = |name: &str, docs: &str| {
        Attribute::string(name, docs)
            .optional()
            .same_when(|one, other| {
                let parsed = |value: &Value| value.as_str()?.parse::<sless_core::Quantity>().ok();
                parsed(one).is_some() && parsed(one) == parsed(other)
            })
    };
    vec![
        Attribute::string(
            "runtime",
            "The language and its version: `python3.11` or `nodejs20`.",
        )
        .required(),
        Attribute::string("entrypoint", "`module.function`.")
            .with_default(defaults.entrypoint.to_string()),
        Attribute::number(
            "replicas",
            "How many copies run. Not given means one; 0 switches the function off.",
        )
        .optional()
        .checked(whole),
        Attribute::number("timeout", "How long one call may take, in seconds.")
            .with_default(defaults.timeout_seconds)
            .checked(whole),
        quantity("memory", "The memory of one copy, such as `256Mi`."),
        quantity(
            "cpu",
            "The processor share of one copy, such as `500m` or `2`.",
        ),
        Attribute::number("concurrency", "How many calls one copy takes at once.")
            .with_default(defaults.concurrency)
            .checked(whole),
        Attribute::number(
            "max_replicas",
            "The most copies, 1 to 1,000: above `replicas`, some are added while more calls are under \
             way than those take. Not given, none are. Only where the backend scales, as on Kubernetes.",
        )
        .optional()
        .checked(whole),
        Attribute::number(
            "idle_seconds",
            "How long without a call until the function goes to sleep, in seconds. Not given means the \
             server's default; 0 means never.",
        )
        .optional()
        .checked(whole),
    ]
}

fn variables() -> Vec<Attribute> {
    vec![
        Attribute::map_of("env", Type::String, "Environment variables.").empty_is_absent(),
        Attribute::map_of(
            "env_sensitive",
            Type::String,
            "Environment variables that are never shown. They are stored in the state.",
        )
        .sensitive()
        .empty_is_absent(),
        Attribute::map_of(
            "env_wo",
            Type::String,
            "Environment variables that are handed to the server and stored neither in a plan nor in \
             the state, so that Terraform does not see when they change: see `env_wo_version`. Needs \
             Terraform 1.11.",
        )
        .sensitive()
        .write_only(),
        Attribute::number("env_wo_version", "Another number sends `env_wo` again.").optional(),
    ]
}

fn code() -> Vec<Attribute> {
    let path = |name: &str, docs: &str| Attribute::string(name, docs).with_stand_in("");
    vec![
        path(
            "source_dir",
            "The folder with the code. Left out of it are `sless.toml`, files and folders whose name \
             begins with a dot, `node_modules`, `__pycache__`, and what `.gitignore` and `.slessignore` \
             say. Exactly one of `source_dir` and `filename` is given.",
        ),
        path("filename", "A zip with the code."),
        path(
            "code_hash",
            "Accepted for configurations that have one, and not needed: the provider looks at the \
             contents itself. Another value with the same contents is no change.",
        ),
        Attribute::number(
            "build_timeout_sec",
            &format!(
                "How long the function may take to become ready, in seconds; `{BUILD_TIMEOUT_SEC}` \
                 where it is not given. `timeouts` bounds the whole operation."
            ),
        )
        .with_stand_in(0)
        .checked(|value| match value.as_i64() {
            Some(1..) => Ok(()),
            _ => Err("Expected a whole number of seconds above zero.".to_owned()),
        }),
    ]
}

/// What only the server knows.
fn seen() -> Vec<Attribute> {
    vec![
        Attribute::string(
            "digest",
            "The digest of the code: SHA-256 over paths, contents and executable bits, in hex.",
        )
        .computed(),
        Attribute::string(
            "phase",
            "`Pending`, `Building`, `Ready`, `Failed` or `Stopped`.",
        )
        .computed(),
        Attribute::string("url", "Where the function answers.")
            .computed()
            .changes_with(&["name"]),
        Attribute::string("image", "The image or artifact that runs.").computed(),
        Attribute::string(
            "last_built_at",
            "When its code was last built, as RFC 3339.",
        )
        .computed(),
    ]
}

fn whole(value: &Value) -> Result<(), String> {
    match value.as_i64().map(u32::try_from) {
        Some(Ok(_)) => Ok(()),
        _ => Err("Expected a whole number, 0 or more.".to_owned()),
    }
}
