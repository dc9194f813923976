//! `sless get`.

use sless_api::Function;

use super::shown;
use crate::{
    args::Globals,
    failure::{Failure, Result},
    output::Output,
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless get hello
  $ sless get hello -o json";

/// Show one function: its state, its settings, and where it answers.
///
/// Values of environment variables are shown with -o json and -o yaml only.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The function.
    name: String,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: &Output) -> Result<()> {
    let session = Session::open(globals, output)?;
    let function = session
        .client
        .function(&session.namespace, &args.name)
        .await;
    let function = function.map_err(|error| session.tell_missing(Failure::from(error), "list"))?;
    if output.is_for_people() {
        facts(output, &function)
    } else {
        output.value(&function)
    }
}

fn facts(output: &Output, function: &Function) -> Result<()> {
    let names: Vec<_> = function.env.0.keys().map(String::as_str).collect();
    let wanted = function.replicas.unwrap_or(1);
    output.facts(&[
        ("name", Some(function.name.clone())),
        ("namespace", Some(function.namespace.clone())),
        ("phase", Some(shown::phase(output, function))),
        ("reason", function.reason.clone()),
        ("message", function.message.as_deref().map(shown::safe)),
        ("url", Some(function.url.clone())),
        ("runtime", Some(function.runtime.clone())),
        ("entrypoint", Some(function.entrypoint.clone())),
        (
            "replicas",
            Some(format!("{} of {wanted} ready", function.ready_replicas)),
        ),
        (
            "most",
            function
                .max_replicas
                .map(|most| format!("{most} replicas, by the calls under way")),
        ),
        ("concurrency", Some(function.concurrency.to_string())),
        ("timeout", Some(format!("{} s", function.timeout_seconds))),
        (
            "sleeps",
            function.idle_seconds.map(|idle| match idle {
                0 => "never".to_owned(),
                idle => format!("after {idle} s without a call"),
            }),
        ),
        ("memory", function.memory.clone()),
        ("cpu", function.cpu.clone()),
        ("env", (!names.is_empty()).then(|| names.join(", "))),
        (
            "code",
            function
                .code_sha256
                .as_ref()
                .map(|digest| format!("sha256:{digest}")),
        ),
        ("image", function.image.clone()),
        ("built", function.last_built_at.map(shown::time)),
        ("created", Some(shown::time(function.created_at))),
    ])
}
