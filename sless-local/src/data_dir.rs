//! The data folder: who owns it, which format it has, and where things are in it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use sless_core::Result;

use crate::{error::Fault, points, process::is_gone};

/// What the file `format` says. The number grows when an older version could not read the folder;
/// the SQLite files have schema versions of their own.
pub(crate) const FORMAT: &str = "sless-local 1\n";

/// How long a lock is waited for whose owner is dead: a child that it was about to start has a copy of it,
/// until the child's own program runs or it sees that nobody is there any more.
const LEFT_WAIT: Duration = Duration::from_secs(10);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(10);

/// A data folder, owned by this process.
///
/// | path | holds |
/// |---|---|
/// | `format` | `sless-local 1`: the version of this layout |
/// | `lock` | locked while a process owns the folder; holds its process id |
/// | `db/catalog.db` | objects, namespaces, recent changes, fencing tokens |
/// | `db/queue.db` | queues, their messages and dead letters |
/// | `db/invocations.db` | the invocation log |
/// | `db/work.db` | ended builds, applied workloads, runs of jobs |
/// | `storage/` | stored objects, one file each |
/// | `artifacts/` | built functions, one folder each, by digest |
/// | `work/` | builds under way; emptied at each start |
/// | `home/` | the `HOME` and `TMPDIR` of each function |
/// | `logs/` | of builds, functions and jobs |
/// | `cache/` | what pip and npm have fetched; may be removed |
/// | `runtime/` | the program that runs inside the workers |
///
/// `db` and `storage` are readable by the owner only: they hold the functions' environments and
/// sources. The SQLite files are three because each has one writer at a time and they differ in what
/// a power cut may take: nothing that was acknowledged from the catalog and from what was published,
/// the last moments of the invocation log.
///
/// Clones share the ownership, which ends with the last of them and with the process, however that
/// ends. The lock is the operating system's (`flock` on Unix), so no stale one is left behind.
#[derive(Clone, Debug)]
pub struct DataDir(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    root: PathBuf,
    lock: File,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // A child that is being started at this moment has a copy of the file, and closing ours would leave it
        // locked until the child's own program runs.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(folder = %self.root.display(), %error, "the data folder is not unlocked yet");
        }
    }
}

impl DataDir {
    /// Takes the folder, making it if it is not there. Touches the file system, and waits for some seconds
    /// where only what a dead process was starting holds it.
    ///
    /// # Errors
    /// `Unavailable`, reason `data_dir_in_use`, naming the process that owns it; `Unsupported`,
    /// reason `format_unknown`, if another version of sless wrote it.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self> {
        Ok(open(root.into())?)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0.root
    }

    /// Where stored objects are.
    pub(crate) fn storage(&self) -> PathBuf {
        self.0.root.join("storage")
    }

    /// Where built functions are.
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.0.root.join("artifacts")
    }

    /// Where builds under way are.
    pub(crate) fn work(&self) -> PathBuf {
        self.0.root.join("work")
    }

    /// Where functions keep their own files.
    pub(crate) fn homes(&self) -> PathBuf {
        self.0.root.join("home")
    }

    /// Where logs are.
    pub(crate) fn logs(&self) -> PathBuf {
        self.0.root.join("logs")
    }

    /// Where installers keep what they have fetched.
    pub(crate) fn cache(&self) -> PathBuf {
        self.0.root.join("cache")
    }

    /// Where the workers' own program is.
    pub(crate) fn runtime(&self) -> PathBuf {
        self.0.root.join("runtime")
    }

    /// Makes the folders of builder and scheduler.
    pub(crate) fn make_folders(&self) -> Result<()> {
        for folder in [
            self.artifacts(),
            self.work(),
            self.homes(),
            self.logs(),
            self.cache(),
            self.runtime(),
        ] {
            make_private(&folder)?;
        }
        Ok(())
    }

    /// A SQLite file.
    pub(crate) fn database(&self, name: &str) -> Arc<Path> {
        self.0.root.join("db").join(name).into()
    }
}

fn open(root: PathBuf) -> Result<DataDir, Fault> {
    fs::create_dir_all(&root).map_err(Fault::io("making the folder", &root))?;
    let lock = lock(&root)?;
    check_format(&root)?;
    for private in ["db", "storage"] {
        make_private(&root.join(private))?;
    }
    sync_folder(&root)?;
    Ok(DataDir(Arc::new(Owned { root, lock })))
}

