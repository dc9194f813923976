//! The parts of the binary.

pub(crate) mod front;
pub(crate) mod log_tail;
pub(crate) mod logs;
pub(crate) mod once;
pub(crate) mod settings;
pub(crate) mod termination;

use std::io::Write;
use std::process::ExitCode;

use self::front::{report, serve};
use self::once::once;
use self::settings::{Command, HELP, Settings};

/// A wrong command line or setting.
const WRONG: u8 = 2;

/// What the command line and the environment ask for.
pub(crate) fn run() -> ExitCode {
    let command = Command::parse(std::env::args_os().skip(1), std::env::vars_os());
    let result = match &command {
        Ok(Command::Help) => std::io::stdout()
            .write_all(HELP.as_bytes())
            .map(|()| 0)
            .map_err(Into::into),
        Ok(Command::Serve(settings)) => start(settings, true),
        Ok(Command::Once(settings)) => start(settings, false),
        Err(wrong) => {
            report(&wrong.to_string());
            Ok(WRONG)
        }
    };
    ExitCode::from(result.unwrap_or_else(|error| {
        report(&error.to_string());
        WRONG
    }))
}

fn start(settings: &Settings, serving: bool) -> Result<u8, Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.threads()?)
        .enable_all()
        .build()?;
    let code = runtime.block_on(async {
        if serving {
            serve(settings).await
        } else {
            once(settings).await
        }
    });
    // A blocking read of a client that stalls must not hold the exit up.
    runtime.shutdown_background();
    code
}
