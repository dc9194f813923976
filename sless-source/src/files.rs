//! Which files of a folder are a function's code.

use std::{
    collections::HashSet,
    io,
    path::{Path, PathBuf},
};

use ignore::WalkBuilder;
use sless_core::source::{SourceLimits, SourceTree, pack};

use crate::{error::FolderError, manifest::FILE};

/// The files that say what else is not part of the code, in the syntax of git. Where both speak of
/// a path, the latter wins.
pub const IGNORE_FILES: [&str; 2] = [".gitignore", ".slessignore"];

/// Whether a file or folder of this name can be part of a function's code at all. What begins with a
/// dot belongs to tools and may hold secrets; installed packages and compiled files are made anew
/// where the function runs.
pub fn is_taken(name: &str) -> bool {
    !name.starts_with('.') && name != "node_modules" && name != "__pycache__"
}

/// Reads the code below a folder: all that [`is_taken`] and that `.gitignore` and `.slessignore` do
/// not leave out, but for the manifest. `shown` is what errors call the folder.
///
/// An ignore file counts for its folder and below. In a git repository those of the folders above
/// count as well, as they do for git; what git is told elsewhere does not, since a folder has to be
/// the same function on every machine.
///
/// # Errors
/// [`FolderError::Source`] names the file and the rule or limit that it breaks.
pub fn read_tree(
    folder: &Path,
    shown: &Path,
    limits: &SourceLimits,
) -> Result<SourceTree, FolderError> {
    // One more than a source may hold is enough to be told so, whatever lies in the folder.
    let most = usize::try_from(limits.entries).unwrap_or(usize::MAX);
    let mut kept = HashSet::new();
    for entry in walk(folder, shown) {
        let (path, _) = entry?;
        if path != FILE {
            kept.insert(path);
        }
        if kept.len() > most {
            break;
        }
    }
    pack::read_dir(folder, limits, |path| kept.contains(path)).map_err(|source| {
        FolderError::Source {
            path: shown.to_owned(),
            source,
        }
    })
}

/// The folder and those below it that hold code.
#[cfg(feature = "watch")]
pub(crate) fn folders(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    // What fails went meanwhile, or is an ignore file half written: the look that follows says so.
    for (path, is_folder) in walk(root, root).flatten() {
        if is_folder {
            found.push(root.join(path));
        }
    }
    found
}

/// The paths below a folder that are taken, relative and with `/` between segments, and whether each
/// is a folder.
fn walk(folder: &Path, shown: &Path) -> impl Iterator<Item = Result<(String, bool), FolderError>> {
    let is_in_git = folder.ancestors().any(|above| above.join(".git").exists());
    let mut walk = WalkBuilder::new(folder);
    walk.standard_filters(false)
        .git_ignore(true)
        .require_git(is_in_git)
        .parents(is_in_git)
        .add_custom_ignore_filename(IGNORE_FILES[1])
        .filter_entry(|entry| entry.depth() == 0 || is_taken(&entry.file_name().to_string_lossy()));
    let (root, shown) = (folder.to_owned(), shown.to_owned());
    walk.build().filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Some(Err(failed(&shown, error))),
        };
        if let Some(error) = entry.error() {
            let (path, message) = (shown.clone(), error.to_string());
            return Some(Err(FolderError::Ignore { path, message }));
        }
        let path = relative(entry.path(), &root)?;
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        Some(Ok((path, is_folder)))
    })
}

fn relative(path: &Path, root: &Path) -> Option<String> {
    let path = path.strip_prefix(root).ok()?;
    let mut text = String::new();
    for part in path.components() {
        if !text.is_empty() {
            text.push('/');
        }
        text.push_str(&part.as_os_str().to_string_lossy());
    }
    (!text.is_empty()).then_some(text)
}

