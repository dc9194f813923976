//! How functions of the local backend are kept apart.

use std::path::PathBuf;

use sless_local::SandboxMode;

use super::{
    parse,
    reader::{Noted, Reader},
};

/// How functions of the local backend are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxSettings {
    /// Whether they are.
    pub mode: SandboxMode,
    /// What they may read beyond what they are made of.
    pub read: Vec<PathBuf>,
    /// What they may read and write beyond their own folder.
    pub write: Vec<PathBuf>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<SandboxSettings, Noted> {
    let mode = reader.value("SLESS_LOCAL_SANDBOX", |text| {
        let words = [
            ("auto", SandboxMode::Auto),
            ("required", SandboxMode::Required),
            ("off", SandboxMode::Off),
        ];
        parse::word(text, &words)
    });
    let read = reader.value("SLESS_LOCAL_SANDBOX_READ", folders);
    let write = reader.value("SLESS_LOCAL_SANDBOX_WRITE", folders);
    Ok(SandboxSettings {
        mode: mode?,
        read: read?,
        write: write?,
    })
}

/// Folders that are there, with commas.
fn folders(text: &str) -> Result<Vec<PathBuf>, String> {
    let folders: Vec<_> = parse::list(text)?.into_iter().map(PathBuf::from).collect();
    match folders
        .iter()
        .find(|folder| !(folder.is_absolute() && folder.exists()))
    {
        Some(folder) => Err(format!(
            "{} is not there; expected full paths with commas",
            folder.display()
        )),
        None => Ok(folders),
    }
}
