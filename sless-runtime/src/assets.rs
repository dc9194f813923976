//! The workers' own programs: inside this crate, and unpacked where an interpreter can read them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::{HostConfig, Language};
use crate::system;

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("../worker/", $name)))),*] };
}

const FILES: [(&str, &str); 12] = files![
    "sless_worker.py",
    "sless_worker_answer.py",
    "sless_worker_async.py",
    "sless_worker_call.py",
    "sless_worker_log.py",
    "sless_worker_zygote.py",
    "worker.js",
    "worker_answer.js",
    "worker_call.js",
    "worker_frames.js",
    "worker_log.js",
    "worker_slot.js",
];

/// Unpacks the files below `base` and gives their folder.
///
/// The folder is named by the files' content, so several versions can share a base. Python keeps
/// compiled copies beside them, which makes every start but the first one quick.
pub(crate) fn unpack(base: Option<&Path>) -> io::Result<PathBuf> {
    let base = match base {
        Some(base) => base.to_owned(),
        None => std::env::temp_dir().join(format!("sless-runtime-{}", system::user())),
    };
    let folder = base.join(format!("{:016x}", digest()));
    system::make_private(&base, &folder)?;
    for (name, content) in FILES {
        let file = folder.join(name);
        if fs::read(&file).is_ok_and(|found| found == content.as_bytes()) {
            continue;
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let part = folder.join(format!(".{name}.{}.{number}", std::process::id()));
        fs::write(&part, content)?;
        fs::rename(&part, &file)?;
    }
    Ok(folder)
}

/// Compiles the worker's program once for this interpreter, since a confined worker cannot. Where that
/// fails, each start compiles it in memory.
pub(crate) async fn compile(folder: &Path, config: &HostConfig) {
    if config.language != Language::Python {
        return;
    }
    let interpreter = config.interpreter();
    let name = interpreter.as_os_str().as_encoded_bytes();
    let marker = folder.join(format!(".compiled-{:016x}", fnv(name.iter().copied())));
    if marker.exists() {
        return;
    }
    let mut command = tokio::process::Command::new(interpreter);
    command
        .args(["-s", "-S", "-P", "-m", "compileall", "-q"])
        .arg(folder)
        .env_clear()
        .env("PATH", &config.path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let compiled = tokio::time::timeout(config.start_timeout, command.status()).await;
    if compiled.is_ok_and(|status| status.is_ok_and(|status| status.success())) {
        // Where it is not remembered it is done again.
        let _ = fs::write(marker, "");
    }
}

/// FNV-1a over all files: tells versions apart, guards against nothing.
fn digest() -> u64 {
    let bytes = FILES
        .iter()
        .flat_map(|(name, content)| name.bytes().chain(content.bytes()));
    fnv(bytes)
}

fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_mended() {
        let base = tempfile::tempdir().unwrap();
        let folder = unpack(Some(base.path())).unwrap();
        let (name, content) = FILES[0];
        fs::write(folder.join(name), "broken").unwrap();
        assert_eq!(unpack(Some(base.path())).unwrap(), folder);
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), content);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let error = unpack(Some(base.path())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
