// One socket of the host, on which one call runs at a time.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const { answerOf, pieceBytes } = require('./worker_answer.js');
const { BadEvent, Context, makeEvent } = require('./worker_call.js');
const { ended, logError, within } = require('./worker_log.js');
const {
  HEADER, CALL, DATA, CANCEL, END, LOGGED, AS_TEXT, AS_BYTES, NOTHING,
  responseFrame, dataFrame, dataHead, failFrame, errorFrame,
} = require('./worker_frames.js');

const UNKNOWN_LENGTH = 0xffffffffffffffffn;
const READ = 65536;
const SMALL = 65536;
// A piece of an answer that is longer is not copied into its frame.
const LONG_PIECE = 8192;
// Pieces of a streamed request body that wait for the handler.
const MAX_WAITING = 16;

// The request's body as an asynchronous iterator.
class BodyStream {
  constructor(slot, first, ended) {
    this.slot = slot;
    this.pieces = first.length > 0 ? [first] : [];
    this.ended = ended;
    this.error = null;
    this.wake = null;
  }

  feed(piece, ended, error) {
    if (piece.length > 0) this.pieces.push(piece);
    this.ended = ended;
    this.error = error;
    if (this.pieces.length >= MAX_WAITING) this.slot.pause();
    this.wake?.();
  }

  async* [Symbol.asyncIterator]() {
    for (;;) {
      while (this.pieces.length === 0) {
        if (this.error !== null) throw this.error;
        if (this.ended) return;
        await new Promise((resolve) => { this.wake = resolve; });
      }
      const piece = this.pieces.shift();
      if (this.pieces.length < MAX_WAITING) this.slot.resume();
      yield piece;
    }
  }
}

class Slot {
  constructor(fd, handler) {
    this.fd = fd;
    this.handler = handler;
    // The beginning of a frame whose end is not there yet.
    this.rest = null;
    // Bytes of a DATA frame that are still to come, and whether the body ends with them.
    this.owed = 0;
    this.owedEnds = false;
    this.call = null;
    // The request's body, while it is not all there.
    this.open = false;
    this.whole = null;
    this.stream = null;
    this.onLeave = null;
    const buffer = Buffer.allocUnsafeSlow(READ);
    this.socket = new net.Socket({
      fd,
      readable: true,
      writable: true,
      allowHalfOpen: true,
      onread: { buffer, callback: (size) => this.read(buffer.subarray(0, size)) },
    });
    this.socket.on('error', () => {});
    this.socket.on('end', () => this.leave());
  }

  // What the host says.

  pause() { this.socket.pause(); }

  resume() { if (this.socket.isPaused()) this.socket.resume(); }

  // `data` is only good until this returns.
  read(data) {
    if (this.owed > 0) data = this.handOn(data);
    if (this.rest !== null) {
      this.rest.parts.push(Buffer.from(data));
      this.rest.size += data.length;
      if (this.rest.size < this.rest.wanted) return true;
      data = Buffer.concat(this.rest.parts, this.rest.size);
      this.rest = null;
    }
    let at = 0;
    while (data.length - at >= HEADER) {
      const end = at + HEADER + data.readUInt32BE(at + 4);
      if (end > data.length) {
        if (data[at + 1] !== DATA) break;
        this.owed = end - at - HEADER;
        this.owedEnds = (data[at + 2] & END) !== 0;
        this.handOn(data.subarray(at + HEADER));
        return true;
      }
      this.frame(data[at + 1], data[at + 2], data.subarray(at, end));
      at = end;
    }
    if (at < data.length) {
      const left = Buffer.from(data.subarray(at));
      const wanted = left.length >= HEADER ? HEADER + left.readUInt32BE(4) : HEADER;
      this.rest = { parts: [left], size: left.length, wanted };
    }
    return true;
  }

  // Hands on what is there of a DATA frame, so that no more of it is held; answers what follows it.
  handOn(data) {
    const piece = data.subarray(0, this.owed);
    this.owed -= piece.length;
    this.body(piece, this.owed === 0 && this.owedEnds);
    return data.subarray(piece.length);
  }

  // The next bytes of the request's body.
  body(piece, ended) {
    if (!this.open) return;
    this.open = !ended;
    if (this.stream !== null) {
      this.stream.feed(Buffer.from(piece), ended, null);
    } else if (this.whole !== null) {
      this.whole.add(piece);
      if (ended) {
        const body = this.whole.bytes();
        this.whole = null;
        this.begin(this.call, body);
      }
    }
  }

  frame(kind, flags, frame) {
    if (kind === CALL) {
      const call = new Context(Buffer.from(frame));
      this.call = call;
      this.open = (flags & END) === 0;
      const first = call.part(6);
      if (this.handler.streams) {
        this.stream = new BodyStream(this, first, !this.open);
        this.begin(call, null);
      } else if (this.open) {
        this.whole = new Whole(call.frame.readBigUInt64BE(32));
        this.whole.add(first);
      } else {
        this.begin(call, first);
      }
    } else if (kind === CANCEL) {
      this.open = false;
      if (this.whole !== null) {
        this.whole = null;
        this.call = null;
        this.send(failFrame(new Error('the client has left')));
      } else if (this.call !== null) {
        this.leave();
      }
    } else {
      this.body(frame.subarray(HEADER), (flags & END) !== 0);
    }
  }