fn failed(shown: &Path, error: ignore::Error) -> FolderError {
    let message = error.to_string();
    let source = error
        .into_io_error()
        .unwrap_or_else(|| io::Error::other(message));
    FolderError::unreadable(PathBuf::from(shown), source)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, time::Instant};

    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn paths(folder: &Path) -> Vec<String> {
        let tree = read_tree(folder, folder, &SourceLimits::default()).unwrap();
        tree.files().iter().map(|file| file.path.clone()).collect()
    }

    #[test]
    fn what_belongs_to_tools_is_not_taken() {
        let root = folder(&[
            ("handler.py", "1"),
            ("lib/util.py", "2"),
            ("lib/.cache/x", "3"),
            (".git/HEAD", "4"),
            (".env", "5"),
            ("node_modules/a/index.js", "6"),
            ("lib/__pycache__/util.pyc", "7"),
            ("sless.toml", "8"),
            ("lib/sless.toml", "9"),
        ]);
        assert_eq!(
            paths(root.path()),
            ["handler.py", "lib/sless.toml", "lib/util.py"]
        );
    }

    #[test]
    fn ignore_files_leave_out_what_they_say_and_the_latter_wins() {
        let root = folder(&[
            (".gitignore", "*.log\n/dist/\nlib/secret.*\n"),
            (".slessignore", "!dist/\ntest/\n# a comment\n"),
            ("lib/.gitignore", "!kept.log\n"),
            ("handler.js", ""),
            ("a.log", ""),
            ("dist/bundle.js", ""),
            ("lib/kept.log", ""),
            ("lib/other.log", ""),
            ("lib/secret.txt", ""),
            ("test/handler.test.js", ""),
        ]);
        let kept = ["dist/bundle.js", "handler.js", "lib/kept.log"];
        assert_eq!(paths(root.path()), kept);
    }

    #[test]
    fn in_a_repository_what_it_ignores_above_counts_and_outside_nothing_does() {
        let files = [
            ("top/.gitignore", "*.md\n"),
            ("top/fn/handler.py", ""),
            ("top/fn/README.md", ""),
        ];
        let root = folder(&files);
        let function = root.path().join("top/fn");
        assert_eq!(paths(&function), ["README.md", "handler.py"]);
        fs::create_dir(root.path().join("top/.git")).unwrap();
        assert_eq!(paths(&function), ["handler.py"]);
        // What lies above the repository is not its own.
        fs::write(root.path().join(".gitignore"), "*.py\n").unwrap();
        assert_eq!(paths(&function), ["handler.py"]);
    }

    #[test]
    fn an_ignore_file_that_cannot_be_understood_takes_nothing() {
        let root = folder(&[("handler.py", ""), (".slessignore", "secret[z-a].txt\n")]);
        let error = read_tree(root.path(), Path::new("fn"), &SourceLimits::default());
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("fn: ") && error.contains(".slessignore"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_the_executable_bit_of_a_mode_counts() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = folder(&[("handler.py", ""), ("run.sh", "")]);
        let limits = SourceLimits::default();
        let digest = || {
            read_tree(root.path(), root.path(), &limits)
                .unwrap()
                .digest()
        };
        let set = |name: &str, mode| {
            fs::set_permissions(root.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        set("run.sh", 0o644);
        let before = digest();
        set("handler.py", 0o600);
        assert_eq!(digest(), before);
        set("run.sh", 0o700);
        assert_ne!(digest(), before);
    }

    #[test]
    fn a_link_that_is_not_ignored_is_refused_by_name() {
        let root = folder(&[("handler.py", "")]);
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("link")).unwrap();
        let error = read_tree(root.path(), root.path(), &SourceLimits::default());
        assert!(error.unwrap_err().to_string().contains("\"link\""));
        fs::write(root.path().join(".slessignore"), "link\n").unwrap();
        assert_eq!(paths(root.path()), ["handler.py"]);
    }

    #[test]
    fn ten_thousand_files_are_read_in_seconds_and_one_more_is_a_named_limit() {
        let root = folder(&[("handler.py", "")]);
        for group in 0..100 {
            let group = root.path().join(format!("g{group}"));
            fs::create_dir(&group).unwrap();
            for file in 0..98 {
                fs::write(group.join(format!("f{file}.txt")), b"x").unwrap();
            }
        }
        // Folders count as entries, as they do in a zip.
        for file in 0..99 {
            fs::write(root.path().join(format!("f{file}.txt")), b"x").unwrap();
        }
        let began = Instant::now();
        assert_eq!(paths(root.path()).len(), 9_900);
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
        fs::write(root.path().join("one-more.txt"), b"x").unwrap();
        let error = read_tree(root.path(), root.path(), &SourceLimits::default());
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("source_entries") && error.contains("10000"),
            "{error}"
        );
    }
}
