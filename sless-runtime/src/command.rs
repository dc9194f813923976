//! The command line and the environment of a worker.

use std::ffi::OsString;
use std::process::Stdio;

use tokio::process::Command;

use crate::config::{HostConfig, Language};
use crate::error::{Reason, StartError};
use crate::system::{Inherited, numbers};

const MAX_CONCURRENCY: usize = 1024;

/// Refuses what cannot be right.
pub(crate) fn check(config: &HostConfig) -> Result<(), StartError> {
    let wrong = |message: String| Err(StartError::new(Reason::Config, message));
    if !(1..=MAX_CONCURRENCY).contains(&config.concurrency) {
        return wrong(format!(
            "concurrency is {}; expected 1 to {MAX_CONCURRENCY}",
            config.concurrency
        ));
    }
    if !config.code_dir.is_dir() {
        return wrong(format!(
            "code_dir {} is no folder",
            config.code_dir.display()
        ));
    }
    match config.entrypoint.rsplit_once('.') {
        Some((module, function)) if !module.is_empty() && !function.is_empty() => {}
        _ => {
            return wrong(format!(
                "entrypoint {:?} is not of the form module.function",
                config.entrypoint
            ));
        }
    }
    let bad = |text: &str| text.contains('\0');
    if let Some(name) = config.env.iter().find_map(|(name, value)| {
        (name.is_empty() || name.contains('=') || bad(name) || bad(value)).then_some(name)
    }) {
        return wrong(format!("env has {name:?}, which is no variable"));
    }
    Ok(())
}

/// What is started, with everything that it sees.
pub(crate) fn command(
    config: &HostConfig,
    program: &std::path::Path,
    inherited: &[Inherited],
) -> Command {
    let mut line: Vec<OsString> = config.command_prefix.iter().map(OsString::from).collect();
    line.push(config.interpreter().into());
    match config.language {
        Language::Python => {
            // No user site, no site-packages of the system, nothing on the path but what we put
            // there. Unlike -I this leaves the PYTHON… variables of the function alone.
            line.extend(["-s", "-S", "-P", "-c"].map(OsString::from));
            line.push("import sys;sys.path.insert(0,sys.argv[1]);import sless_worker as w;w.main(sys.argv[2:])".into());
            line.push(program.into());
        }
        Language::Node => {
            if let Some(bytes) = config.memory_limit {
                line.push(format!("--max-old-space-size={}", (bytes >> 20).max(16)).into());
            }
            line.push(program.join("worker.js").into());
        }
    }
    line.push(config.entrypoint.as_str().into());
    line.push(config.code_dir.as_os_str().into());
    line.push(config.namespace.as_str().into());
    line.push(config.name.as_str().into());
    line.push(config.uid.as_str().into());
    line.push(config.limits.max_log_line_bytes.to_string().into());
    line.push(numbers(inherited).join(",").into());
    line.extend(config.dependency_dirs.iter().map(OsString::from));

    let mut line = line.into_iter();
    let mut command = Command::new(line.next().unwrap_or_default());
    command.args(line).current_dir(&config.code_dir).env_clear();
    command.env("PATH", &config.path);
    command
        .env("HOME", &config.temp_dir)
        .env("TMPDIR", &config.temp_dir);
    command.env("LANG", "C.UTF-8").env("PYTHONUNBUFFERED", "1");
    if config.language == Language::Node && !config.dependency_dirs.is_empty() {
        let mut path = OsString::new();
        for (at, folder) in config.dependency_dirs.iter().enumerate() {
            if at > 0 {
                path.push(":");
            }
            path.push(folder);
        }
        command.env("NODE_PATH", path);
    }
    command.envs(&config.env);
    command.env("SLESS_FUNCTION", &config.name);
    command.env("SLESS_NAMESPACE", &config.namespace);
    command.env("SLESS_ENTRYPOINT", &config.entrypoint);
    command.env("SLESS_INSTANCE", &config.instance);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
