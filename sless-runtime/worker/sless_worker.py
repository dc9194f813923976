"""The Python worker: imports a handler and runs the calls that its host sends.

Started by the host with inherited sockets; src/frame.rs documents what is said on them. It uses
the standard library only, and imports as little of it as it can: what is imported here is paid
for by every cold start. `_json` and `_contextvars` are the C halves of `json` and `contextvars`.
"""

import os
import sys
from _contextvars import ContextVar
from _struct import Struct
from _thread import RLock, start_new_thread
from io import BytesIO, TextIOBase
from time import monotonic, time

try:
    from _json import c_make_encoder, encode_basestring, make_scanner
except ImportError:  # Not CPython, or one that has renamed them.
    try:
        from _json import encode_basestring, make_encoder as c_make_encoder, make_scanner
    except ImportError:
        make_scanner = None

VERSION, HEADER = 1, 8
CALL, DATA, CANCEL, RESPONSE, FAIL, READY, REFUSED, LOG = 1, 2, 3, 17, 18, 33, 34, 35
END, ERROR = 1, 2
EMPTY, JSON, TEXT, BYTES, UNNAMED = range(5)
AS_HEADERS, AS_JSON, AS_TEXT, AS_BYTES = range(4)

_header = Struct(">BBBBI")
_call = Struct(">BBHHHIIIIQ")
_response = Struct(">BBBBIHBBI")
_field = Struct(">HI")
_log = Struct(">BBBBIBBH")
_CALL_FIXED = HEADER + _call.size
_READ = 65536
_SMALL = 65536
_MAX_MESSAGE = 16384

_read, _write = os.read, os.write


class BadEvent(Exception):
    """The body is not what its media type says; answered with 400."""


class ResultError(Exception):
    """What the handler returned cannot be sent."""


class Cancelled(Exception):
    """The client left, or its body broke off."""


# --- Logs -----------------------------------------------------------------------------------

_current = ContextVar("sless_call", default=None)
_log_lock = RLock()
_log_fd = -1
_log_limit = 16384


class _Lines:
    """What was written to a stream since its last line end."""

    __slots__ = ("stream", "id", "text", "skipping")

    def __init__(self, stream, id):
        self.stream, self.id, self.text, self.skipping = stream, id, "", False

    def write(self, text):
        frames = []
        at, size = 0, len(text)
        while at < size:
            end = text.find("\n", at)
            stop = size if end < 0 else end
            if not self.skipping:
                room = _log_limit - len(self.text)
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
            _send(_log_fd, b"".join(frames))

    def flush(self):
        if self.text:
            frame = self._frame(self.text, False)
            self.text = ""
            _send(_log_fd, frame)

    def _frame(self, text, truncated):
        data = text.encode("utf-8", "replace")
        if len(data) > _log_limit:
            truncated = True
            data = data[:_log_limit].decode("utf-8", "ignore").encode()
        if data.endswith(b"\r"):
            data = data[:-1]
        length = 4 + len(self.id) + len(data)
        head = _log.pack(VERSION, LOG, 0, 0, length, self.stream, truncated, len(self.id))
        return head + self.id + data


_root_lines = [None, _Lines(1, b""), _Lines(2, b"")]


def _lines(stream):
    call = _current.get()
    if call is None:
        return _root_lines[stream]
    lines = call._lines
    if lines is None:
        lines = call._lines = [None, None, None]
    if lines[stream] is None:
        lines[stream] = _Lines(stream, call._id())
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
        with _log_lock:
            _lines(self._number).write(text)
        return len(text)

    def flush(self):
        with _log_lock:
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


def log_error(error):
    """Writes the trace without our own frames."""
    from traceback import format_exception

    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name not in _OWN_FILES and not name.startswith("<frozen importlib"):
            break
        trace = trace.tb_next
    sys_stderr = _streams[2]
    sys_stderr.write("".join(format_exception(type(error), error, trace)))
    sys_stderr.flush()


_streams = [None, _Stream(1), _Stream(2)]
_OWN_FILES = {__file__, __file__.replace("sless_worker", "sless_worker_async"), "<string>"}


# --- JSON -----------------------------------------------------------------------------------


def _no_constant(name):
    raise ValueError(name + " is not JSON")


def _no_json(value):
    raise ResultError(
        "the handler returned a value of type " + type(value).__name__ + ", which has no JSON form"
    )