fn lock(root: &Path) -> Result<File, Fault> {
    let path = root.join("lock");
    let opening = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let mut file = opening.map_err(Fault::io("opening", &path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(Fault::io("locking", &path)(error)),
        }
        // Some systems do not let others read a locked file; then the owner has no number.
        let mut owner = String::new();
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_string(&mut owner));
        let number = read.ok().and_then(|_| owner.trim().parse().ok());
        if number.is_none_or(|number| !is_gone(number)) || began.elapsed() >= LEFT_WAIT {
            let owner = number.map_or_else(
                || "another process".to_owned(),
                |number: u32| format!("the process {number}"),
            );
            return Err(Fault::InUse {
                path: root.into(),
                owner,
            });
        }
        std::thread::sleep(LOOK);
    }
    let written = file
        .set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| writeln!(file, "{}", std::process::id()));
    written.map_err(Fault::io("writing", &path))?;
    Ok(file)
}

fn check_format(root: &Path) -> Result<(), Fault> {
    let path = root.join("format");
    match fs::read(&path) {
        Ok(found) if found == FORMAT.as_bytes() => Ok(()),
        Ok(found) => {
            let found = String::from_utf8_lossy(&found).chars().take(80).collect();
            Err(Fault::Format {
                path: path.into(),
                found,
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_whole(&path, FORMAT),
        Err(error) => Err(Fault::io("reading", &path)(error)),
    }
}

/// Writes a small file whole or not at all.
fn write_whole(path: &Path, text: &str) -> Result<(), Fault> {
    let new = path.with_extension("new");
    let written = File::create(&new)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| {
            points::FORMAT_BEFORE.pass();
            fs::rename(&new, path)?;
            points::FORMAT_AFTER.pass();
            Ok(())
        });
    written.map_err(Fault::io("writing", path))
}

fn make_private(path: &Path) -> Result<(), Fault> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(path)
        .map_err(Fault::io("making the folder", path))
}

/// Makes new entries of a folder durable. Only Unix opens folders.
pub(crate) fn sync_folder(path: &Path) -> Result<(), Fault> {
    if cfg!(unix) {
        let synced = File::open(path).and_then(|folder| folder.sync_all());
        synced.map_err(Fault::io("syncing", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sless_core::ErrorKind;

    use super::*;

    #[test]
    fn a_second_owner_is_refused_by_name_and_the_lock_ends_with_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = DataDir::open(folder.path()).expect("free");
        let clone = first.clone();
        drop(first);
        let error = DataDir::open(folder.path()).expect_err("owned by the clone");
        assert_eq!(error.reason(), "data_dir_in_use");
        assert!(
            error.message().contains(&std::process::id().to_string()),
            "{error}"
        );
        drop(clone);
        DataDir::open(folder.path()).expect("free again");
    }

    #[test]
    fn what_this_process_is_starting_does_not_keep_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = DataDir::open(folder.path()).expect("free");
        // Stands for the child's copy.
        let _copy = first.0.lock.try_clone().expect("a copy");
        drop(first);
        DataDir::open(folder.path()).expect("free again");
    }

    #[test]
    fn what_a_dead_owner_was_starting_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut dead = std::process::Command::new("true").spawn().expect("it runs");
        dead.wait().expect("it ends");
        let path = folder.path().join("lock");
        fs::write(&path, format!("{}\n", dead.id())).expect("written");
        // Stands for the child's copy.
        let held = File::open(&path).expect("there");
        held.lock().expect("free");
        let opening = std::thread::spawn(move || DataDir::open(folder.path()).map(|_| folder));
        std::thread::sleep(20 * LOOK);
        assert!(!opening.is_finished(), "it is held");
        drop(held);
        opening.join().expect("no panic").expect("free by now");
    }

    #[test]
    fn another_format_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("format"), "sless-local 2\n").expect("written");
        let error = DataDir::open(folder.path()).expect_err("from the future");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("sless-local 2"), "{error}");
        assert!(!folder.path().join("db").exists());
    }
}
