//! The command line: what may be typed. Each command's own arguments stand in its file under
//! `commands`.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::{
    commands::{
        completion, context, delete, deploy, doctor, get, init, invoke, job, list, login, logs,
        source, trigger, watch,
    },
    failure::Result,
    output::{Colours, Format},
    session::read_token,
};

/// Deploy, call and watch serverless functions on a sless server.
#[derive(Parser)]
#[command(
    name = "sless",
    version,
    about,
    after_help = "Start with `sless login`, then `sless init hello` and `sless deploy hello`.\n\
                  The reference with all exit statuses is docs/cli.md.",
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Args)]
#[command(next_help_heading = "Server and output")]
pub(crate) struct Globals {
    /// The server's address; that of the context where it is left out.
    #[arg(long, global = true, env = "SLESS_ENDPOINT", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The token. Others on this machine can see it here: better in the environment or a file.
    #[arg(
        long,
        global = true,
        env = "SLESS_API_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) token: Option<String>,
    /// A file with the token; `-` is standard input. It wins over a token in the environment.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The context, as `sless context list` names it, in place of the current one.
    #[arg(long, global = true, env = "SLESS_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace; that of the token's subject where it is left out.
    #[arg(
        long,
        short,
        global = true,
        env = "SLESS_NAMESPACE",
        value_name = "NAME"
    )]
    pub(crate) namespace: Option<String>,
    /// A proxy for requests to the server.
    #[arg(long, global = true, env = "SLESS_PROXY", value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// The form of what is printed.
    #[arg(
        long,
        short,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORM"
    )]
    pub(crate) output: Format,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Colours,
    /// No talk on standard error but warnings and errors.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

impl Globals {
    /// Reads the token where it is in a file, which may be a terminal, and keeps it.
    pub(crate) fn read_token(&mut self) -> Result<()> {
        if let Some(path) = self.token_file.take() {
            self.token = Some(read_token(&path)?);
        }
        Ok(())
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Sign in to a server and keep its address and token.
    Login(login::Args),
    /// The servers that were signed in to.
    #[command(subcommand)]
    Context(context::Command),
    /// Make a folder with a function to begin with, and its test.
    Init(init::Args),
    /// Upload a folder, build it and wait until it answers.
    Deploy(deploy::Args),
    /// Deploy a folder now and whenever it changes.
    Watch(watch::Args),
    /// Call a function.
    Invoke(invoke::Args),
    /// Show all functions.
    List(list::Args),
    /// Show one function.
    Get(get::Args),
    /// Remove functions, and everything that was made for them.
    Delete(delete::Args),
    /// Show what builds and calls of a function wrote.
    Logs(logs::Args),
    /// The code of a function as it is on the server.
    #[command(subcommand)]
    Source(source::Command),
    /// What drives functions: their URL, the clock, a queue.
    #[command(subcommand)]
    Trigger(trigger::Command),
    /// Functions that are run once, beside requests.
    #[command(subcommand)]
    Job(job::Command),
    /// Check server, token, namespace and clock.
    Doctor(doctor::Args),
    /// Print the completion script of a shell.
    Completion(completion::Args),
}

/// The definition of the whole command line.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn no_help_shows_a_token_of_the_environment() {
        // The value would stand there as `[env: SLESS_API_TOKEN=…]`.
        let help = command().render_long_help().to_string();
        assert!(help.contains("[env: SLESS_API_TOKEN]"), "{help}");
    }

    #[test]
    fn every_command_can_be_parsed_from_the_words_of_its_path() {
        fn walk(command: &clap::Command, path: &[String]) {
            for sub in command.get_subcommands() {
                let mut path = path.to_vec();
                path.push(sub.get_name().to_owned());
                let mut words = path.clone();
                words.push("--help".to_owned());
                let error = super::command().try_get_matches_from(words).unwrap_err();
                assert_eq!(
                    error.kind(),
                    clap::error::ErrorKind::DisplayHelp,
                    "{path:?}"
                );
                walk(sub, &path);
            }
        }
        walk(&command(), &["sless".to_owned()]);
    }
}
