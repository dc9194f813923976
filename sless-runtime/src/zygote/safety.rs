//! Whether copies can be forked of a process that has imported a handler, as seen from outside.
//!
//! The process says itself what Python knows of (`worker/sless_worker_zygote.py`). What libraries hold
//! behind Python's back is seen in `/proc`, and by the host, since the process may be confined. What
//! cannot be seen counts as unsafe.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// A thread that was joined is gone from `/proc` a moment later. It is waited for so often, and so long
/// each time.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Devices without a state that copies could share.
const PLAIN_DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// `O_CLOEXEC` in `/proc/self/fdinfo`.
const CLOSED_ON_EXEC: u64 = 0o2_000_000;

/// Answers why no copy may be forked, if so. `known` are the descriptors that the process was given
/// beside its standard ones.
pub(super) async fn unsafe_to_fork(process: u32, known: &[String]) -> Option<String> {
    for look in 1.. {
        match threads(process) {
            Ok(1) => break,
            Ok(_) if look < LOOKS => tokio::time::sleep(PAUSE).await,
            Ok(count) => return Some(format!("{count} threads run after the import")),
            Err(error) => return Some(unseen(&error)),
        }
    }
    let seen = opened(process, known).and_then(|opened| match opened {
        Some(opened) => Ok(Some(format!("the import left {opened} open"))),
        None => shares_memory(process),
    });
    seen.unwrap_or_else(|error| Some(unseen(&error)))
}

fn unseen(error: &io::Error) -> String {
    format!("the process cannot be looked at in /proc: {error}")
}

fn threads(process: u32) -> io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{process}/task"))?.count())
}

/// What is open beyond what was given.
fn opened(process: u32, known: &[String]) -> io::Result<Option<String>> {
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        let entry = entry?;
        let number = entry.file_name().to_string_lossy().into_owned();
        if ["0", "1", "2"].contains(&&*number) || known.contains(&number) {
            continue;
        }
        let target = fs::read_link(entry.path())?;
        if is_inherited(&number, &target) {
            continue;
        }
        if !PLAIN_DEVICES
            .iter()
            .any(|device| target == Path::new(device))
        {
            let name = name(&target.to_string_lossy());
            return Ok(Some(format!("{name} (descriptor {number})")));
        }
    }
    Ok(None)
}

/// Whether the process got it from this one, which somebody has started with more than standard streams.
/// What is opened here is closed in what is started.
fn is_inherited(number: &str, target: &Path) -> bool {
    let ours = fs::read_link(format!("/proc/self/fd/{number}"));
    let about = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok());
    ours.is_ok_and(|ours| ours == target) && flags.is_some_and(|flags| flags & CLOSED_ON_EXEC == 0)
}

fn name(target: &str) -> String {
    match target.split_once(':') {
        Some(("socket", _)) => "a socket".to_owned(),
        Some(("pipe", _)) => "a pipe".to_owned(),
        Some(("anon_inode", "[eventpoll]")) => "an event loop".to_owned(),
        Some(("anon_inode", kind)) => kind.to_owned(),
        _ => target.to_owned(),
    }
}

/// Memory that is mapped shared and writable would be one for all copies.
fn shares_memory(process: u32) -> io::Result<Option<String>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let shared = maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let rights = fields.nth(1)?.as_bytes();
        let shared = rights.get(1) == Some(&b'w') && rights.get(3) == Some(&b's');
        shared.then(|| fields.nth(3).unwrap_or("without a name").to_owned())
    });
    Ok(shared.map(|name| format!("the import made shared memory ({name})")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_has_a_name() {
        assert_eq!(name("socket:[123]"), "a socket");
        assert_eq!(name("anon_inode:[eventpoll]"), "an event loop");
        assert_eq!(name("anon_inode:[timerfd]"), "[timerfd]");
        assert_eq!(name("/code/model: large.bin"), "/code/model: large.bin");
    }

    #[tokio::test]
    async fn a_process_that_is_not_there_is_unsafe() {
        let why = unsafe_to_fork(u32::MAX, &[]).await.unwrap();
        assert!(why.contains("/proc"), "{why}");
    }
}
