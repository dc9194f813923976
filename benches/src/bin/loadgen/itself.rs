//! This program as the server, where no other is named: `loadgen serve` and `loadgen token`, read as
//! `sless-server` reads them. So what is measured is never older than what measures.

use std::io::Write as _;

use anyhow::{Result, anyhow, bail};
use clap::Parser as _;
use jiff::Timestamp;
use sless_server::{
    auth::Hs256Key,
    cli::{self, Cli, Command},
    settings::{Settings, Sources},
};

/// Whether the arguments are those of a server.
pub(crate) fn is_asked() -> bool {
    matches!(std::env::args().nth(1).as_deref(), Some("serve" | "token"))
}

pub(crate) fn run() -> Result<()> {
    let settings = Settings::load(&Sources::new(std::env::vars_os(), None))?;
    match Cli::parse().into_command() {
        Command::Serve => {
            cli::block_on(&settings, cli::run(&settings, None)).map_err(|error| anyhow!("{error}"))
        }
        Command::Token(token) => {
            let key = Hs256Key::load_or_create(&settings.auth.hs256_key_file)?;
            let minted = key.mint(&token.sub, token.ttl, Timestamp::now())?;
            Ok(writeln!(std::io::stdout(), "{minted}")?)
        }
        _ => bail!("only serve and token"),
    }
}