if make_scanner is not None:

    class _Rules:
        strict, object_hook, object_pairs_hook = True, None, None
        parse_float, parse_int, parse_constant = float, int, staticmethod(_no_constant)
        memo = {}

    _scan = make_scanner(_Rules)
    _encode = c_make_encoder(
        None, _no_json, encode_basestring, None, ":", ",", False, False, False
    )

    def loads(text):
        text = text.strip(" \t\r\n")
        try:
            value, end = _scan(text, 0)
        except StopIteration as error:
            raise ValueError("expected a value at character %s" % error.value) from None
        except SystemError:
            # The scanner finds its error type only when this has been imported.
            import json.decoder

            value, end = json.JSONDecoder(parse_constant=_no_constant).raw_decode(text)
        if end != len(text):
            raise ValueError("expected the end at character %d" % end)
        return value

    def _dumps(value):
        return "".join(_encode(value, 0))

else:
    import json

    def loads(text):
        return json.loads(text, parse_constant=_no_constant)

    def _dumps(value):
        return json.dumps(
            value, default=_no_json, allow_nan=False, ensure_ascii=False, separators=(",", ":")
        )


def dumps(value):
    """JSON as bytes, or a ResultError that says what has no JSON form."""
    try:
        return _dumps(value).encode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form, but a JSON escape.
        import json

        return json.dumps(value, default=_no_json, separators=(",", ":")).encode()
    except ValueError as error:
        if "JSON compliant" not in str(error):
            raise ResultError(str(error)) from None
        raise ResultError(
            "the handler returned a float that is NaN or infinite, which has no JSON form"
        ) from None
    except TypeError as error:
        raise ResultError("the handler returned a value without a JSON form: %s" % error) from None
    except RecursionError:
        raise ResultError("the handler returned a value that is nested too deep or in itself") from None


# --- The call -------------------------------------------------------------------------------


class Fields(dict):
    """Header fields or query parameters by name: the value, and all values by `all(name)`."""

    def __init__(self, pairs, fold, join):
        super().__init__()
        self._all, self._fold = {}, fold
        for name, value in pairs:
            self._all.setdefault(fold(name), []).append(value)
        for name, values in self._all.items():
            super().__setitem__(name, join(name, values))

    def __getitem__(self, name):
        return super().__getitem__(self._fold(name))

    def __contains__(self, name):
        return isinstance(name, str) and super().__contains__(self._fold(name))

    def get(self, name, default=None):
        return super().get(self._fold(name), default)

    def all(self, name):
        return list(self._all.get(self._fold(name), ()))


class Context:
    """What a handler may know about its call. Parts are decoded when they are asked for."""

    __slots__ = (
        "_buffer",
        "_fields",
        "_channel",
        "_began",
        "_lines",
        "_headers",
        "_query",
        "_body",
        "stream",
        "__dict__",
    )

    function_name = namespace = function_uid = ""

    def __init__(self, buffer, channel):
        self._buffer, self._channel = buffer, channel
        self._fields = _call.unpack_from(buffer, HEADER)
        self._began = monotonic()
        self._lines = self._headers = self._query = self._body = self.stream = None

    def _part(self, number):
        fields = self._fields
        start = _CALL_FIXED
        for at in range(2, number):
            start += fields[at]
        return self._buffer[start : start + fields[number]]

    def _first(self):
        """The bytes of the body that came with the call."""
        f = self._fields
        start = _CALL_FIXED + f[2] + f[3] + f[4] + f[5] + f[6] + f[7]
        return self._buffer[start:]

    def _id(self):
        return self._part(2)

    @property
    def request_id(self):
        return self._part(2).decode("utf-8", "replace")

    @property
    def method(self):
        return self._part(4).decode("latin-1")

    @property
    def path(self):
        """As sent: still percent-encoded."""
        return self._part(5).decode("latin-1")

    @property
    def query_string(self):
        return self._part(6).decode("latin-1")

    @property
    def query(self):
        """Decoded parameters; of a repeated one, the first. `query.all(name)` gives all."""
        if self._query is None:
            from urllib.parse import parse_qsl

            pairs = parse_qsl(self.query_string, keep_blank_values=True)
            self._query = Fields(pairs, str, lambda name, values: values[0])
        return self._query

    @property
    def headers(self):
        """By name in any case; repeated fields are joined. `headers.all(name)` gives each."""
        if self._headers is None:
            data, at, pairs = self._part(7), 0, []
            while at < len(data):
                name, value = _field.unpack_from(data, at)
                at += _field.size
                text = data[at : at + name + value].decode("latin-1")
                pairs.append((text[:name], text[name:]))
                at += name + value
            join = lambda name, values: ("; " if name == "cookie" else ", ").join(values)
            self._headers = Fields(pairs, str.lower, join)
        return self._headers

    @property
    def body(self):
        """The raw bytes; None for a handler that takes the body as a stream."""
        return self._body

    @property
    def remaining(self):
        """Seconds until the deadline."""
        return max(0.0, self._fields[8] / 1000 - (monotonic() - self._began))

    @property
    def deadline(self):
        """Unix time of the deadline."""
        return time() + self.remaining

    @property
    def cancelled(self):
        """Whether the client has left."""
        return self._channel.cancelled()

    def __repr__(self):
        return "<Context %s %s %s>" % (self.request_id, self.method, self.path)


