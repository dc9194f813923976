//! The filter of system calls.
//!
//! It forbids what reaches other processes of the same user or far into the kernel, and allows the rest: a
//! handler may be any program. Whatever is forbidden answers with an error as if the user had no right to
//! it, or as an older kernel would, so that libraries go another way.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

/// The programs, to be installed in their order.
#[derive(Debug)]
pub(super) struct Filter(Vec<BpfProgram>);

/// What else keeps a process apart, and so need not be forbidden.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    /// No Unix socket of others can be named: neither by a path nor in the abstract.
    pub(super) sockets: bool,
    /// The memory of all processes together is bounded.
    pub(super) memory: bool,
}

// Numbers that all architectures share, and that not every libc names.
const OPEN_TREE: i64 = 428;
const MOVE_MOUNT: i64 = 429;
const FSOPEN: i64 = 430;
const FSCONFIG: i64 = 431;
const FSMOUNT: i64 = 432;
const FSPICK: i64 = 433;
const CLONE3: i64 = 435;
const PIDFD_GETFD: i64 = 438;
const PROCESS_MADVISE: i64 = 440;
const MOUNT_SETATTR: i64 = 442;
const QUOTACTL_FD: i64 = 443;
const MEMFD_SECRET: i64 = 447;
const PROCESS_MRELEASE: i64 = 448;
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
/// The last system call that was looked at for this filter (`removexattrat`, Linux 6.13). Later ones do
/// not exist for who is confined, and neither do those of the x32 ABI, whose numbers are far above.
const LAST_KNOWN: u32 = 466;

/// Forbidden in any form.
const FORBIDDEN: &[i64] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    PIDFD_GETFD,
    PROCESS_MADVISE,
    PROCESS_MRELEASE,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    OPEN_TREE,
    MOVE_MOUNT,
    FSOPEN,
    FSCONFIG,
    FSMOUNT,
    FSPICK,
    MOUNT_SETATTR,
    QUOTACTL_FD,
    STATMOUNT,
    LISTMOUNT,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    // What is shared by the processes of a user beyond files.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
];

/// Not there, as on an older kernel: programs then use what they used before.
const ABSENT: &[i64] = &[
    // Its flags are in memory, where no filter sees them.
    CLONE3,
    // It makes system calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    MEMFD_SECRET,
];

const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
const CLONE_NEWTIME: u64 = 0x80;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Made<T> = Result<T, seccompiler::BackendError>;

/// One argument, as the 32 bits that the kernel looks at.
fn is(argument: u8, operator: SeccompCmpOp, value: u64) -> Made<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// A number that C sees as signed, as it is compared.
fn bits(value: i32) -> u64 {
    u64::from(value as u32)
}

