//! What the rules say of each file in a folder: `cargo run -p sless-validator --example look -- FOLDER`.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use sless_core::{Runtime, Validator as _, Verdict, source::SourceTree};
use sless_validator::StaticValidator;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).ok_or("expected a folder")?;
    let (mut safe, mut skipped, mut found) = (0, 0, 0);
    let mut out = io::stdout().lock();
    let mut files = Vec::new();
    collect(Path::new(&folder), &mut files)?;
    for path in files {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        // What no upload may be named is not looked at.
        let Ok(source) = SourceTree::from_files([(name, fs::read(&path)?)]) else {
            continue;
        };
        match StaticValidator
            .validate(&source, Runtime::Python311)
            .await?
        {
            Verdict::Safe => safe += 1,
            Verdict::Skipped { .. } => skipped += 1,
            Verdict::Unsafe { reason } => {
                found += 1;
                let folder = path.parent().unwrap_or(Path::new("")).display();
                writeln!(out, "{folder}/{reason}")?;
            }
        }
    }
    writeln!(out, "{safe} safe, {found} unsafe, {skipped} skipped")?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}