def make_event(call, body):
    kind = call._fields[0]
    call._body = body
    if not body:
        return {}
    if kind == JSON:
        try:
            return loads(body.decode())
        except (ValueError, RecursionError) as error:
            raise BadEvent("the body is not JSON: %s" % error) from None
    if kind == TEXT:
        charset = call._part(3).decode("ascii", "replace") or "utf-8"
        try:
            return body.decode(charset)
        except LookupError:
            raise BadEvent("the charset %r is unknown" % charset) from None
        except ValueError as error:
            raise BadEvent("the body is not a text in %s: %s" % (charset, error)) from None
    if kind == UNNAMED:
        try:
            return loads(body.decode())
        except (ValueError, RecursionError):
            return body
    return body


# --- Answers --------------------------------------------------------------------------------


def head_frame(status, media, headers, length, flags):
    return _response.pack(
        VERSION, RESPONSE, flags, 0, 8 + len(headers) + length, status, media, 0, len(headers)
    ) + headers


def data_frame(data, flags=0):
    return _header.pack(VERSION, DATA, flags, 0, len(data)) + data


def fail_frame(error):
    kind = type(error).__name__.encode()[:256]
    message = error_text(error).encode("utf-8", "replace")[:_MAX_MESSAGE]
    return _header.pack(VERSION, FAIL, END, 0, 2 + len(kind) + len(message)) + (
        len(kind).to_bytes(2, "big") + kind + message
    )


def error_text(error):
    try:
        return str(error)[:_MAX_MESSAGE]
    except Exception:
        return "(its message cannot be shown)"


def error_answer(error, status=500):
    """A whole answer that names an error's type and message."""
    about = {"type": type(error).__name__, "message": error_text(error)}
    body = dumps({"error": about})
    flags = END | ERROR if status == 500 else END
    return head_frame(status, AS_JSON, b"", len(body), flags) + body


class Answer:
    """A handler's result, ready to be sent: a head and either the whole body or its pieces."""

    __slots__ = ("status", "headers", "media", "body", "pieces")

    def __init__(self, result):
        self.status, self.headers, self.media, self.pieces = 200, b"", AS_JSON, None
        kind = type(result)
        if kind is str:
            self.body, self.media = result.encode("utf-8", "surrogatepass"), AS_TEXT
        elif kind is bytes:
            self.body, self.media = result, AS_BYTES
        elif isinstance(result, dict):
            if "statusCode" in result:
                self._response(result)
            else:
                self.body = dumps(result)
        else:
            self._other(result)

    def _other(self, result):
        if result is None or isinstance(result, (list, tuple, int, float)):
            self.body = dumps(result)
        elif isinstance(result, str):
            self.body, self.media = str(result).encode("utf-8", "surrogatepass"), AS_TEXT
        elif isinstance(result, (bytearray, memoryview, bytes)):
            self.body, self.media = bytes(result), AS_BYTES
        elif hasattr(result, "__next__") or hasattr(result, "__aiter__"):
            self.body, self.pieces, self.media = None, result, AS_BYTES
        else:
            _no_json(result)

    def _response(self, result):
        status = result["statusCode"]
        if not isinstance(status, int) or not 200 <= status <= 999:
            raise ResultError("statusCode is %r; expected a number from 200 to 999" % (status,))
        body = result.get("body")
        if body is None:
            self.body, self.media = b"", AS_HEADERS
        elif result.get("isBase64Encoded"):
            from base64 import b64decode

            try:
                self.body, self.media = b64decode(body, validate=True), AS_BYTES
            except (ValueError, TypeError) as error:
                raise ResultError("isBase64Encoded is set, but body is not: %s" % error) from None
        elif type(body) is dict:
            self.body = dumps(body)
        else:
            inner = Answer(body)
            self.body, self.media, self.pieces = inner.body, inner.media, inner.pieces
        self.status = status
        headers = result.get("headers")
        if headers:
            self._encode_headers(headers)

    def _encode_headers(self, headers):
        if not isinstance(headers, dict):
            raise ResultError("headers is of type %s; expected a dict" % type(headers).__name__)
        out = []
        for name, values in headers.items():
            if not isinstance(name, str):
                raise ResultError("headers has a name of type %s" % type(name).__name__)
            if name.lower() == "content-type":
                self.media = AS_HEADERS
            for value in values if isinstance(values, (list, tuple)) else (values,):
                if not isinstance(value, (str, int, float)):
                    kind = type(value).__name__
                    raise ResultError("the header %s has a value of type %s" % (name, kind))
                name_bytes, value = _field_bytes(name), _field_bytes(str(value))
                out.append(_field.pack(len(name_bytes) & 0xFFFF, len(value)) + name_bytes[:0xFFFF] + value)
        self.headers = b"".join(out)

    def as_text(self):
        """The first piece is text, so the stream is."""
        if self.media == AS_BYTES:
            self.media = AS_TEXT

    def head(self, length, flags):
        return head_frame(self.status, self.media, self.headers, length, flags)


