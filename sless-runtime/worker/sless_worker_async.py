"""The part of the Python worker for `async def` handlers: all slots on one event loop."""

import asyncio
import os
from io import BytesIO

import sless_worker
from sless_worker import CALL, CANCEL, END, HEADER, Cancelled, _SMALL
from sless_worker_answer import (
    Answer,
    data_frame,
    error_answer,
    fail_frame,
    header,
    piece_bytes,
)
from sless_worker_call import BadEvent, Context, call_fields, make_event
from sless_worker_log import current, end_flags, flush_lines, log_error

_READ = 1 << 18
# Pieces of a streamed request body that wait for the handler.
_MAX_WAITING = 16
# After so many the interpreter has adapted its code.
_WARM_ROUNDS = 20


class _Body:
    """The request's body as an asynchronous iterator."""

    def __init__(self, slot, first):
        self._slot, self._pieces, self._waiter = slot, [first] if first else [], None
        self.ended, self.broken = False, False

    def feed(self, piece, end, broken=False):
        if piece:
            self._pieces.append(piece)
        self.ended, self.broken = end, broken
        if len(self._pieces) >= _MAX_WAITING:
            self._slot.pause()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self):
        return self

    async def __anext__(self):
        while not self._pieces:
            if self.broken:
                raise Cancelled("the client has left")
            if self.ended:
                raise StopAsyncIteration
            self._waiter = self._slot.loop.create_future()
            await self._waiter
        piece = self._pieces.pop(0)
        if len(self._pieces) < _MAX_WAITING:
            self._slot.resume()
        return piece


