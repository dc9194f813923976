//! `sless source`: the code of a function as it is on the server.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use futures::StreamExt as _;
use similar::TextDiff;
use sless_core::source::{SourceArchive, SourceFile, SourceLimits, SourceTree};
use sless_source::{Folder, read_tree};

use super::shown;
use crate::{
    args::Globals,
    failure::{Exit, Failure, Result},
    interrupt::Interrupt,
    output::{Output, Paint, beside},
    session::Session,
};

const EXAMPLES: &str = "\
Examples:
  $ sless source pull hello --dry-run
  $ sless source pull copy --name hello --yes";

/// Largest file whose lines are compared, in bytes; of a larger one the sizes are told.
const DIFF_BYTES: u64 = 1 << 20;

/// The code of a function as it is on the server.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Bring a folder to what is on the server; shows the difference first, and asks.
    Pull(Pull),
}

/// Bring a folder to what is on the server; shows the difference first, and asks.
///
/// The function is the one that `sless deploy FOLDER` would deploy, or that of --name; a folder that
/// is not there is made. Files that are in the folder only stay, unless --delete is said; what
/// `deploy` leaves behind, such as sless.toml, is never touched.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Pull {
    /// The folder.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The function.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Remove files that are not on the server.
    #[arg(long)]
    delete: bool,
    /// Show the difference and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

/// How one file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    Added,
    Changed,
    OnlyHere,
}

/// Both sides.
#[derive(Debug)]
struct Sides {
    folder: PathBuf,
    theirs: SourceTree,
    /// None where the folder is not there or has no code.
    ours: Option<SourceTree>,
    differences: BTreeMap<String, Difference>,
}

pub(crate) async fn run(
    command: Command,
    globals: &Globals,
    output: &Output,
    interrupt: &mut Interrupt,
) -> Result<()> {
    let Command::Pull(args) = command;
    let session = Session::open(globals, output)?;
    let name = args.function()?;
    let sides = interrupt
        .cut(compare(&session, &name, &args.folder))
        .await?;
    let there = sides.differences.values();
    let count = there
        .filter(|one| args.delete || **one != Difference::OnlyHere)
        .count();
    if output.is_for_people() {
        sides.show(output, args.delete)?;
    } else {
        output.value(&sides.value())?;
    }
    if count == 0 {
        output.say(&format!(
            "{} is what is on the server",
            args.folder.display()
        ));
        return Ok(());
    }
    if args.dry_run {
        return Ok(());
    }
    let some = if count == 1 { "file" } else { "files" };
    interrupt
        .cut(output.confirm(
            args.yes,
            &format!("change {count} {some} in {}?", args.folder.display()),
        ))
        .await?;
    let delete = args.delete;
    // A file is the old one or the new one; all of them are brought to an end.
    let write = async { beside(move || sides.write(delete)).await };
    interrupt.whole(output, write).await?;
    output.say_painted(Paint::Good, &format!("{count} {some} changed"));
    Ok(())
}

impl Pull {
    fn function(&self) -> Result<String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let unnamed = |failure: Failure| failure.or_hint("name the function with --name");
        if self.folder.exists() {
            let folder = Folder::open(&self.folder)?;
            let named = folder.name();
            return named
                .map(|name| name.to_string())
                .map_err(|error| unnamed(error.into()));
        }
        let name = self.folder.file_name().and_then(|name| name.to_str());
        name.map(str::to_owned)
            .ok_or_else(|| unnamed(Failure::usage("the folder's name is no function's")))
    }
}

