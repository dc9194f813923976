//! What is special to the web console.

use std::path::PathBuf;

use super::{
    parse,
    reader::{Noted, Reader},
};

/// The web console, and what keeps it and functions apart.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsoleSettings {
    /// Whether it shows everything that can be read without sign-in.
    pub public: bool,
    /// Where the key of its sessions is; `console.key` in the data folder where absent.
    pub key_file: Option<PathBuf>,
    /// The host, with its port where that is not the scheme's, under which alone it answers, and
    /// functions do not.
    pub host: Option<String>,
    /// Whether a browser keeps pages of functions from what else is on their host.
    pub sandbox: bool,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<ConsoleSettings, Noted> {
    let public = reader.value("SLESS_CONSOLE_PUBLIC", parse::boolean);
    let key_file = reader.optional("SLESS_CONSOLE_KEY_FILE", parse::path);
    let host = reader.optional("SLESS_CONSOLE_HOST", |text| match parse::text(text) {
        Ok(host) if !host.contains('/') => Ok(host.to_ascii_lowercase()),
        _ => Err("expected a host such as console.example.com or localhost:8081".to_owned()),
    });
    let sandbox = reader.value("SLESS_CONSOLE_SANDBOX", parse::boolean);
    Ok(ConsoleSettings {
        public: public?,
        key_file: key_file?,
        host: host?,
        sandbox: sandbox?,
    })
}
