//! When a folder has changed.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::{sync::Notify, time::Instant};

use crate::files::{IGNORE_FILES, folders, is_taken};

/// How long nothing may change until a change counts as done: an editor that saves, or a checkout,
/// is many changes.
const QUIET: Duration = Duration::from_millis(80);

/// How long changes that go on are waited for.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// How often to look where the system does not tell.
const LOOK: Duration = Duration::from_secs(1);

/// Watches a folder and all below it that is part of a function's code.
///
/// What the system tells is a reason to look, no more; so nothing is lost where it tells too much, or
/// in another order.
#[derive(Debug)]
pub struct Watch {
    root: PathBuf,
    watcher: Option<RecommendedWatcher>,
    told: Arc<Told>,
}

/// What a watch tells. It outlives looks that are cut off.
#[derive(Debug, Default)]
pub struct Told {
    changed: Notify,
    /// Whether the system does not tell, so that somebody has to look.
    deaf: AtomicBool,
}

impl Watch {
    /// A watch that tells of a change at once: there has to be a first look.
    pub fn new(root: &Path) -> Self {
        let told = Arc::new(Told::default());
        told.changed.notify_one();
        let (telling, below) = (told.clone(), root.to_owned());
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_err() || event.is_ok_and(|event| matters(&event, &below)) {
                telling.changed.notify_one();
            }
        });
        if let Err(error) = &watcher {
            told.give_up(error);
        }
        Self {
            root: root.to_owned(),
            watcher: watcher.ok(),
            told,
        }
    }

    /// What it tells, to wait for.
    pub fn told(&self) -> Arc<Told> {
        self.told.clone()
    }

    /// Sees to it that changes from now on are told. To be called before each look, since folders may
    /// have come. It blocks.
    pub fn cover(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        // On Linux each folder costs a watch of its own, so those that do not matter get none.
        let covered = if cfg!(target_os = "linux") {
            let mut folders = folders(&self.root).into_iter();
            folders.try_for_each(|folder| watcher.watch(&folder, RecursiveMode::NonRecursive))
        } else {
            watcher.watch(&self.root, RecursiveMode::Recursive)
        };
        match covered {
            Ok(()) => {}
            // One that went meanwhile.
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => {}
            Err(error) => {
                self.told.give_up(&error);
                self.watcher = None;
            }
        }
    }
}

impl Told {
    /// Waits for a change, and until changes have ended; at most for this long, where it is given.
    pub async fn changed(&self, at_most: Option<Duration>) {
        let deaf = self.deaf.load(Ordering::Relaxed).then_some(LOOK);
        match at_most.or(deaf) {
            None => self.changed.notified().await,
            Some(limit) => {
                if tokio::time::timeout(limit, self.changed.notified())
                    .await
                    .is_err()
                {
                    return;
                }
            }
        }
        let latest = Instant::now() + QUIET_MAX;
        while Instant::now() < latest
            && tokio::time::timeout(QUIET, self.changed.notified())
                .await
                .is_ok()
        {}
    }

    fn give_up(&self, error: &notify::Error) {
        if !self.deaf.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "the system tells no changes of files: looking every second");
        }
        self.changed.notify_one();
    }
}

fn matters(event: &Event, root: &Path) -> bool {
    // Reading is no change; we do it ourselves.
    if matches!(event.kind, EventKind::Access(_)) {
        return false;
    }
    event.paths.is_empty() || event.paths.iter().any(|path| counts(path, root))
}

fn counts(path: &Path, root: &Path) -> bool {
    let Ok(path) = path.strip_prefix(root) else {
        return true;
    };
    // What is ignored may have changed.
    let ignores = |name: &str| IGNORE_FILES.contains(&name);
    let mut names = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    names.all(|name| is_taken(&name) || ignores(&name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    async fn is_told(told: &Told, within: Duration) -> bool {
        tokio::time::timeout(within, told.changed(None))
            .await
            .is_ok()
    }

    #[tokio::test]
    async fn changes_are_told_however_an_editor_saves() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("lib")).unwrap();
        fs::create_dir(root.join("node_modules")).unwrap();
        fs::write(root.join("handler.py"), "1").unwrap();
        let mut watch = Watch::new(&root);
        let told = watch.told();
        watch.cover();
        assert!(is_told(&told, SOON).await, "the first look");

        let write = |path: &str| fs::write(root.join(path), "2").unwrap();
        write("handler.py");
        assert!(is_told(&told, SOON).await, "written in place");
        write("lib/handler.new");
        fs::rename(root.join("lib/handler.new"), root.join("handler.py")).unwrap();
        assert!(is_told(&told, SOON).await, "written beside and renamed");
        fs::create_dir(root.join("new")).unwrap();
        assert!(is_told(&told, SOON).await, "a folder came");
        watch.cover();
        write("new/util.py");
        assert!(is_told(&told, SOON).await, "in a folder that came");
        fs::remove_file(root.join("handler.py")).unwrap();
        assert!(is_told(&told, SOON).await, "removed");
    }

    #[test]
    fn what_is_not_code_and_what_is_only_read_does_not_matter() {
        let root = Path::new("/f");
        let event = |kind, path: &str| matters(&Event::new(kind).add_path(path.into()), root);
        let modify = EventKind::Modify(notify::event::ModifyKind::Any);
        assert!(event(modify, "/f/handler.py") && event(modify, "/f"));
        assert!(event(EventKind::Any, "/f/sless.toml"));
        assert!(event(modify, "/f/.gitignore") && event(modify, "/f/lib/.slessignore"));
        assert!(!event(
            EventKind::Access(notify::event::AccessKind::Any),
            "/f/handler.py"
        ));
        for path in [
            "/f/.git/x",
            "/f/lib/.x.swp",
            "/f/node_modules/a/b.js",
            "/f/__pycache__/x",
        ] {
            assert!(!event(modify, path), "{path}");
        }
        assert!(matters(&Event::new(EventKind::Other), root), "lost events");
    }
}
