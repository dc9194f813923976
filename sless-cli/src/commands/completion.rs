//! `sless completion`.

use std::io::{self, Write as _};

use clap_complete::Shell;

use crate::{args, failure::Result};

const EXAMPLES: &str = "\
Examples:
  $ sless completion bash > sless.bash
  $ sless completion zsh > _sless
  $ sless completion fish > sless.fish

The file for bash is read by `source`, that for zsh belongs into a folder of $fpath, that for fish
into ~/.config/fish/completions.";

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "sless", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
