"""The Python worker: imports a handler and runs the calls that its host sends.

Started by the host with inherited sockets; src/frame.rs documents what is said on them. It uses
the standard library only, and imports as little of it as it can: what is imported here is paid
for by every cold start. So `_json`, `_contextvars` and the like stand for the modules whose C
halves they are.
"""

import os
import sys
from _thread import start_new_thread
from io import BytesIO

from sless_worker_answer import (
    Answer,
    data_frame,
    error_answer,
    error_text,
    fail_frame,
    header,
    piece_bytes,
)
from sless_worker_call import BadEvent, Context, make_event
from sless_worker_log import current, end_flags, flush_lines, log_error, move, redirect, send

VERSION, HEADER = 1, 8
CALL, CANCEL, READY, REFUSED = 1, 3, 33, 34
END = 1
_READ = 65536
_SMALL = 65536

_read = os.read


class Cancelled(Exception):
    """The client left, or its body broke off."""


class Channel:
    """One slot, served by one thread."""

    def __init__(self, fd):
        self.fd, self._left, self._socket, self._loop = fd, b"", None, None
        self._open = False

    def next_call(self):
        """The next call; the worker is not wanted any more when it raises EOFError."""
        while True:
            kind, flags, buffer = self._frame()
            if kind == CALL:
                self._open = not flags & END
                return Context(buffer, self)

    def _frame(self):
        """The next frame, header and all."""
        buffer = self._left or _read(self.fd, _READ)
        while len(buffer) < HEADER:
            buffer += self._more()
        version, kind, flags, _, length = header.unpack_from(buffer)
        if version != VERSION:
            raise EOFError
        total = HEADER + length
        if len(buffer) < total:
            whole = BytesIO()
            whole.write(buffer)
            missing = total - len(buffer)
            while missing > 0:
                piece = _read(self.fd, min(missing, 1 << 18))
                if not piece:
                    raise EOFError
                whole.write(piece)
                missing -= len(piece)
            self._left = b""
            return kind, flags, whole.getvalue()
        if len(buffer) > total:
            self._left = buffer[total:]
            return kind, flags, buffer[:total]
        self._left = b""
        return kind, flags, buffer

    def _more(self):
        piece = _read(self.fd, _READ)
        if not piece:
            raise EOFError
        return piece

    def body_pieces(self, call):
        """The request's body, piece by piece."""
        first = call._first()
        if first:
            yield first
        while self._open:
            kind, flags, buffer = self._frame()
            self._open = not flags & END
            if kind == CANCEL:
                raise Cancelled("the client has left")
            if len(buffer) > HEADER:
                yield buffer[HEADER:]

    def body(self, call):
        if not self._open:
            return call._first()
        whole = BytesIO()
        for piece in self.body_pieces(call):
            whole.write(piece)
        return whole.getvalue()

    def end_body(self):
        """Reads what is left of the request's body."""
        while self._open:
            _, flags, _ = self._frame()
            self._open = not flags & END

    def cancelled(self):
        """Whether the host has said CANCEL, without reading on in the body."""
        head = self._left
        if len(head) < 2:
            if self._socket is None:
                import _socket

                self._socket = _socket
                self._peek = _socket.socket(fileno=self.fd)
            try:
                flags = self._socket.MSG_PEEK | self._socket.MSG_DONTWAIT
                head = self._peek.recv(HEADER, flags)
            except BlockingIOError:
                return False
        return len(head) < 2 or head[1] == CANCEL

    def send(self, data):
        send(self.fd, data)

    def answer(self, result, call):
        if hasattr(result, "__await__"):
            result = self._loop_of_this_thread().run_until_complete(_awaited(result))
        answer = Answer(result)
        if answer.pieces is not None:
            return self._stream(answer, call)
        body = answer.body
        head = answer.head(len(body), end_flags(call))
        if len(body) <= _SMALL:
            self.send(head + body)
        else:
            self.send(head)
            self.send(body)

    def _stream(self, answer, call):
        pieces = answer.pieces
        if hasattr(pieces, "__aiter__"):
            pieces = self._from_async(pieces)
        begun = False
        try:
            for piece in pieces:
                data = piece_bytes(piece)
                if not begun:
                    begun = True
                    if isinstance(piece, str):
                        answer.as_text()
                    self.send(answer.head(len(data), 0) + data)
                elif data:
                    self.send(data_frame(data))
                if self.cancelled():
                    break
            if begun:
                self.send(data_frame(b"", end_flags(call)))
            else:
                self.send(answer.head(0, end_flags(call)))
        except BaseException as error:
            if not begun or _stopping:
                raise
            log_error(error)
            self.send(fail_frame(error, end_flags(call)))
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()

    def _from_async(self, pieces):
        loop = self._loop_of_this_thread()
        iterator = pieces.__aiter__()
        try:
            while True:
                try:
                    yield loop.run_until_complete(_awaited(iterator.__anext__()))
                except StopAsyncIteration:
                    return
        finally:
            if hasattr(iterator, "aclose"):
                loop.run_until_complete(iterator.aclose())

    def _loop_of_this_thread(self):
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
        return self._loop


