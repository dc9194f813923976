//! The entry point of function images: settings, then [`serve`](binary::front::serve) or
//! [`once`](binary::once::once).

#[cfg(unix)]
mod binary;

use std::process::ExitCode;

fn main() -> ExitCode {
    start()
}

#[cfg(unix)]
fn start() -> ExitCode {
    binary::run()
}

#[cfg(not(unix))]
fn start() -> ExitCode {
    use std::io::Write as _;
    let lacking = sless_runtime::lacking().unwrap_or_default();
    // Nothing is left to be told if even this cannot be written.
    let _ = writeln!(std::io::stderr(), "sless-runtime: {lacking}");
    ExitCode::FAILURE
}