async fn compare(session: &Session, name: &str, folder: &Path) -> Result<Sides> {
    let Session { client, namespace } = session;
    let zip = client.source_zip(namespace, name).await;
    let mut zip = zip.map_err(|error| session.tell_missing(Failure::from(error), "list"))?;
    let failed = |error: std::io::Error| Failure::new(Exit::Failed, error.to_string());
    let limits = SourceLimits::default();
    let mut file = tempfile::tempfile().map_err(failed)?;
    let mut bytes = 0;
    while let Some(piece) = zip.next().await {
        let piece = piece?;
        bytes += piece.len() as u64;
        if bytes > limits.zip_bytes {
            let text = format!("limit source_zip_bytes of {} exceeded", limits.zip_bytes);
            return Err(Failure::new(Exit::Failed, text));
        }
        file.write_all(&piece).map_err(failed)?;
    }
    let folder = folder.to_owned();
    let compared = beside(move || {
        let theirs = SourceArchive::open(file, &limits)?;
        let ours = if folder.exists() {
            match read_tree(&folder.canonicalize().map_err(failed)?, &folder, &limits) {
                Ok(tree) => Some(tree),
                Err(error) if error.is_empty() => None,
                Err(error) => return Err(error.into()),
            }
        } else {
            None
        };
        let differences = differences(&theirs, ours.as_ref());
        Ok(Sides {
            folder,
            theirs,
            ours,
            differences,
        })
    });
    compared.await
}

fn differences(theirs: &SourceTree, ours: Option<&SourceTree>) -> BTreeMap<String, Difference> {
    let mut found = BTreeMap::new();
    let here = |path: &str| ours.and_then(|ours| ours.get(path));
    let same =
        |a: &SourceFile, b: &SourceFile| a.sha256 == b.sha256 && a.executable == b.executable;
    for file in theirs.files() {
        match here(&file.path) {
            None => found.insert(file.path.clone(), Difference::Added),
            Some(own) if !same(own, file) => found.insert(file.path.clone(), Difference::Changed),
            Some(_) => None,
        };
    }
    for file in ours.into_iter().flat_map(SourceTree::files) {
        if theirs.get(&file.path).is_none() {
            found.insert(file.path.clone(), Difference::OnlyHere);
        }
    }
    found
}

impl Sides {
    fn value(&self) -> serde_json::Value {
        let of = |wanted| {
            let files = self
                .differences
                .iter()
                .filter(move |(_, found)| **found == wanted);
            files.map(|(path, _)| path.as_str()).collect::<Vec<_>>()
        };
        serde_json::json!({
            "added": of(Difference::Added),
            "changed": of(Difference::Changed),
            "only_here": of(Difference::OnlyHere),
        })
    }

    /// The difference, from what is here to what is there.
    fn show(&self, output: &Output, delete: bool) -> Result<()> {
        for (path, found) in &self.differences {
            if *found == Difference::OnlyHere && !delete {
                output.say(&format!("only here, and kept: {path} (--delete removes)"));
                continue;
            }
            let old = self
                .ours
                .as_ref()
                .map(|ours| text(ours, path))
                .transpose()?
                .flatten();
            let new = text(&self.theirs, path)?;
            let is_text = |tree: Option<&SourceTree>, text: &Option<String>| {
                text.is_some() || tree.is_none_or(|tree| tree.get(path).is_none())
            };
            if is_text(self.ours.as_ref(), &old) && is_text(Some(&self.theirs), &new) {
                self.show_lines(output, path, old.as_deref(), new.as_deref())?;
            } else {
                let size = |tree: Option<&SourceTree>| {
                    let file = tree.and_then(|tree| tree.get(path));
                    file.map_or_else(|| "nothing".to_owned(), |file| shown::bytes(file.size))
                };
                let (old, new) = (size(self.ours.as_ref()), size(Some(&self.theirs)));
                output.line(&format!(
                    "{path}: not compared line by line, {old} becomes {new}"
                ))?;
            }
            self.show_mode(output, path)?;
        }
        Ok(())
    }