/// System calls that are forbidden with some arguments only.
fn conditional(apart: Apart) -> Made<Rules> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules = Rules::new();
    let mut forbid = |call: i64, conditions: Vec<Made<SeccompCondition>>| -> Made<()> {
        let conditions = conditions.into_iter().collect::<Made<Vec<_>>>()?;
        rules
            .entry(call)
            .or_default()
            .push(SeccompRule::new(conditions)?);
        Ok(())
    };
    for flag in NAMESPACES.map(bits) {
        forbid(libc::SYS_unshare, vec![is(0, MaskedEq(flag), flag)])?;
        forbid(libc::SYS_clone, vec![is(0, MaskedEq(flag), flag)])?;
    }
    let time = CLONE_NEWTIME;
    forbid(libc::SYS_unshare, vec![is(0, MaskedEq(time), time)])?;

    // Sockets of these families only, none of them raw; of netlink what lists the network's interfaces.
    const KIND: u64 = 0xf;
    // What Linux 2.0 had for packets, which still works.
    const SOCK_PACKET: u64 = 10;
    let raw = bits(libc::SOCK_RAW);
    let mut families = vec![libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    if apart.sockets {
        families.push(libc::AF_UNIX);
    } else {
        // A pair of datagrams can send elsewhere.
        let (unix, datagram) = (bits(libc::AF_UNIX), bits(libc::SOCK_DGRAM));
        let conditions = vec![is(0, Eq, unix), is(1, MaskedEq(KIND), datagram)];
        forbid(libc::SYS_socketpair, conditions)?;
    }
    let other = families.into_iter().map(|family| is(0, Ne, bits(family)));
    forbid(libc::SYS_socket, other.collect())?;
    let netlink = bits(libc::AF_NETLINK);
    forbid(
        libc::SYS_socket,
        vec![is(0, Ne, netlink), is(1, MaskedEq(KIND), raw)],
    )?;
    forbid(libc::SYS_socket, vec![is(1, MaskedEq(KIND), SOCK_PACKET)])?;
    let route = bits(libc::NETLINK_ROUTE);
    forbid(libc::SYS_socket, vec![is(0, Eq, netlink), is(2, Ne, route)])?;

    // Priorities, processors and limits of itself only.
    let own = 0;
    for call in [
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ] {
        forbid(call, vec![is(0, Ne, own)])?;
    }
    for (call, process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        forbid(call, vec![is(0, Ne, process)])?;
        forbid(call, vec![is(1, Ne, own)])?;
    }
    let sets = SeccompCondition::new(2, SeccompCmpArgLen::Qword, Ne, 0);
    forbid(libc::SYS_prlimit64, vec![is(0, Ne, own), sets])?;

    // What is typed into a terminal.
    for command in [libc::TIOCSTI, libc::TIOCLINUX] {
        forbid(libc::SYS_ioctl, vec![is(1, Eq, u64::from(command as u32))])?;
    }
    // Another execution domain than that of Linux; 0xffffffff asks.
    let plain = vec![is(0, Ne, 0), is(0, Ne, u64::from(u32::MAX))];
    forbid(libc::SYS_personality, plain)?;
    // It ends with its parent, and can be looked at by who started it.
    let (death, kill) = (bits(libc::PR_SET_PDEATHSIG), bits(libc::SIGKILL));
    forbid(libc::SYS_prctl, vec![is(0, Eq, death), is(1, Ne, kill)])?;
    forbid(
        libc::SYS_prctl,
        vec![is(0, Eq, bits(libc::PR_SET_DUMPABLE))],
    )?;
    Ok(rules)
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let failed = |error: seccompiler::BackendError| format!("the filter of system calls: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
    let action = SeccompAction::Errno(errno as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).map_err(failed)?;
    BpfProgram::try_from(filter).map_err(failed)
}

impl Filter {
    pub(super) fn new(apart: Apart) -> Result<Self, String> {
        let mut forbidden = conditional(apart).map_err(|error| error.to_string())?;
        forbidden.extend(FORBIDDEN.iter().map(|call| (*call, Vec::new())));
        let mut absent: Rules = ABSENT.iter().map(|call| (*call, Vec::new())).collect();
        if !apart.memory {
            // Memory that no limit of a process counts.
            absent.insert(libc::SYS_memfd_create, Vec::new());
        }
        let mut absent = program(absent, libc::ENOSYS)?;
        absent.splice(..0, later_ones());
        Ok(Self(vec![absent, program(forbidden, libc::EPERM)?]))
    }

    /// Called in the child, last of all.
    pub(super) fn enter(&self) -> io::Result<()> {
        for program in &self.0 {
            apply_filter(program).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
                _ => io::ErrorKind::Other.into(),
            })?;
        }
        Ok(())
    }
}

/// In front of a program: system calls after [`LAST_KNOWN`] are not there.
fn later_ones() -> [sock_filter; 3] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    const NUMBER_AT: u32 = 0;
    const ERRNO: u32 = 0x0005_0000;
    let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    [
        instruction(LOAD_WORD, 0, NUMBER_AT),
        instruction(JUMP_IF_GREATER, 1, LAST_KNOWN),
        instruction(RETURN, 0, ERRNO | libc::ENOSYS as u32),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_short_enough_for_the_kernel() {
        for sockets in [false, true] {
            let filter = Filter::new(Apart {
                sockets,
                memory: sockets,
            })
            .expect("programs");
            for program in &filter.0 {
                assert!(program.len() < 4096, "{} instructions", program.len());
            }
        }
    }
}
