//! Built artifacts: folders by digest, and who uses them.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sless_core::{Artifact, ArtifactKind, Digest, Result};

use crate::{error::Fault, points};

/// The folder of artifacts. Clones share what is known of them.
///
/// An artifact is removed once no build refers to it and nothing runs from it. Builder and scheduler
/// share this, so that a version that is being replaced keeps its files until it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Artifacts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Builds that refer to an artifact.
    builds: HashMap<Digest, usize>,
    /// Processes that run from it.
    runs: HashMap<Digest, usize>,
    unused: HashSet<Digest>,
}

/// Keeps an artifact's files while something runs from them.
#[derive(Debug)]
pub(crate) struct Pin {
    artifacts: Artifacts,
    digest: Digest,
}

impl Artifacts {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self(Arc::new(Inner {
            folder,
            state: Mutex::default(),
        }))
    }

    /// The artifact with this digest, whether it is there or not.
    pub(crate) fn named(&self, digest: Digest) -> Artifact {
        Artifact {
            kind: ArtifactKind::Folder,
            reference: digest.hex(),
            digest,
        }
    }

    /// Where an artifact's files are.
    pub(crate) fn path(&self, digest: &Digest) -> PathBuf {
        self.0.folder.join(digest.hex())
    }

    pub(crate) fn is_there(&self, digest: &Digest) -> bool {
        self.path(digest).is_dir()
    }

    /// Takes note of a build that made, or found, this artifact.
    pub(crate) fn refer(&self, digest: Digest) {
        let mut state = self.state();
        *state.builds.entry(digest).or_default() += 1;
        state.unused.remove(&digest);
    }

    /// Takes note that a build is forgotten.
    pub(crate) fn release(&self, digest: Digest) {
        let mut state = self.state();
        if take(&mut state.builds, &digest) {
            state.unused.insert(digest);
        }
    }

    /// Keeps the files until the pin is dropped.
    pub(crate) fn pin(&self, digest: Digest) -> Pin {
        *self.state().runs.entry(digest).or_default() += 1;
        Pin {
            artifacts: self.clone(),
            digest,
        }
    }

    /// Removes what nobody uses any more, and answers which. It blocks.
    pub(crate) fn sweep(&self) -> Result<Vec<Digest>> {
        let unused: Vec<Digest> = {
            let mut state = self.state();
            let State {
                builds,
                runs,
                unused,
            } = &mut *state;
            let free = |digest: &Digest| !builds.contains_key(digest) && !runs.contains_key(digest);
            let free: Vec<Digest> = unused
                .iter()
                .filter(|digest| free(digest))
                .copied()
                .collect();
            for digest in &free {
                unused.remove(digest);
                points::TRASH_BEFORE.pass();
                // Renamed under the lock: whoever builds the same again finds nothing half removed.
                let _ = fs::rename(self.path(digest), self.trash(digest));
            }
            free
        };
        for digest in &unused {
            points::TRASH_BETWEEN.pass();
            remove_folder(&self.trash(digest))?;
            points::TRASH_AFTER.pass();
        }
        Ok(unused)
    }

    /// Removes the folders that no build refers to: what a crash left. Called once, after every build
    /// has been referred to.
    pub(crate) fn sweep_leftovers(&self) -> Result<usize> {
        let folder = &self.0.folder;
        let entries = fs::read_dir(folder).map_err(Fault::io("reading", folder))?;
        let known: HashSet<String> = self.state().builds.keys().map(Digest::hex).collect();
        let mut removed = 0;
        for entry in entries {
            let path = entry.map_err(Fault::io("reading", folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !known.contains(&*name) {
                remove_folder(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn trash(&self, digest: &Digest) -> PathBuf {
        self.0.folder.join(format!("{}.trash", digest.hex()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one user less; answers whether it was the last.
fn take(users: &mut HashMap<Digest, usize>, digest: &Digest) -> bool {
    let Some(count) = users.get_mut(digest) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        users.remove(digest);
        return true;
    }
    false
}

impl Drop for Pin {
    fn drop(&mut self) {
        take(&mut self.artifacts.state().runs, &self.digest);
    }
}

/// Removes a folder and all in it. One that is not there is fine.
pub(crate) fn remove_folder(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Fault::io("removing", path)(error).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_while_a_build_refers_to_them_or_something_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let artifacts = Artifacts::new(folder.path().to_owned());
        let digest = Digest::of("code");
        let make = || fs::create_dir(artifacts.path(&digest)).expect("made");
        make();
        artifacts.refer(digest);
        artifacts.refer(digest);
        artifacts.release(digest);
        assert!(
            artifacts.sweep().expect("swept").is_empty(),
            "another build refers to it"
        );
        let pin = artifacts.pin(digest);
        artifacts.release(digest);
        assert!(
            artifacts.sweep().expect("swept").is_empty(),
            "something runs"
        );
        drop(pin);
        assert_eq!(artifacts.sweep().expect("swept"), [digest]);
        assert!(!artifacts.is_there(&digest));
        make();
        assert!(
            artifacts.sweep().expect("swept").is_empty(),
            "nobody let go of it"
        );
        assert_eq!(artifacts.sweep_leftovers().expect("swept"), 1);
    }
}
