//! The command line.

mod gc;
mod run;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use sless_api::WireDuration;

use crate::settings;

pub use gc::gc;
pub use run::{block_on, run};

/// The reference server of sless: serverless functions on one machine or in a cluster.
#[derive(Debug, Parser)]
#[command(name = "sless-server", version, about, after_help = settings::help())]
pub struct Cli {
    /// A TOML file with settings; the environment wins over it.
    #[arg(long, global = true, env = "SLESS_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What to do; serve where nothing is given.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve until told to stop (the default).
    Serve,
    /// Serve, and deploy each folder as a function; again whenever it changes.
    ///
    /// Prints the URL of each function with a curl line to copy, then their logs. What was built is
    /// kept in a folder of the user's caches that belongs to these folders, unless SLESS_DATA_DIR
    /// names another one.
    Dev(Dev),
    /// Make a token for mode hs256 and print it.
    Token(Token),
    /// Print the OpenAPI document.
    Openapi,
    /// List what is kept for functions, triggers and jobs that are not there any more.
    ///
    /// Looks through what runs, what was built, dead letters and stored sources, and prints a line for each
    /// thing of which the catalog has no owner. Nothing is changed. On one machine the server has to be
    /// stopped meanwhile, since a data folder has one process.
    Gc(Gc),
    /// Check the settings and print them as they are in effect, without secrets.
    CheckConfig,
}

/// Arguments of `dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// Folders, each with the code of one function: handler.py or handler.js, or what its sless.toml
    /// names.
    #[arg(required = true, value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
    /// The port to listen on, in place of that of SLESS_LISTEN; 0 takes a free one.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
}

/// Arguments of `token`.
#[derive(Debug, Args)]
pub struct Token {
    /// Whose token it is; the namespace follows from this name.
    #[arg(long, value_name = "NAME")]
    pub sub: String,
    /// How long it is valid, such as 30m or 24h.
    #[arg(long, default_value = "24h", value_name = "DURATION", value_parser = duration)]
    pub ttl: Duration,
}

/// Arguments of `gc`.
#[derive(Debug, Args)]
pub struct Gc {
    /// List only. There is no other way yet: what is listed is removed by hand.
    #[arg(long)]
    pub dry_run: bool,
}

fn duration(text: &str) -> Result<Duration, sless_api::InvalidDuration> {
    text.parse::<WireDuration>().map(Duration::from)
}

impl Cli {
    /// The command, which is to serve where none was given.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_given_is_to_serve() {
        let cli = Cli::try_parse_from(["sless-server"]).unwrap();
        assert!(matches!(cli.into_command(), Command::Serve));
    }

    #[test]
    fn a_token_lasts_a_day_where_nothing_is_said() {
        let cli = Cli::try_parse_from(["sless-server", "token", "--sub", "alice"]).unwrap();
        let Command::Token(token) = cli.into_command() else {
            panic!("another command")
        };
        assert_eq!(token.ttl, Duration::from_secs(24 * 3600));
        assert!(Cli::try_parse_from(["sless-server", "token"]).is_err());
        let wrong = ["sless-server", "token", "--sub", "a", "--ttl", "24"];
        let error = Cli::try_parse_from(wrong).unwrap_err().to_string();
        assert!(error.contains("a number with a unit"), "{error}");
    }

    #[test]
    fn help_shows_every_setting() {
        let help = Cli::command().render_long_help().to_string();
        for setting in settings::table::SETTINGS {
            assert!(help.contains(setting.name), "{}", setting.name);
        }
    }
}