async def _awaited(value):
    return await value


def serve(fd, handler):
    """Runs calls one after another."""
    channel, function = Channel(fd), handler.function
    with_context, streams = handler.with_context, handler.streams
    while True:
        call = channel.next_call()
        current.set(call)
        try:
            if streams:
                event = call.stream = channel.body_pieces(call)
            else:
                event = make_event(call, channel.body(call))
            channel.answer(function(event, call) if with_context else function(event), call)
        except BadEvent as error:
            channel.send(error_answer(error, end_flags(call), 400))
        except Cancelled as error:
            channel.send(fail_frame(error, end_flags(call)))
        except BaseException as error:
            if _stopping:
                raise
            log_error(error)
            channel.send(error_answer(error, end_flags(call)))
        if call._lines is not None:
            flush_lines(call)
        if channel._open:
            channel.end_body()
        current.set(None)


class Refused(Exception):
    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


class Handler:
    """The function, and how it wants to be called."""

    __slots__ = ("function", "with_context", "is_async", "streams")

    def __init__(self, function, name):
        self.function = function
        self.streams = bool(getattr(function, "stream_body", False))
        code = getattr(function, "__code__", None)
        if code is None or type(function).__name__ != "function":
            self._inspected(name)
            return
        count = code.co_argcount
        required = count - len(function.__defaults__ or ())
        keywords = code.co_kwonlyargcount - len(function.__kwdefaults__ or ())
        variadic = bool(code.co_flags & 0x04)
        self.is_async = bool(code.co_flags & (0x80 | 0x200))
        if keywords > 0 or required > 2 or (count == 0 and not variadic):
            raise _wrong_signature(name, required + keywords)
        self.with_context = count >= 2 or variadic

    def _inspected(self, name):
        import inspect

        function = self.function
        called = function if inspect.isroutine(function) else type(function).__call__
        self.is_async = any(
            test(thing)
            for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
            for thing in (function, called)
        )
        try:
            signature = inspect.signature(function)
        except (ValueError, TypeError):
            # A builtin without a signature: it is called with the event.
            self.with_context = False
            return
        for count in (2, 1):
            try:
                signature.bind(*(None,) * count)
            except TypeError:
                continue
            self.with_context = count == 2
            return
        raise _wrong_signature(name, len(signature.parameters))


def _wrong_signature(name, count):
    return Refused(
        "handler_signature",
        "the handler %s takes %d required arguments; expected (event) or (event, context)"
        % (name, count),
    )


