"""What a handler returned, as frames. src/frame.rs documents them."""

from _struct import Struct

try:
    from _json import c_make_encoder, encode_basestring
except ImportError:
    try:
        from _json import encode_basestring, make_encoder as c_make_encoder
    except ImportError:  # Not CPython, or one that has renamed them.
        c_make_encoder = None

VERSION, DATA, RESPONSE, FAIL = 1, 2, 17, 18
END, ERROR = 1, 2
AS_HEADERS, AS_JSON, AS_TEXT, AS_BYTES = range(4)

header = Struct(">BBBBI")
_response = Struct(">BBBBIHBBI")
_field = Struct(">HI")
_MAX_MESSAGE = 16384


class ResultError(Exception):
    """What the handler returned cannot be sent."""


def _no_json(value):
    raise ResultError(
        "the handler returned a value of type " + type(value).__name__ + ", which has no JSON form"
    )


if c_make_encoder is not None:
    _encode = c_make_encoder(
        None, _no_json, encode_basestring, None, ":", ",", False, False, False
    )

    def _dumps(value):
        return "".join(_encode(value, 0))

else:
    import json

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


def head_frame(status, media, headers, length, flags):
    return _response.pack(
        VERSION, RESPONSE, flags, 0, 8 + len(headers) + length, status, media, 0, len(headers)
    ) + headers


def data_frame(data, flags=0):
    return header.pack(VERSION, DATA, flags, 0, len(data)) + data


def fail_frame(error, flags):
    kind = type(error).__name__.encode()[:256]
    message = error_text(error).encode("utf-8", "replace")[:_MAX_MESSAGE]
    return header.pack(VERSION, FAIL, flags, 0, 2 + len(kind) + len(message)) + (
        len(kind).to_bytes(2, "big") + kind + message
    )


def error_text(error):
    try:
        return str(error)[:_MAX_MESSAGE]
    except Exception:
        return "(its message cannot be shown)"


def error_answer(error, flags, status=500):
    """A whole answer that names an error's type and message."""
    about = {"type": type(error).__name__, "message": error_text(error)}
    body = dumps({"error": about})
    if status == 500:
        flags |= ERROR
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
