//! The reference server: settings, backends, engine, HTTP; and an end that drains.

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use jiff::Timestamp;
use sless_server::{
    auth::Hs256Key,
    cli::{self, Cli, Command},
    dev::{self, DevOptions},
    document,
    settings::{Settings, Sources},
};

/// The exit status where the settings cannot be used, as `EX_CONFIG` of sysexits.
const CONFIG: u8 = 78;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let sources = Sources::new(std::env::vars_os(), cli.config.as_deref());
    let command = cli.into_command();
    if let Command::Openapi = command {
        return finish(print(&document().to_pretty_json().unwrap_or_default()));
    }
    #[cfg(feature = "fault-points")]
    if let Err(wrong) = sless_server::faults::arm() {
        complain(&*Box::<dyn Error>::from(wrong));
        return ExitCode::from(CONFIG);
    }
    let settings = match Settings::load(&sources) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&error);
            return ExitCode::from(CONFIG);
        }
    };
    finish(match command {
        Command::Openapi => Ok(()),
        Command::CheckConfig => check_config(&settings),
        Command::Gc(arguments) => gc(&settings, &arguments),
        Command::Token(arguments) => token(&settings, &arguments),
        Command::Serve => run(&settings, None),
        Command::Dev(arguments) => develop(settings, arguments),
    })
}

fn develop(settings: Settings, arguments: cli::Dev) -> Result<(), Box<dyn Error>> {
    let cli::Dev { folders, port } = arguments;
    let prepared = dev::prepare(settings, &DevOptions { folders, port })?;
    run(&prepared.settings, Some(&prepared))
}

fn run(settings: &Settings, dev: Option<&dev::Prepared>) -> Result<(), Box<dyn Error>> {
    cli::block_on(settings, cli::run(settings, dev))
}

fn gc(settings: &Settings, arguments: &cli::Gc) -> Result<(), Box<dyn Error>> {
    let lines = cli::block_on(settings, cli::gc(settings, arguments))?;
    lines.iter().try_for_each(|line| print(line))
}

fn token(settings: &Settings, arguments: &cli::Token) -> Result<(), Box<dyn Error>> {
    let key = Hs256Key::load_or_create(&settings.auth.hs256_key_file)?;
    print(&key.mint(&arguments.sub, arguments.ttl, Timestamp::now())?)
}

fn check_config(settings: &Settings) -> Result<(), Box<dyn Error>> {
    for shown in settings.shown() {
        let value = shown.value.as_deref().unwrap_or("(not set)");
        print(&format!(
            "{} = {value}  # from {}",
            shown.name, shown.origin
        ))?;
    }
    settings
        .warnings
        .iter()
        .try_for_each(|warning| print(&format!("# {warning}")))
}

fn print(line: &str) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// The error with its causes, once, on standard error.
fn complain(error: &dyn Error) {
    let mut text = format!("sless-server: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    // Where standard error is gone, there is nobody to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

fn finish(result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&*error);
            ExitCode::FAILURE
        }
    }
}
