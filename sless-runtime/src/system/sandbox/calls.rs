//! The system calls of the sandbox, one thin function each. What is called in a child between fork and
//! exec neither allocates nor locks.
//!
//! They are made here since the standard library and rustix have no safe form of them. None touches
//! memory of this process but what is handed in.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::{null, null_mut};

use libc::{c_int, c_long, c_ulong};

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Leaves the namespaces of these `CLONE_NEW…` flags for new ones.
pub(super) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: it changes the kernel's notion of this thread only.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

/// Mounts.
pub(super) fn mount(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let text = |text: Option<&CStr>| text.map_or_else(null, CStr::as_ptr);
    let (source, kind, options) = (text(source), text(kind), text(options));
    // SAFETY: each pointer is null or a text with an end.
    let result = unsafe { libc::mount(source, target.as_ptr(), kind, flags, options.cast()) };
    check(result.into()).map(drop)
}

/// The kernel's `struct mount_attr`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    namespace: u64,
}

/// Sets `MOUNT_ATTR_…` on a mount and all below it.
pub(super) fn restrict_mount(target: &CStr, set: u64) -> io::Result<()> {
    const AT_RECURSIVE: c_int = 0x8000;
    let attributes = MountAttributes {
        set,
        clear: 0,
        propagation: 0,
        namespace: 0,
    };
    // SAFETY: the text has an end, and the structure has the size that is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    check(result).map(drop)
}

/// Makes one folder the root, and puts the former root into another.
pub(super) fn pivot_root(new: &CStr, old: &CStr) -> io::Result<()> {
    // SAFETY: both texts have an end.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()) }).map(drop)
}

/// Takes a mount out of the tree, whoever uses it.
pub(super) fn detach(target: &CStr) -> io::Result<()> {
    // SAFETY: the text has an end.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }.into()).map(drop)
}

/// Makes a folder; it may be there.
pub(super) fn make_folder(path: &CStr) -> io::Result<()> {
    // SAFETY: the text has an end.
    match check(unsafe { libc::mkdir(path.as_ptr(), 0o755) }.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other.map(drop),
    }
}

/// Removes an empty folder.
pub(super) fn remove_folder(path: &CStr) -> io::Result<()> {
    // SAFETY: the text has an end.
    check(unsafe { libc::rmdir(path.as_ptr()) }.into()).map(drop)
}

/// Changes the working folder.
pub(super) fn change_folder(path: &CStr) -> io::Result<()> {
    // SAFETY: the text has an end.
    check(unsafe { libc::chdir(path.as_ptr()) }.into()).map(drop)
}

/// Makes a link; it may be there.
pub(super) fn link(to: &CStr, at: &CStr) -> io::Result<()> {
    // SAFETY: both texts have an end.
    match check(unsafe { libc::symlink(to.as_ptr(), at.as_ptr()) }.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        other => other.map(drop),
    }
}

/// Opens a file; it is made where `flags` say so.
pub(super) fn open(path: &CStr, flags: c_int) -> io::Result<OwnedFd> {
    // SAFETY: the text has an end, and the mode is given where a file may be made.
    let number =
        check(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o644) }.into())?;
    // SAFETY: it was just opened, and nobody else knows its number. It fits, since the kernel gave it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as c_int) })
}

/// Writes a few bytes, whole.
pub(super) fn write(file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one slice.
    let result = unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    if check(result as c_long)? as usize == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// The version of Landlock that the kernel has.
pub(super) fn landlock_version() -> io::Result<u32> {
    const VERSION: c_int = 1;
    let none = null::<u8>();
    // SAFETY: without attributes it only answers a number.
    let result = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, VERSION) };
    check(result).map(|version| u32::try_from(version).unwrap_or(0))
}

/// The kernel's `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// Allows something below a path, in a ruleset of Landlock.
pub(super) fn allow_below(ruleset: BorrowedFd<'_>, path: &CStr, allowed: u64) -> io::Result<()> {
    const PATH_BENEATH: c_int = 1;
    let parent = open(path, libc::O_PATH)?;
    let rule = PathBeneath {
        allowed,
        parent: parent.as_raw_fd(),
    };
    let ruleset = ruleset.as_raw_fd();
    // SAFETY: the rule has the form that its kind tells.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset,
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    };
    check(result).map(drop)
}

/// Puts this thread under a ruleset of Landlock, for good.
pub(super) fn restrict_self(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it changes the kernel's notion of this thread only.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })
        .map(drop)
}

/// No program gives this thread rights that it has not, for good.
pub(super) fn no_new_privileges() -> io::Result<()> {
    // SAFETY: it changes the kernel's notion of this thread only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// The kernel's `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: c_int,
}

/// Gives up all capabilities, also those that root gets by starting a program.
pub(super) fn drop_capabilities() -> io::Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    /// More than there are.
    const NUMBERS: c_ulong = 64;
    for number in 0..NUMBERS {
        // It fails for numbers that are none, and for who may not: then there is none to give up.
        // SAFETY: it changes the kernel's notion of this thread only.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
    let clear = c_ulong::try_from(libc::PR_CAP_AMBIENT_CLEAR_ALL).unwrap_or(4);
    // SAFETY: as above.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, clear, 0, 0, 0) };
    let header = CapabilityHeader {
        version: VERSION_3,
        pid: 0,
    };
    // Two times effective, permitted and inheritable.
    let none = [0_u32; 6];
    // SAFETY: the header names the version whose data has this size.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(drop)
}

/// Gives a thread of any process a policy of the scheduler that knows no priority (sched(7)).
pub(super) fn set_policy(thread: c_int, policy: c_int) -> io::Result<()> {
    // The kernel's `struct sched_param`. By number, since musl's function refuses.
    let priority: c_int = 0;
    let call = libc::SYS_sched_setscheduler;
    // SAFETY: the pointer is to the one number that the kernel reads.
    check(unsafe { libc::syscall(call, thread, policy, &raw const priority) }).map(drop)
}

/// Runs something in a child of its own, and waits for its end.
///
/// `work` must neither allocate nor lock. The child ends without running anything else.
pub(super) fn in_child(work: impl FnOnce()) -> io::Result<()> {
    // SAFETY: what runs in the child is as careful as between fork and exec.
    let child = check(unsafe { libc::fork() }.into())?;
    if child == 0 {
        work();
        // SAFETY: it ends the child at once.
        unsafe { libc::_exit(0) };
    }
    loop {
        // SAFETY: no status is asked for.
        let ended = check(unsafe { libc::waitpid(child as c_int, null_mut(), 0) }.into());
        match ended {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(drop),
        }
    }
}
