"""A call as its handler sees it: the event and the context."""

from _struct import Struct
from time import monotonic, time

try:
    from _json import make_scanner
except ImportError:  # Not CPython.
    make_scanner = None

HEADER = 8
EMPTY, JSON, TEXT, BYTES, UNNAMED = range(5)

call_fields = Struct(">BBHHHIIIIQQ")
_field = Struct(">HI")
_CALL_FIXED = HEADER + call_fields.size


class BadEvent(Exception):
    """The body is not what its media type says; answered with 400."""


def _no_constant(name):
    raise ValueError(name + " is not JSON")


if make_scanner is not None:

    class _Rules:
        strict, object_hook, object_pairs_hook = True, None, None
        parse_float, parse_int, parse_constant = float, int, staticmethod(_no_constant)
        memo = {}

    _scan = make_scanner(_Rules)

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

else:
    import json

    def loads(text):
        return json.loads(text, parse_constant=_no_constant)


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
        self._fields = call_fields.unpack_from(buffer, HEADER)
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
