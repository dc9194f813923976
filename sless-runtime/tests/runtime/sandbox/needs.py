"""What functions of other people do, and is to work in a sandbox."""

import os
import socket
import subprocess
import sys
import tempfile
import threading

CODE = os.path.dirname(os.path.abspath(__file__))


def files():
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("x" * 100_000)
        file.flush()
        os.fsync(file.fileno())
    folder = tempfile.mkdtemp()
    os.makedirs(folder + "/a/b")
    open(folder + "/a/one", "w").write("1")
    os.rename(folder + "/a/one", folder + "/a/b/two")
    os.link(folder + "/a/b/two", folder + "/three")
    os.chmod(folder + "/three", 0o700)
    import shutil
    shutil.copytree(folder + "/a", folder + "/copied")
    shutil.rmtree(folder)


def slash_tmp():
    open("/tmp/plain", "w").write("x")
    os.remove("/tmp/plain")


def code_is_read():
    assert "slash_tmp" in open(__file__).read()
    assert os.getcwd() == CODE, os.getcwd()


def programs():
    assert subprocess.check_output(["sh", "-c", "echo $((1 + 1)); cat /dev/null"]) == b"2\n"
    started = subprocess.Popen(["sleep", "60"], start_new_session=True)
    started.kill()
    assert started.wait() == -9
    ran = subprocess.check_output([sys.executable, "-c", "print(__import__('os').getpid())"])
    assert int(ran) > 1


def own_program():
    path = tempfile.mkdtemp() + "/tool"
    open(path, "w").write("#!/bin/sh\necho made\n")
    os.chmod(path, 0o755)
    assert subprocess.check_output([path]) == b"made\n"


def threads():
    done = [threading.Thread(target=len, args=("",)) for _ in range(20)]
    for each in done:
        each.start()
    for each in done:
        each.join()


def processes():
    import multiprocessing

    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]


def network(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as stream:
        stream.sendall(b"hi")
        assert stream.recv(2) == b"hi"
    assert socket.getaddrinfo("localhost", 80)
    listener = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(listener.getsockname()).close()
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port))


def loops():
    import asyncio

    async def both():
        out = await asyncio.create_subprocess_exec("echo", "x", stdout=asyncio.subprocess.PIPE)
        return await out.stdout.read()

    assert asyncio.run(both()) == b"x\n"


def libraries():
    import ctypes
    import hashlib
    import secrets
    import sqlite3
    import ssl
    import zoneinfo

    assert len(secrets.token_bytes(8)) == 8 and hashlib.sha256(b"").hexdigest()
    ssl.create_default_context()
    sqlite3.connect(os.environ["TMPDIR"] + "/a.db").execute("create table t (a)")
    assert zoneinfo.ZoneInfo("Europe/Berlin") is not None
    assert ctypes.CDLL(None).getpid() == os.getpid()


def machine():
    import pwd

    assert os.cpu_count() >= 1
    assert open("/proc/meminfo").read() and open("/proc/self/status").read()
    assert pwd.getpwuid(os.getuid()).pw_name
    open("/dev/null", "w").write("x")
    assert len(open("/dev/urandom", "rb").read(8)) == 8


def ends_with_its_parent():
    import ctypes

    found = ctypes.c_int()
    ctypes.CDLL(None).prctl(2, ctypes.byref(found), 0, 0, 0)
    assert found.value == 9, found.value


def handle(event):
    asked = [
        files, slash_tmp, code_is_read, programs, own_program, threads, processes, loops, libraries,
        machine, ends_with_its_parent, lambda: network(event["port"]),
    ]
    failed = {}
    for each in asked:
        try:
            each()
        except BaseException as error:
            failed[getattr(each, "__name__", "?")] = f"{type(error).__name__}: {error}"
    return failed