    fn show_lines(
        &self,
        output: &Output,
        path: &str,
        old: Option<&str>,
        new: Option<&str>,
    ) -> Result<()> {
        let header = |side: &str, text: Option<&str>| match text {
            Some(_) => format!("{side}/{path}"),
            None => "/dev/null".to_owned(),
        };
        let (from, to) = (header("here", old), header("server", new));
        let diff = TextDiff::from_lines(old.unwrap_or_default(), new.unwrap_or_default());
        let text = diff.unified_diff().header(&from, &to).to_string();
        for line in text.lines() {
            let paint = match line.as_bytes().first() {
                Some(b'+') => Paint::Good,
                Some(b'-') => Paint::Bad,
                Some(b'@') => Paint::Busy,
                _ => Paint::Plain,
            };
            output.line(&output.paint(paint, &shown::safe(line)))?;
        }
        Ok(())
    }

    fn show_mode(&self, output: &Output, path: &str) -> Result<()> {
        let executable = |tree: &SourceTree| tree.get(path).map(|file| file.executable);
        let (old, new) = (
            self.ours.as_ref().and_then(executable),
            executable(&self.theirs),
        );
        match (old, new) {
            (Some(true), Some(false)) => output.line(&format!("{path} is not executable any more")),
            (Some(false) | None, Some(true)) => output.line(&format!("{path} becomes executable")),
            _ => Ok(()),
        }
    }

    /// Writes what differs: each file beside its place, and renamed into it when it is whole.
    fn write(&self, delete: bool) -> Result<()> {
        for (path, found) in &self.differences {
            let target = self.folder.join(path);
            let unwritable = |error: std::io::Error| {
                Failure::new(
                    Exit::Failed,
                    format!("{} cannot be written: {error}", target.display()),
                )
            };
            if *found == Difference::OnlyHere {
                if delete {
                    fs::remove_file(&target).map_err(unwritable)?;
                }
                continue;
            }
            check_no_link(&self.folder, path)?;
            let parent = target.parent().unwrap_or(&self.folder);
            fs::create_dir_all(parent).map_err(unwritable)?;
            let mut file = tempfile::NamedTempFile::new_in(parent).map_err(unwritable)?;
            std::io::copy(&mut self.theirs.open(path)?, &mut file).map_err(unwritable)?;
            let executable = self.theirs.get(path).is_some_and(|file| file.executable);
            set_mode(file.as_file(), executable).map_err(unwritable)?;
            file.persist(&target)
                .map_err(|error| unwritable(error.error))?;
        }
        Ok(())
    }
}

/// The file as text, where it is text and not too large.
fn text(tree: &SourceTree, path: &str) -> Result<Option<String>> {
    match tree.get(path) {
        Some(file) if file.size <= DIFF_BYTES => Ok(String::from_utf8(tree.read(path)?.into())
            .ok()
            .filter(|text| !text.contains('\0'))),
        _ => Ok(None),
    }
}

/// A folder on the way to a file that is a link leads elsewhere: nothing is written there.
fn check_no_link(folder: &Path, path: &str) -> Result<()> {
    for (at, _) in path.match_indices('/') {
        let above = folder.join(&path[..at]);
        if above.is_symlink() {
            let text = format!(
                "{} is a link: {path} would be written elsewhere",
                above.display()
            );
            return Err(Failure::usage(text).hint("remove the link, or pull into another folder"));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn set_mode(file: &fs::File, executable: bool) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = if executable { 0o755 } else { 0o644 };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn set_mode(_: &fs::File, _: bool) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn files_are_told_apart_by_content_and_executable_bit() {
        let theirs = SourceTree::from_files([("a", "1"), ("b", "1"), ("c", "1")]).unwrap();
        let ours = SourceTree::from_files([("b", "2"), ("c", "1"), ("d", "1")]).unwrap();
        let found: Vec<_> = differences(&theirs, Some(&ours)).into_iter().collect();
        let expected = [
            ("a".to_owned(), Difference::Added),
            ("b".to_owned(), Difference::Changed),
            ("d".to_owned(), Difference::OnlyHere),
        ];
        assert_eq!(found, expected);
        assert_eq!(differences(&theirs, None).len(), 3);
        assert!(differences(&theirs, Some(&theirs)).is_empty());
    }
}
