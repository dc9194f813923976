"""Tries to get out. Each escape is a name, the protection that stops it, who could do it without a sandbox
("all", "root", or "some": it depends on the kernel), and code that gets to its end only where it succeeds.

Each runs in a process of its own, so that what it breaks is its own.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import stat
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
MACHINE = os.uname().machine
# Where the numbers of system calls differ: x86_64, and the common table of newer architectures.
NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "kcmp": (312, 272), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "ioprio_set": (251, 30), "clone": (56, 220), "setns": (308, 268),
    "bpf": (321, 280), "perf_event_open": (298, 241), "add_key": (248, 217), "keyctl": (250, 219),
    "userfaultfd": (323, 282), "init_module": (175, 105), "fanotify_init": (300, 262),
    "personality": (135, 92), "reboot": (169, 142), "syslog": (103, 116), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "umount2": (166, 39),
    "open_tree": (428, 428), "pidfd_getfd": (438, 438), "io_uring_setup": (425, 425),
    "clone3": (435, 435), "process_madvise": (440, 440), "open_by_handle_at": (304, 265),
    "sched_setattr": (314, 274), "quotactl": (179, 60), "unshare": (272, 97), "capget": (125, 90),
}


def call(name, *arguments):
    """A system call; an error is raised."""
    number = NUMBERS[name][0 if MACHINE == "x86_64" else 1]
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def reaches(work, *codes):
    """Whether it works, or fails in a way that shows that it was allowed."""
    try:
        work()
    except OSError as error:
        if error.errno not in codes:
            raise


def forks(count):
    """So many processes at once; they end with this one's pipe."""
    read, write = os.pipe()
    for _ in range(count):
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
    os.close(write)


def runs_threads(count):
    done = threading.Event()
    try:
        for _ in range(count):
            threading.Thread(target=done.wait, daemon=True).start()
    finally:
        done.set()


def opens(count):
    kept = [open("/dev/null") for _ in range(count)]
    return kept


FILES, ATTRIBUTES, PROCESSES, SIGNALS = "files", "attributes", "processes", "signals"
SOCKETS, CALLS, PRIVILEGES = "sockets", "system_calls", "privileges"

