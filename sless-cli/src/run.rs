//! From the arguments to the exit status.

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command, Globals},
    commands::{
        completion, context, delete, deploy, doctor, get, init, invoke, job, list, login, logs,
        source, trigger, watch,
    },
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::Output,
};

/// Does what the arguments of the process say.
pub fn main() -> ExitCode {
    let Cli {
        mut globals,
        command,
    } = Cli::parse();
    let output = Output::new(globals.output, globals.color, globals.quiet);
    let token = globals.read_token();
    match token.and_then(|()| dispatch(command, &globals, &output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.fail(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

fn dispatch(command: Command, globals: &Globals, output: &Output) -> Result<()> {
    match command {
        // Nothing to wait for, so no runtime either.
        Command::Completion(args) => completion::run(&args),
        Command::Init(args) => init::run(&args, output),
        Command::Context(command) => context::run(command, output),
        command => with_runtime(command, globals, output),
    }
}

fn with_runtime(command: Command, globals: &Globals, output: &Output) -> Result<()> {
    let unavailable =
        |error: std::io::Error| Failure::new(Exit::Failed, format!("cannot begin: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unavailable)?;
    let done = runtime.block_on(async {
        let mut interrupt = Interrupt::new().map_err(unavailable)?;
        talk(command, globals, output, &mut interrupt).await
    });
    // What blocks, such as a read of a terminal, is not waited for.
    runtime.shutdown_background();
    done
}

async fn talk(
    command: Command,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    match command {
        Command::Deploy(args) => deploy::run(&args, globals, output, interrupt).await,
        Command::Watch(args) => watch::run(&args, globals, output, interrupt).await,
        Command::Source(command) => source::run(command, globals, output, interrupt).await,
        Command::Delete(args) => delete::run(&args, globals, output, interrupt).await,
        Command::Trigger(command) => trigger::run(command, globals, output, interrupt).await,
        Command::Job(command) => job::run(command, globals, output, interrupt).await,
        Command::Login(args) => interrupt.cut(login::run(&args, globals, output)).await,
        Command::Invoke(args) => interrupt.cut(invoke::run(args, globals, output)).await,
        Command::List(args) => interrupt.cut(list::run(&args, globals, output)).await,
        Command::Get(args) => interrupt.cut(get::run(&args, globals, output)).await,
        Command::Logs(args) => interrupt.cut(logs::run(&args, globals, output)).await,
        Command::Doctor(args) => interrupt.cut(doctor::run(&args, globals, output)).await,
        Command::Completion(args) => completion::run(&args),
        Command::Init(args) => init::run(&args, output),
        Command::Context(command) => context::run(command, output),
    }
}
