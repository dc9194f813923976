//! A user namespace, and in it a root folder that holds nothing but the places of a process.
//!
//! There is no namespace of process numbers: who starts a worker must be able to name its processes, and
//! the first process of such a namespace would have to be one that does nothing but reap.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use libc::{MS_BIND, MS_NODEV, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT, c_ulong};

use super::calls;
use super::places::{Access, MACHINE, Place, text};
use super::trace::{Stage, Trace};

/// Folders in memory that a process has for itself.
pub(super) const SCRATCH: [&str; 2] = ["/tmp", "/dev/shm"];

/// Where the former root is while places are taken from it.
const FORMER: &CStr = c"/.former";
/// A folder that is everywhere, to mount the new root on; it is used before anything is taken.
const BASE: &CStr = c"/proc";

const READ_ONLY: u64 = 0x1;
const NO_SET_USER_ID: u64 = 0x2;
const NO_DEVICES: u64 = 0x4;

/// Made before the fork, entered after it.
#[derive(Debug)]
pub(super) struct Plan {
    user: CString,
    group: CString,
    steps: Vec<Step>,
    folder: CString,
}

#[derive(Debug)]
enum Step {
    Folder(CString),
    File(CString),
    Bind {
        from: CString,
        to: CString,
        restrict: u64,
    },
    Scratch {
        to: CString,
        options: CString,
    },
    Link {
        to: &'static CStr,
        at: &'static CStr,
    },
}

/// What programs expect in `/dev`.
const LINKS: [(&CStr, &CStr); 4] = [
    (c"/proc/self/fd", c"/dev/fd"),
    (c"/proc/self/fd/0", c"/dev/stdin"),
    (c"/proc/self/fd/1", c"/dev/stdout"),
    (c"/proc/self/fd/2", c"/dev/stderr"),
];

impl Plan {
    /// `folder` is the working folder. `scratch` is in bytes.
    pub(super) fn new(places: &[Place], folder: &Path, scratch: u64, whole_proc: bool) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let mut steps = Steps::default();
        // Later than what is above it, and before what is below it.
        let mut at: Vec<(PathBuf, Option<&Place>)> = places
            .iter()
            .filter(|place| {
                !whole_proc || !MACHINE.iter().any(|path| place.target == Path::new(path))
            })
            .map(|place| (place.target.clone(), Some(place)))
            .collect();
        for scratch in SCRATCH.map(PathBuf::from) {
            if !at.iter().any(|(target, _)| *target == scratch) {
                at.push((scratch, None));
            }
        }
        at.sort_by_key(|(target, _)| target.components().count());
        if whole_proc {
            steps.folder(Path::new("/proc"));
            steps.bind(Path::new("/proc"), Path::new("/proc"), Access::Read);
        }
        for (target, place) in at {
            match place {
                Some(place) if place.source.is_dir() => {
                    steps.folder(&target);
                    steps.bind(&place.source, &target, place.access);
                }
                Some(place) => {
                    steps.parents(&target);
                    steps.all.push(Step::File(text(&target)));
                    steps.bind(&place.source, &target, place.access);
                }
                None => {
                    steps.folder(&target);
                    let options = format!("mode=1777,size={scratch},nr_inodes=16384");
                    steps.all.push(Step::Scratch {
                        to: text(&target),
                        options: text(options),
                    });
                }
            }
        }
        if whole_proc {
            steps.folder(Path::new("/dev"));
            let links = LINKS.map(|(to, at)| Step::Link { to, at });
            steps.all.extend(links);
        }
        Self {
            user: text(format!("{user} {user} 1\n")),
            group: text(format!("{group} {group} 1\n")),
            steps: steps.all,
            folder: text(folder),
        }
    }

    /// Enters, in a process with a single thread.
    pub(super) fn enter(&self, trace: &Trace) -> io::Result<()> {
        let at = |stage| move |error| trace.failed(stage, error);
        calls::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(at(Stage::Namespaces))?;
        self.keep_identity().map_err(at(Stage::Identity))?;
        self.mount().map_err(at(Stage::Mounts))?;
        self.close().map_err(at(Stage::Root))
    }

    /// The user and the group are who they were.
    fn keep_identity(&self) -> io::Result<()> {
        let write = |path, bytes| calls::write(calls::open(path, libc::O_WRONLY)?.as_fd(), bytes);
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", self.user.to_bytes())?;
        write(c"/proc/self/gid_map", self.group.to_bytes())
    }

    fn mount(&self) -> io::Result<()> {
        calls::mount(None, c"/", None, MS_REC | MS_PRIVATE, None)?;
        let plain = MS_NOSUID | MS_NODEV;
        calls::mount(
            Some(c"tmpfs"),
            BASE,
            Some(c"tmpfs"),
            plain,
            Some(c"mode=755,size=1m"),
        )?;
        calls::change_folder(BASE)?;
        calls::make_folder(c".former")?;
        calls::pivot_root(c".", c".former")?;
        calls::change_folder(c"/")?;
        for step in &self.steps {
            step.take()?;
        }
        Ok(())
    }

    /// Nothing is left of the former root.
    fn close(&self) -> io::Result<()> {
        calls::detach(FORMER)?;
        calls::remove_folder(FORMER)?;
        let read_only: c_ulong = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
        calls::mount(None, c"/", None, read_only, None)?;
        calls::change_folder(&self.folder)
    }
}

impl Step {
    fn take(&self) -> io::Result<()> {
        match self {
            Step::Folder(path) => calls::make_folder(path),
            Step::File(path) => calls::open(path, libc::O_CREAT).map(drop),
            Step::Bind { from, to, restrict } => {
                calls::mount(Some(from), to, None, MS_BIND | MS_REC, None)?;
                calls::restrict_mount(to, *restrict)
            }
            Step::Link { to, at } => calls::link(to, at),
            Step::Scratch { to, options } => {
                let plain = MS_NOSUID | MS_NODEV;
                calls::mount(Some(c"tmpfs"), to, Some(c"tmpfs"), plain, Some(options))
            }
        }
    }
}

#[derive(Default)]
struct Steps {
    all: Vec<Step>,
    made: BTreeSet<PathBuf>,
}

impl Steps {
    fn parents(&mut self, target: &Path) {
        if let Some(parent) = target.parent() {
            self.folder(parent);
        }
    }

    fn folder(&mut self, target: &Path) {
        if target.parent().is_none() || self.made.contains(target) {
            return;
        }
        self.parents(target);
        self.made.insert(target.to_owned());
        self.all.push(Step::Folder(text(target)));
    }

    fn bind(&mut self, source: &Path, target: &Path, access: Access) {
        let mut from = PathBuf::from("/.former");
        from.push(source.strip_prefix("/").unwrap_or(source));
        self.all.push(Step::Bind {
            from: text(from),
            to: text(target),
            restrict: match access {
                Access::Read => READ_ONLY | NO_SET_USER_ID | NO_DEVICES,
                Access::Write => NO_SET_USER_ID | NO_DEVICES,
                Access::Device => NO_SET_USER_ID,
            },
        });
    }
}
