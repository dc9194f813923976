//! The command `sless`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sless_cli::main()
}