  leave() {
    if (this.call === null) return;
    Context.leave(this.call);
    this.stream?.feed(NOTHING, true, new Error('the client has left'));
    this.onLeave?.();
  }

  // What the handler does.

  begin(call, body) {
    within(call, () => this.run(call, body));
  }

  run(call, body) {
    let result;
    try {
      const { handler } = this;
      const event = handler.streams ? (call.stream = this.stream) : makeEvent(call, body);
      result = handler.run(event, call);
      if (result === null || typeof result !== 'object' || typeof result.then !== 'function') {
        this.answer(call, result);
        return;
      }
    } catch (error) {
      this.fail(call, error);
      return;
    }
    result.then((value) => this.answer(call, value), (error) => this.fail(call, error));
  }

  answer(call, result) {
    let frame;
    let isRest = false;
    try {
      const answer = answerOf(result);
      if (answer.pieces !== undefined) {
        this.sendPieces(call, answer);
        return;
      }
      const { status, media, fields, body } = answer;
      if (typeof body === 'string' || body.length <= SMALL) {
        frame = responseFrame(status, media, fields, body, END);
      } else {
        frame = responseFrame(status, media, fields, NOTHING, END);
        frame.writeUInt32BE(8 + fields.length + body.length, 4);
        if (ended(call)) frame[2] |= LOGGED;
        this.send(frame);
        frame = body;
        isRest = true;
      }
    } catch (error) {
      this.fail(call, error);
      return;
    }
    this.end(call, frame, isRest);
  }

  fail(call, error) {
    if (error instanceof BadEvent) {
      this.end(call, errorFrame(error, 400));
      return;
    }
    logError(error);
    this.end(call, errorFrame(error, 500));
  }

  // `frame` ends the answer; where it is the rest of a long body, its head said so already.
  end(call, frame, isRest = false) {
    if (ended(call) && !isRest) frame[2] |= LOGGED;
    this.call = null;
    this.stream = null;
    this.onLeave = null;
    this.send(frame);
    this.resume();
  }

  async sendPieces(call, answer) {
    const { status, fields, pieces } = answer;
    let { media } = answer;
    let begun = false;
    let iterator;
    try {
      const isAsync = typeof pieces[Symbol.asyncIterator] === 'function';
      iterator = isAsync ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
      for (let count = 1; !call.left; count++) {
        const { done, value } = isAsync ? await this.unlessLeft(iterator.next()) : iterator.next();
        if (done) break;
        const data = pieceBytes(value);
        let flowing = true;
        if (!begun) {
          begun = true;
          if (typeof value === 'string' && media === AS_BYTES) media = AS_TEXT;
          flowing = this.send(responseFrame(status, media, fields, data, 0));
        } else if (data.length > LONG_PIECE) {
          this.send(dataHead(data.length));
          // It is not copied, so the handler gets its turn again once it is written.
          flowing = this.send(data) && this.socket.writableLength === 0;
        } else if (data.length > 0) {
          flowing = this.send(dataFrame(data, 0));
        }
        if (!flowing) await this.unlessLeft(this.drained());
        // Lets the host's CANCEL and other calls in.
        if (!isAsync && count % 16 === 0) await new Promise(setImmediate);
      }
      if (call.left) {
        const returned = iterator.return?.();
        if (typeof returned?.catch === 'function') returned.catch(() => {});
      }
      this.end(call, begun ? dataFrame(NOTHING, END) : responseFrame(status, media, fields, NOTHING, END));
    } catch (error) {
      if (!begun) {
        this.fail(call, error);
        return;
      }
      logError(error);
      this.end(call, failFrame(error));
    }
  }

  // Waits, but for no client that has left. `Promise.race` with a promise that stays open would keep every
  // piece of the answer with that promise.
  unlessLeft(promise) {
    return new Promise((resolve, reject) => {
      this.onLeave = () => resolve({ done: true });
      Promise.resolve(promise).then(resolve, reject);
    });
  }

  // What goes out.

  // False when the socket is full. Written at once where that is possible: it saves a turn
  // through the stream.
  send(data) {
    if (this.socket.writableLength === 0) {
      let sent = 0;
      try {
        sent = fs.writeSync(this.fd, data);
      } catch (error) {
        if (error.code !== 'EAGAIN') return true;
      }
      if (sent === data.length) return true;
      data = data.subarray(sent);
    }
    return this.socket.write(data);
  }

  drained() {
    return new Promise((resolve) => { this.socket.write(NOTHING, resolve); });
  }
}

// A body that comes in pieces.
class Whole {
  constructor(length) {
    // The host has checked the length against its limit.
    this.buffer = length === UNKNOWN_LENGTH ? null : Buffer.allocUnsafeSlow(Number(length));
    this.pieces = [];
    this.size = 0;
  }

  add(piece) {
    if (this.buffer !== null && this.size + piece.length <= this.buffer.length) {
      this.buffer.set(piece, this.size);
    } else if (piece.length > 0) {
      this.pieces.push(Buffer.from(piece));
    }
    this.size += piece.length;
  }

  bytes() {
    if (this.buffer !== null && this.pieces.length === 0) return this.buffer.subarray(0, this.size);
    return Buffer.concat(this.pieces);
  }
}

module.exports = { Slot };