ESCAPES = [
    # Other functions, the server, the user.
    ("read another function's file", FILES, "all", "open(other + '/secret').read()"),
    ("list another function's folder", FILES, "all", "os.listdir(other)"),
    ("write into another function's folder", FILES, "all", "open(other + '/new', 'w').write('x')"),
    ("truncate another function's file", FILES, "all", "os.truncate(other + '/long', 0)"),
    ("rename another function's file", FILES, "all", "os.rename(other + '/moved', other + '/away')"),
    ("take another function's file", FILES, "all", "os.rename(other + '/taken', own + '/taken')"),
    ("remove another function's file", FILES, "all", "os.remove(other + '/gone')"),
    ("make a folder at another function's", FILES, "all", "os.mkdir(other + '/folder')"),
    ("reach a file by a hard link", FILES, "all", "os.link(other + '/secret', own + '/l'); open(own + '/l').read()"),
    ("reach a file by a symbolic link", FILES, "all", "os.symlink(other + '/secret', own + '/s'); open(own + '/s').read()"),
    ("reach a file by going there", FILES, "all", "os.chdir(other); open('secret').read()"),
    ("reach a file by ..", FILES, "all", "open(own + '/../other/secret').read()"),
    ("read the server's store", FILES, "all", "open(server + '/db/catalog.db').read()"),
    ("read the server's key", FILES, "all", "open(server + '/hs256.key').read()"),
    ("change its own code", FILES, "all", "open(__file__, 'a').write('\\n')"),
    ("change the worker's program", FILES, "all", "p = os.path.dirname(sys.modules['sless_worker_call'].__file__) + '/evil.py'; open(p, 'w').close(); os.remove(p)"),
    ("use another's shared memory", FILES, "all", "open(shared).read()"),
    ("read the shadow file", FILES, "root", "open('/etc/shadow').read()"),
    ("write to /etc", FILES, "root", "open('/etc/sless-escape', 'w').close(); os.remove('/etc/sless-escape')"),
    ("make a disk", FILES, "root", "os.mknod(own + '/disk', stat.S_IFBLK | 0o600, os.makedev(7, 0))"),
    ("read the kernel's log device", FILES, "root", "os.open('/dev/kmsg', os.O_RDONLY)"),
    ("set how cores are dumped", FILES, "root", "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)"),
    ("trigger the kernel", FILES, "some", "os.open('/proc/sysrq-trigger', os.O_WRONLY)"),
    ("write to control groups", FILES, "root", "next(os.open(f + '/cgroup.procs', os.O_WRONLY) for f, _, n in os.walk('/sys/fs/cgroup') if 'cgroup.procs' in n)"),
    ("change a file's mode", ATTRIBUTES, "all", "os.chmod(other + '/secret', 0o600)"),
    ("change a file's times", ATTRIBUTES, "all", "os.utime(other + '/secret')"),
    ("see that a file exists", ATTRIBUTES, "all", "os.stat(other + '/secret')"),
    ("change its interpreter's mode", ATTRIBUTES, "root", "f = os.open(sys.executable, os.O_RDONLY); os.fchmod(f, stat.S_IMODE(os.fstat(f).st_mode))"),
    # Other processes.
    ("list processes", PROCESSES, "all", "assert any(each.isdigit() for each in os.listdir('/proc'))"),
    ("read a process's command line", PROCESSES, "all", "assert open(f'/proc/{victim}/cmdline').read()"),
    ("read a process's environment", PROCESSES, "all", "assert 'VICTIM' in open(f'/proc/{victim}/environ').read()"),
    ("read a process's memory", PROCESSES, "all", "open(f'/proc/{victim}/mem', 'rb')"),
    ("read where a process's memory is", PROCESSES, "all", "assert open(f'/proc/{victim}/maps').read()"),
    ("list a process's files", PROCESSES, "all", "os.listdir(f'/proc/{victim}/fd')"),
    ("go through a process's root", PROCESSES, "all", "open(f'/proc/{victim}/root{other}/secret').read()"),
    ("go through a process's folder", PROCESSES, "all", "open(f'/proc/{victim}/cwd/secret').read()"),
    ("have a process killed first", PROCESSES, "all", "open(f'/proc/{victim}/oom_score_adj', 'w').write('900')"),
    ("read the server's environment", PROCESSES, "all", "open(f'/proc/{os.getppid() if parent is None else parent}/environ').read()"),
    ("trace a process", PROCESSES, "some", "call('ptrace', 0x4206, victim, 0, 0)"),
    ("read memory by a system call", PROCESSES, "some", "b = ctypes.create_string_buffer(16); v = (ctypes.c_size_t * 2)(ctypes.addressof(b), 16); r = (ctypes.c_size_t * 2)(4096, 16); reaches(lambda: call('process_vm_readv', victim, ctypes.byref(v), 1, ctypes.byref(r), 1, 0), errno.EFAULT)"),
    ("take a process's descriptor", PROCESSES, "some", "call('pidfd_getfd', os.pidfd_open(victim), 0, 0)"),
    ("compare processes", PROCESSES, "some", "call('kcmp', victim, victim, 1, 0, 0)"),
    ("limit another process", PROCESSES, "all", "resource.prlimit(victim, resource.RLIMIT_NOFILE, (64, 64))"),
    ("slow another process down", PROCESSES, "all", "os.setpriority(os.PRIO_PROCESS, victim, 19)"),
    ("slow all of the user down", PROCESSES, "some", "os.setpriority(os.PRIO_USER, os.getuid(), os.getpriority(os.PRIO_USER, os.getuid()))"),
    ("move another process to a processor", PROCESSES, "all", "os.sched_setaffinity(victim, os.sched_getaffinity(victim))"),
    ("schedule another process", PROCESSES, "all", "os.sched_setscheduler(victim, os.SCHED_BATCH, os.sched_param(0))"),
    ("make another process's disk slow", PROCESSES, "all", "call('ioprio_set', 1, victim, 3 << 13)"),
    # Signals; the victim ignores this one.
    ("signal a process", SIGNALS, "all", "os.kill(victim, signal.SIGWINCH)"),
    ("signal a group", SIGNALS, "all", "os.killpg(victim, signal.SIGWINCH)"),
    ("signal by a descriptor", SIGNALS, "all", "signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGWINCH)"),
    ("signal a thread", SIGNALS, "all", "call('tgkill', victim, victim, signal.SIGWINCH)"),
    ("signal with a value", SIGNALS, "some", "i = (ctypes.c_int * 32)(signal.SIGWINCH, 0, -1); call('rt_sigqueueinfo', victim, signal.SIGWINCH, ctypes.byref(i))"),
    ("signal the server", SIGNALS, "all", "os.kill(parent or os.getppid(), 0)"),
    # Sockets.
    ("connect to a Unix socket", SOCKETS, "all", "socket.socket(socket.AF_UNIX).connect(other + '/stream')"),
    ("send to a Unix socket", SOCKETS, "all", "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', other + '/datagram')"),
    ("send elsewhere through a pair", SOCKETS, "all", "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', other + '/datagram')"),
    ("connect to an abstract socket", SOCKETS, "all", "socket.socket(socket.AF_UNIX).connect('\\0' + abstract)"),
    ("open a raw socket", SOCKETS, "root", "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)"),
    ("open a raw socket of IPv6", SOCKETS, "root", "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)"),
    ("open a packet socket", SOCKETS, "root", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)"),
    ("ask netlink for sockets of others", SOCKETS, "some", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4)"),
    ("use the kernel's ciphers", SOCKETS, "some", "socket.socket(38, socket.SOCK_SEQPACKET)"),
    # The kernel.
    ("make a user namespace", CALLS, "some", "call('unshare', 0x10000000)"),
    ("make a network namespace", CALLS, "root", "call('unshare', 0x40000000)"),
    ("clone into a namespace", CALLS, "some", "call('clone', 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(3)"),
    ("enter a namespace", CALLS, "root", "call('setns', os.pidfd_open(victim), 0x08000000)"),
    ("mount", CALLS, "root", "assert libc.mount(b'tmpfs', own.encode(), b'tmpfs', 0, None) == 0; call('umount2', own.encode(), 0)"),
    ("unmount", CALLS, "root", "reaches(lambda: call('umount2', own.encode(), 0), errno.EINVAL)"),
    ("clone a tree of mounts", CALLS, "all", "call('open_tree', -100, b'/', 0)"),
    ("change its root", CALLS, "root", "os.chroot(own)"),
    ("open a file by its handle", CALLS, "root", "reaches(lambda: call('open_by_handle_at', -100, (ctypes.c_int * 4)(8, 1), 0), errno.ESTALE, errno.EINVAL, errno.EBADF)"),
    ("load a program into the kernel", CALLS, "root", "reaches(lambda: call('bpf', 0, 0, 0), errno.EINVAL, errno.EFAULT)"),
    ("watch the processor", CALLS, "all", "reaches(lambda: call('perf_event_open', 0, 0, -1, -1, 0), errno.EFAULT)"),
    ("keep a key", CALLS, "all", "call('add_key', b'user', b'sless', b'x', 1, -3)"),
    ("look for keys", CALLS, "all", "call('keyctl', 0, -3, 0)"),
    ("queue system calls past the filter", CALLS, "some", "call('io_uring_setup', 1, ctypes.create_string_buffer(256))"),
    ("handle faults of memory", CALLS, "some", "call('userfaultfd', 1)"),
    ("load a module", CALLS, "some", "reaches(lambda: call('init_module', 0, 0, b''), errno.ENOEXEC, errno.EFAULT)"),
    ("watch all files", CALLS, "root", "call('fanotify_init', 0, 0)"),
    ("turn off random addresses", CALLS, "all", "call('personality', 0x0040000)"),
    ("restart the machine", CALLS, "root", "reaches(lambda: call('reboot', 0, 0, 0, 0), errno.EINVAL)"),
    ("read the kernel's log", CALLS, "root", "call('syslog', 10, 0, 0)"),
    ("rename the machine", CALLS, "root", "name = os.uname().nodename; socket.sethostname(name)"),
    ("set the clock", CALLS, "root", "reaches(lambda: time.clock_settime(time.CLOCK_BOOTTIME, 0), errno.EINVAL)"),
    ("share System V memory", CALLS, "some", "call('shmget', 0, 4096, 0o600)"),
    ("share a System V queue", CALLS, "some", "call('msgget', 0, 0o600)"),
    ("share a POSIX queue", CALLS, "some", "call('mq_open', b'sless-escape', os.O_CREAT | os.O_RDWR, 0o600, 0)"),
    ("set quotas", CALLS, "root", "reaches(lambda: call('quotactl', 0x80000000, 0, 0, 0), errno.EINVAL, errno.ENOSYS, errno.ENOENT, errno.ENODEV, errno.EFAULT, errno.ESRCH)"),
    # Rights.
    ("gain rights by a program", PRIVILEGES, "all", "assert libc.prctl(39, 0, 0, 0, 0) == 0"),
    ("have capabilities", PRIVILEGES, "root", "h = (ctypes.c_uint * 2)(0x20080522, 0); d = (ctypes.c_uint * 6)(); call('capget', ctypes.byref(h), ctypes.byref(d)); assert any(d)"),
    ("become another user", PRIVILEGES, "root", "os.setresuid(12345, 12345, 12345)"),
    ("outlive its parent", CALLS, "all", "assert libc.prctl(1, 0, 0, 0, 0) == 0"),
    ("hide from who started it", CALLS, "all", "assert libc.prctl(4, 0, 0, 0, 0) == 0"),
    # Filling the machine. The test sets small limits.
    ("start many processes", "process_count", "all", "forks(150)"),
    ("start many threads", "process_count", "all", "runs_threads(150)"),
    ("fill the memory", "memory", "all", "bytearray(400 << 20)"),
    ("fill the memory by a mapping", "memory", "all", "m = mmap.mmap(-1, 400 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m[::4096] = b'x' * (len(m) // 4096)"),
    ("fill memory that no process is counted for", "memory_total", "all", "m = mmap.mmap(-1, 700 << 20); m[::4096] = b'x' * (len(m) // 4096)"),
    ("fill the disk by a file", "file_size", "all", "open(own + '/big', 'wb').write(bytes(24 << 20))"),
    ("fill the disk by a long file", "file_size", "all", "os.truncate(os.open(own + '/hole', os.O_CREAT | os.O_RDWR), 1 << 30)"),
    ("fill /tmp", "files", "all", "[open(f'/tmp/escape-{os.getpid()}-{n}', 'wb').write(bytes(6 << 20)) for n in range(4)]"),
    ("open many files", "memory", "all", "opens(300)"),
    ("raise its limits", "file_size", "root", "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))"),
    ("dump its memory", "file_size", "root", "resource.setrlimit(resource.RLIMIT_CORE, (1 << 30, 1 << 30))"),
    ("lock much memory", "memory", "some", "resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 30, 1 << 30))"),
]


def attempt(code, names):
    """What comes of it, tried in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.setpgid(0, 0)
            signal.alarm(30)
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            exec(code, {**globals(), **names})
            told = "escaped"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(write, told.encode()[:4000])
        os._exit(0)
    os.close(write)
    told = b""
    while part := os.read(read, 4096):
        told += part
    os.close(read)
    _, status = os.waitpid(child, 0)
    try:
        # What it started.
        os.killpg(child, signal.SIGKILL)
    except OSError:
        pass
    return told.decode() or f"ended with {status}"


def handle(event):
    names = {**event, "__file__": __file__}
    names.setdefault("parent", None)
    found = [
        {"name": name, "protection": protection, "who": who, "told": attempt(code, names)}
        for name, protection, who, code in ESCAPES
    ]
    try:
        for name in os.listdir("/tmp"):
            if name.startswith("escape-"):
                os.remove("/tmp/" + name)
    except PermissionError:
        # There is no /tmp of its own.
        pass
    return found
