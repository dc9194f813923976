"""The Python worker as a zygote: it has imported the handler, and forks workers that go on from there.

src/frame.rs documents what is said on its control socket. Whether forking is safe is judged here by
what Python knows, and by the host, which looks at the process from outside.
"""

import fcntl
import gc
import os
import sys
from _struct import Struct

import _signal
import _socket
import _thread

import sless_worker_log
from sless_worker_answer import header

VERSION, READY = 1, 33
FORK, SERVE, REAP, FORKED, REAPED = range(48, 53)

_order = Struct(">BBBBIii")
_NUMBERS = 8
# What Linux lets one message carry (SCM_MAX_FD).
_MAX_DESCRIPTORS = 253


def unsafe(function):
    """Why copies of this process would not be what a process of their own is; "" where they would."""
    if getattr(function, "own_process", False):
        return "the handler asks for it (own_process)"
    if _thread._count() > 0:
        threading = sys.modules.get("threading")
        main = threading and threading.main_thread()
        names = [each.name for each in threading.enumerate() if each is not main] if threading else []
        return "a thread runs after the import: " + (", ".join(names) or "unnamed")
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return "the import started a process that has not ended"
    except ChildProcessError:
        pass
    if _signal.getsignal(_signal.SIGCHLD) != _signal.SIG_DFL:
        return "the import set what happens on SIGCHLD"
    for timer in (_signal.ITIMER_REAL, _signal.ITIMER_VIRTUAL, _signal.ITIMER_PROF):
        if _signal.getitimer(timer)[0]:
            return "a timer runs after the import"
    if getattr(sys.modules.get("tempfile"), "_name_sequence", None) is not None:
        return "the import made a temporary file or folder"
    return ""


def ready(control, function):
    """Tells the host that the handler is imported, and whether copies can be forked."""
    sless_worker_log.flush_root()
    reason = unsafe(function).encode("utf-8", "replace")[:1024]
    head = header.pack(VERSION, READY, 0, 0, 4 + len(reason))
    sless_worker_log.send(control, head + os.getpid().to_bytes(4, "big") + reason)


def wait(control):
    """Forks workers for as long as the host lives, and never returns here: only in the processes that
    are to serve, each of its own or, where copies are not safe, in this one.

    Answers whether it was forked, and the descriptors: of a forked worker control, log, the slots; else
    the slots.
    """
    try:
        forked, descriptors = _obey(control)
    except BaseException:
        # The host has gone, or broken the protocol. Nothing of the handler's is to run in here.
        os._exit(1)
    if not forked:
        return False, descriptors
    os.close(control)
    control, log, out, err, *slots = descriptors
    os.setpgid(0, 0)
    for descriptor, number in ((out, 1), (err, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    _end_with(control)
    _refresh()
    return True, [control, log, *slots]


def _obey(control):
    channel = _socket.socket(fileno=control)
    space = _socket.CMSG_SPACE(4 * _MAX_DESCRIPTORS)
    frozen = False
    while True:
        data, ancillary, _, _ = channel.recvmsg(_order.size, space, _socket.MSG_CMSG_CLOEXEC)
        if len(data) < _order.size:
            os._exit(0)
        _, kind, _, _, _, number, _ = _order.unpack(data)
        descriptors = [fd for _, _, each in ancillary for fd in memoryview(each).cast("i")]
        if kind == SERVE:
            channel.detach()
            return False, descriptors
        if kind == REAP:
            _tell(control, REAPED, *os.waitpid(number, 0))
            continue
        if not frozen:
            # So that a collection in a copy does not write to, and so copy, what all share.
            gc.freeze()
            frozen = True
        try:
            pid = os.fork()
        except OSError as error:
            pid = -error.errno
        if pid == 0:
            channel.detach()
            return True, descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            try:
                # Also done by the copy: whoever comes first.
                os.setpgid(pid, pid)
            except OSError:
                pass
        _tell(control, FORKED, pid, 0)


def _tell(control, kind, first, second):
    sless_worker_log.send(control, _order.pack(VERSION, kind, 0, 0, _NUMBERS, first, second))


def _end_with(control):
    """Lets the kernel kill this process and its group once the host closes the socket or dies.

    The signal that a parent's death sends would not do: the parent is the zygote, which may end before
    its copies. Nothing is ever written to this socket, so that its end is all that can happen to it.
    """
    fcntl.fcntl(control, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(control, fcntl.F_SETSIG, _signal.SIGKILL)
    flags = fcntl.fcntl(control, fcntl.F_GETFL)
    fcntl.fcntl(control, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    try:
        if not os.read(control, 1):
            # It had happened before.
            os._exit(0)
    except BlockingIOError:
        pass


def _refresh():
    """Gives this copy random numbers of its own. The module `random` sees to itself."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        try:
            numpy.seed()
        except Exception:
            pass