def _field_bytes(text):
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def piece_bytes(piece):
    if type(piece) is bytes:
        return piece
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogatepass")
    if isinstance(piece, (bytearray, memoryview, bytes)):
        return bytes(piece)
    kind = type(piece).__name__
    raise ResultError("the handler streamed a value of type %s; expected str or bytes" % kind)


# --- Blocking calls -------------------------------------------------------------------------


def _send(fd, data):
    sent = _write(fd, data)
    if sent < len(data):
        view = memoryview(data)
        while sent < len(data):
            sent += _write(fd, view[sent:])


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
        version, kind, flags, _, length = _header.unpack_from(buffer)
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
        _send(self.fd, data)

    def answer(self, result):
        if hasattr(result, "__await__"):
            result = self._loop_of_this_thread().run_until_complete(_awaited(result))
        answer = Answer(result)
        if answer.pieces is not None:
            return self._stream(answer)
        body = answer.body
        if len(body) <= _SMALL:
            self.send(answer.head(len(body), END) + body)
        else:
            self.send(answer.head(len(body), END))
            self.send(body)

    def _stream(self, answer):
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
                self.send(data_frame(b"", END))
            else:
                self.send(answer.head(0, END))
        except BaseException as error:
            if not begun or _stopping:
                raise
            log_error(error)
            self.send(fail_frame(error))
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
        _current.set(call)
        try:
            if streams:
                event = call.stream = channel.body_pieces(call)
            else:
                event = make_event(call, channel.body(call))
            channel.answer(function(event, call) if with_context else function(event))
        except BadEvent as error:
            channel.send(error_answer(error, 400))
        except Cancelled as error:
            channel.send(fail_frame(error))
        except BaseException as error:
            if _stopping:
                raise
            log_error(error)
            channel.send(error_answer(error))
        if call._lines is not None:
            flush_lines(call)
        if channel._open:
            channel.end_body()
        _current.set(None)


def flush_lines(call):
    with _log_lock:
        for lines in call._lines:
            if lines is not None:
                lines.flush()


# --- Start ----------------------------------------------------------------------------------


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
    global _log_fd, _log_limit
    entrypoint, code, Context.namespace, Context.function_name, Context.function_uid = arguments[:5]
    _log_limit = int(arguments[5])
    control, _log_fd, *slots = map(int, arguments[6].split(","))
    for fd in (control, _log_fd, *slots):
        os.set_inheritable(fd, False)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = _streams[1:]
    sys.argv[:] = [entrypoint]
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
        _send(control, _header.pack(VERSION, REFUSED, 0, 0, len(payload)) + payload)
        os._exit(1)
    start_new_thread(_watch, (control,))
    import _signal

    if _signal.getsignal(_signal.SIGTERM) == _signal.SIG_DFL:
        _signal.signal(_signal.SIGTERM, _terminate)
    if handler.is_async:
        sys.path.insert(0, os.path.dirname(__file__))
        from sless_worker_async import run

        sys.path.pop(0)
    else:
        run = _run_threads
    _send(control, _header.pack(VERSION, READY, 0, 0, 0))
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