def load(entrypoint):
    module_name, _, name = entrypoint.rpartition(".")
    module_name = module_name.replace("/", ".")
    try:
        __import__(module_name)
        module = sys.modules[module_name]
    except MemoryError as error:
        log_error(error)
        raise Refused("out_of_memory", "importing %s took too much memory" % module_name) from None
    except BaseException as error:
        log_error(error)
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            if (module_name + ".").startswith(error.name + "."):
                text = "the entrypoint %s names a module that is not there: %s"
                raise Refused("handler_import", text % (entrypoint, error.name)) from None
        text = "importing %s failed: %s: %s"
        about = (module_name, type(error).__name__, error_text(error))
        raise Refused("handler_import", text % about) from None
    function = getattr(module, name, None)
    if function is None:
        raise Refused("handler_missing", "the module %s has no function %s" % (module_name, name))
    if not callable(function):
        kind = type(function).__name__
        text = "%s in the module %s is of type %s; expected a function"
        raise Refused("handler_missing", text % (name, module_name, kind))
    return Handler(function, entrypoint)


def _watch(control):
    """Ends the process when the host closes the control socket or dies."""
    try:
        while _read(control, 64):
            pass
    finally:
        os._exit(0)


_stopping = False


def _terminate(*_):
    """SIGTERM ends the main thread as sys.exit() does, so that `atexit` functions run."""
    global _stopping
    _stopping = True
    raise SystemExit(0)


def _search_path(folders):
    sys.path[:] = folders + sys.path
    for folder in folders[1:]:
        try:
            has_pth = any(name.endswith(".pth") for name in os.listdir(folder))
        except OSError:
            continue
        if has_pth:
            import site

            site.addsitedir(folder)


def main(arguments):
    entrypoint, code, Context.namespace, Context.function_name, Context.function_uid = arguments[:5]
    control, log, *slots = map(int, arguments[6].split(","))
    for fd in (control, log, *slots):
        os.set_inheritable(fd, False)
    redirect(log, int(arguments[5]))
    sys.argv[:] = [entrypoint]
    if not slots:
        import sless_worker_zygote as zygote
    sys.path.pop(0)
    _search_path([code] + arguments[7:])
    import builtins

    # What `site` would have done, for code that calls exit().
    builtins.exit = builtins.quit = sys.exit
    try:
        handler = load(entrypoint)
    except Refused as error:
        reason, message = error.reason.encode(), error_text(error).encode("utf-8", "replace")
        payload = len(reason).to_bytes(2, "big") + reason + message
        send(control, header.pack(VERSION, REFUSED, 0, 0, len(payload)) + payload)
        os._exit(1)
    if handler.is_async:
        sys.path.insert(0, os.path.dirname(__file__))
        from sless_worker_async import run, warm_up

        sys.path.pop(0)
        if not slots:
            try:
                warm_up()
            except Exception:
                # Whatever is amiss is met, and told, where the loop is needed.
                pass
    else:
        run = _run_threads
    forked = False
    if not slots:
        zygote.ready(control, handler.function)
        forked, slots = zygote.wait(control)
    if forked:
        os.close(log)
        control, log, *slots = slots
        move(log)
    else:
        start_new_thread(_watch, (control,))
    import _signal

    if _signal.getsignal(_signal.SIGTERM) == _signal.SIG_DFL:
        _signal.signal(_signal.SIGTERM, _terminate)
    send(control, header.pack(VERSION, READY, 0, 0, 0))
    run(slots, handler)


def _run_threads(slots, handler):
    if len(slots) > 1:
        # Not `_thread`: whoever imports `threading` later takes its thread for the main one.
        from threading import Thread

        for fd in slots[1:]:
            Thread(target=_serve_thread, args=(fd, handler), daemon=True).start()
    try:
        serve(slots[0], handler)
    except (EOFError, OSError):
        pass
    # The host has given this slot up. Calls on other threads go on until it ends us.
    while len(slots) > 1:
        from time import sleep

        sleep(3600)


def _serve_thread(fd, handler):
    try:
        serve(fd, handler)
    except (EOFError, OSError):
        pass