class _Slot:
    """One slot; it is its calls' channel."""

    def __init__(self, loop, fd, handler):
        self.loop, self.fd, self.handler = loop, fd, handler
        # What is to be written is not copied: a long answer is held once.
        self._input, self._output = bytearray(), []
        self._task = self._call = self._whole = self._stream = self._writable = None
        self._open = self._left = self._paused = False
        os.set_blocking(fd, False)
        loop.add_reader(fd, self._readable)

    def cancelled(self):
        return self._left

    # What the host says.

    def pause(self):
        if not self._paused:
            self._paused = True
            self.loop.remove_reader(self.fd)

    def resume(self):
        if self._paused:
            self._paused = False
            self.loop.add_reader(self.fd, self._readable)

    def _readable(self):
        try:
            data = os.read(self.fd, _READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            # The host has given this slot up.
            self.loop.remove_reader(self.fd)
            self._cancel()
            return
        if not self._input:
            used = self._frames(data)
            if used < len(data):
                self._input += data[used:]
        else:
            self._input += data
            size = len(self._input)
            if size < HEADER or size < HEADER + int.from_bytes(self._input[4:8], "big"):
                return
            data = bytes(self._input)
            self._input.clear()
            used = self._frames(data)
            if used < size:
                self._input += data[used:]

    def _frames(self, data):
        at, size = 0, len(data)
        while size - at >= HEADER:
            _, kind, flags, _, length = header.unpack_from(data, at)
            end = at + HEADER + length
            if end > size:
                break
            self._frame(kind, flags, data[at:end])
            at = end
        return at

    def _frame(self, kind, flags, frame):
        if kind == CALL:
            self._left, self._open = False, not flags & END
            call = self._call = Context(frame, self)
            if self.handler.streams:
                self._stream = call.stream = _Body(self, call._first())
                self._stream.ended = not self._open
                self._begin(call, None)
            elif self._open:
                self._whole = BytesIO()
                self._whole.write(call._first())
            else:
                self._begin(call, call._first())
        elif kind == CANCEL:
            self._open = False
            if self._whole is not None:
                self._whole = None
                self.write(fail_frame(Cancelled("the client has left"), END))
            elif self._task is not None:
                self._cancel()
        elif self._open:
            self._open = not flags & END
            if self._stream is not None:
                self._stream.feed(frame[HEADER:], not self._open)
            elif self._whole is not None:
                self._whole.write(memoryview(frame)[HEADER:])
                if not self._open:
                    body, self._whole = self._whole.getvalue(), None
                    self._begin(self._call, body)

    def _cancel(self):
        self._left = True
        if self._stream is not None:
            self._stream.feed(b"", True, broken=True)
        if self._task is not None:
            self._task.cancel()

    # What the handler does.

    def _begin(self, call, body):
        self._task = self.loop.create_task(self._run(call, body))

    async def _run(self, call, body):
        current.set(call)
        handler = self.handler
        begun = [False]
        try:
            event = call.stream if handler.streams else make_event(call, body)
            result = handler.function(event, call) if handler.with_context else handler.function(event)
            if hasattr(result, "__await__"):
                result = await result
            await self._answer(call, result, begun)
            last = None
        except BadEvent as error:
            last = error_answer(error, end_flags(call), 400)
        except (asyncio.CancelledError, Cancelled) as error:
            as_last = fail_frame if self._left or begun[0] else error_answer
            last = as_last(error, end_flags(call))
        except BaseException as error:
            if sless_worker._stopping:
                raise
            log_error(error)
            as_last = fail_frame if begun[0] else error_answer
            last = as_last(error, end_flags(call))
        if call._lines is not None:
            flush_lines(call)
        if last is not None:
            self.write(last)
        self._task = self._stream = None
        self.resume()

    async def _answer(self, call, result, begun):
        answer = Answer(result)
        if answer.pieces is None:
            body = answer.body
            # From here on a cancellation comes too late: the answer is on its way.
            begun[0] = True
            head = answer.head(len(body), end_flags(call))
            if len(body) <= _SMALL:
                self.write(head + body)
            else:
                self.write(head)
                self.write(body)
            return
        pieces = answer.pieces
        try:
            if hasattr(pieces, "__aiter__"):
                async for piece in pieces:
                    await self._piece(answer, piece, begun)
            else:
                for piece in pieces:
                    await self._piece(answer, piece, begun)
        finally:
            if hasattr(pieces, "aclose"):
                await pieces.aclose()
            elif hasattr(pieces, "close"):
                pieces.close()
        flags = end_flags(call)
        self.write(data_frame(b"", flags) if begun[0] else answer.head(0, flags))

    async def _piece(self, answer, piece, begun):
        data = piece_bytes(piece)
        if not begun[0]:
            if isinstance(piece, str):
                answer.as_text()
            frame = answer.head(len(data), 0) + data
            begun[0] = True
        elif data:
            frame = data_frame(data)
        else:
            return
        self.write(frame)
        if self._output:
            await self._drained()

    # What goes out.

    def write(self, data):
        if self._output:
            self._output.append(_unchanging(data))
            return
        try:
            sent = os.write(self.fd, data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return
        if sent < len(data):
            self._output.append(_unchanging(data)[sent:])
            self.loop.add_writer(self.fd, self._flush)

    def _flush(self):
        first = self._output[0]
        try:
            sent = os.write(self.fd, first)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._output.clear()
        else:
            if sent < len(first):
                self._output[0] = first[sent:]
            else:
                del self._output[0]
        if not self._output:
            self.loop.remove_writer(self.fd)
            if self._writable is not None and not self._writable.done():
                self._writable.set_result(None)

    async def _drained(self):
        self._writable = self.loop.create_future()
        await self._writable


def _unchanging(data):
    """A view of bytes that nobody changes meanwhile."""
    return memoryview(data if isinstance(data, bytes) else bytes(data))


class _Nothing:
    with_context, streams = True, False

    @staticmethod
    async def function(event, call):
        return {}


def warm_up():
    """Serves calls of nobody on a loop that is closed then.

    The interpreter rewrites code that it runs. What is written to before a fork is shared by all copies,
    and need not be written to by each.
    """
    import _socket

    ours, theirs = _socket.socketpair()
    loop = asyncio.new_event_loop()
    slot = _Slot(loop, theirs.fileno(), _Nothing)
    call = header.pack(1, CALL, END, 0, call_fields.size) + call_fields.pack(*(0,) * 11)

    async def calls():
        for _ in range(_WARM_ROUNDS):
            ours.send(call)
            answered = loop.create_future()
            loop.add_reader(ours.fileno(), answered.set_result, None)
            await answered
            loop.remove_reader(ours.fileno())
            ours.recv(_READ)

    loop.run_until_complete(calls())
    loop.remove_reader(slot.fd)
    loop.close()
    ours.close()
    theirs.close()


def run(fds, handler):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    slots = [_Slot(loop, fd, handler) for fd in fds]
    loop.run_forever()
    del slots
