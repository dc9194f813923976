"""Output of a handler: whole lines go to the host at once, with the call that wrote them."""

import os
from _contextvars import ContextVar
from _struct import Struct
from _thread import RLock
from io import TextIOBase

VERSION, LOG = 1, 35
END, LOGGED = 1, 4

# The call that runs in this context.
current = ContextVar("sless_call", default=None)
_header = Struct(">BBBBIBBHQ")
_lock = RLock()
_fd = -1
_limit = 16384


def send(fd, data):
    """Writes all of it to a blocking socket."""
    sent = os.write(fd, data)
    if sent < len(data):
        view = memoryview(data)
        while sent < len(data):
            sent += os.write(fd, view[sent:])


class _Lines:
    """What was written to a stream since its last line end."""

    __slots__ = ("stream", "id", "ticket", "text", "skipping")

    def __init__(self, stream, id, ticket):
        self.stream, self.id, self.ticket = stream, id, ticket
        self.text, self.skipping = "", False

    def write(self, text):
        frames = []
        at, size = 0, len(text)
        while at < size:
            end = text.find("\n", at)
            stop = size if end < 0 else end
            if not self.skipping:
                room = _limit - len(self.text)
                if stop - at > room:
                    # Given at once: the end of the line may never come.
                    frames.append(self._frame(self.text + text[at : at + room], True))
                    self.text, self.skipping = "", True
                else:
                    self.text += text[at:stop]
            if end < 0:
                break
            if not self.skipping:
                frames.append(self._frame(self.text, False))
            self.text, self.skipping = "", False
            at = end + 1
        if frames:
            send(_fd, b"".join(frames))

    def flush(self):
        if self.text:
            frame = self._frame(self.text, False)
            self.text = ""
            send(_fd, frame)

    def _frame(self, text, truncated):
        data = text.encode("utf-8", "replace")
        if len(data) > _limit:
            truncated = True
            data = data[:_limit].decode("utf-8", "ignore").encode()
        if data.endswith(b"\r"):
            data = data[:-1]
        size = len(self.id)
        length = 12 + size + len(data)
        head = _header.pack(VERSION, LOG, 0, 0, length, self.stream, truncated, size, self.ticket)
        return head + self.id + data


_root_lines = [None, _Lines(1, b"", 0), _Lines(2, b"", 0)]


def _lines(stream):
    call = current.get()
    if call is None:
        return _root_lines[stream]
    lines = call._lines
    if lines is None:
        lines = call._lines = [None, None, None]
    if lines[stream] is None:
        lines[stream] = _Lines(stream, call._id(), call._fields[10])
    return lines[stream]


class _Stream(TextIOBase):
    """Takes the place of sys.stdout and sys.stderr: whole lines go to the host at once."""

    def __init__(self, stream):
        self._number = stream
        self.buffer = _Buffer(self)

    encoding, errors, newlines, line_buffering = "utf-8", "replace", None, True
    mode = "w"

    @property
    def name(self):
        return "<stdout>" if self._number == 1 else "<stderr>"

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        with _lock:
            _lines(self._number).write(text)
        return len(text)

    def flush(self):
        with _lock:
            _lines(self._number).flush()

    def close(self):
        self.flush()

    def writable(self):
        return True

    def fileno(self):
        return self._number

    def reconfigure(self, **_):
        pass


class _Buffer:
    """sys.stdout.buffer, for programs that write bytes."""

    def __init__(self, stream):
        self.raw, self._stream = self, stream

    def write(self, data):
        data = bytes(data)
        self._stream.write(data.decode("utf-8", "replace"))
        return len(data)

    def writable(self):
        return True

    def flush(self):
        self._stream.flush()

    def fileno(self):
        return self._stream.fileno()


_streams = [None, _Stream(1), _Stream(2)]
_OWN_FOLDER = os.path.dirname(__file__) + os.sep


def _is_own(name):
    return name.startswith((_OWN_FOLDER, "<frozen importlib")) or name == "<string>"


def log_error(error):
    """Writes the trace without our own frames."""
    from traceback import format_exception

    trace = error.__traceback__
    while trace is not None and _is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    stream = _streams[2]
    stream.write("".join(format_exception(type(error), error, trace)))
    stream.flush()


def flush_lines(call):
    """Writes what a call has left without a line end."""
    with _lock:
        for lines in call._lines:
            if lines is not None:
                lines.flush()


def flush_root():
    """Writes what no call has left without a line end."""
    with _lock:
        for lines in _root_lines[1:]:
            lines.flush()


def move(fd):
    """Writes to another log socket from now on: this process was forked."""
    global _fd
    _fd = fd


def end_flags(call):
    """The flags of the frame that ends a call's answer. What the call has written goes out before."""
    if call._lines is None:
        return END
    flush_lines(call)
    return END | LOGGED


def redirect(fd, limit):
    """Puts our streams in the place of sys.stdout and sys.stderr."""
    import sys

    global _fd, _limit
    _fd, _limit = fd, limit
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = _streams[1:]
