// The Node worker: loads a handler and runs the calls that its host sends.
//
// Started by the host with inherited sockets; src/frame.rs documents what is said on them. It
// uses Node's own modules only, and loads late what not every call needs.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { isUtf8 } = require('node:buffer');

const VERSION = 1;
const HEADER = 8;
const CALL = 1, DATA = 2, CANCEL = 3, RESPONSE = 17, FAIL = 18, READY = 33, REFUSED = 34, LOG = 35;
const END = 1, ERROR = 2;
const JSON_EVENT = 1, TEXT_EVENT = 2, UNNAMED_EVENT = 4;
const AS_HEADERS = 0, AS_JSON = 1, AS_TEXT = 2, AS_BYTES = 3;
const CALL_FIXED = HEADER + 32;
const UNKNOWN_LENGTH = 0xffffffffffffffffn;
const READ = 65536;
const SMALL = 65536;
const MAX_MESSAGE = 16384;
// Pieces of a streamed request body that wait for the handler.
const MAX_WAITING = 16;
const NOTHING = Buffer.alloc(0);

const [entrypoint, codeDir, namespace, functionName, functionUid, limitText, fdText] =
  process.argv.slice(2);
const logLimit = Number(limitText);
const [controlFd, logFd, ...slotFds] = fdText.split(',').map(Number);

// The body is not what its media type says; answered with 400.
class BadEvent extends Error {
  get name() { return 'BadEvent'; }
}

// What the handler returned cannot be sent.
class ResultError extends Error {
  get name() { return 'ResultError'; }
}

// The start failed.
class Refused extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

// --- Logs ------------------------------------------------------------------------------------

// With one call at a time a variable says whose lines these are; otherwise the asynchronous
// context does, which costs every promise a little.
let running = null;
const storage = slotFds.length > 1
  ? new (require('node:async_hooks').AsyncLocalStorage)()
  : null;
const currentCall = () => (storage === null ? running : storage.getStore() ?? null);

function writeAll(fd, data) {
  let at = 0;
  while (at < data.length) at += fs.writeSync(fd, data, at);
}

// What was written to a stream since its last line end.
class Lines {
  constructor(stream, id) {
    this.stream = stream;
    this.id = id;
    this.text = '';
    this.skipping = false;
  }

  write(text) {
    const frames = [];
    let at = 0;
    while (at < text.length) {
      const end = text.indexOf('\n', at);
      const stop = end < 0 ? text.length : end;
      if (!this.skipping) {
        const room = logLimit - this.text.length;
        if (stop - at > room) {
          // Given at once: the end of the line may never come.
          frames.push(this.frame(this.text + text.slice(at, at + room), true));
          this.text = '';
          this.skipping = true;
        } else {
          this.text += text.slice(at, stop);
        }
      }
      if (end < 0) break;
      if (!this.skipping) frames.push(this.frame(this.text, false));
      this.text = '';
      this.skipping = false;
      at = end + 1;
    }
    if (frames.length > 0) writeAll(logFd, frames.length === 1 ? frames[0] : Buffer.concat(frames));
  }

  flush() {
    if (this.text === '') return;
    const frame = this.frame(this.text, false);
    this.text = '';
    writeAll(logFd, frame);
  }

  frame(text, truncated) {
    let line = Buffer.from(text);
    if (line.length > logLimit) {
      truncated = true;
      let end = logLimit;
      while (end > 0 && (line[end] & 0xc0) === 0x80) end -= 1;
      line = line.subarray(0, end);
    }
    if (line.at(-1) === 13) line = line.subarray(0, -1);
    const frame = Buffer.allocUnsafe(HEADER + 4 + this.id.length + line.length);
    header(frame, LOG, 0, frame.length - HEADER);
    frame[8] = this.stream;
    frame[9] = truncated ? 1 : 0;
    frame.writeUInt16BE(this.id.length, 10);
    this.id.copy(frame, 12);
    line.copy(frame, 12 + this.id.length);
    return frame;
  }
}

const rootLines = [null, new Lines(1, NOTHING), new Lines(2, NOTHING)];

function logText(stream, text) {
  const call = currentCall();
  if (call === null) return rootLines[stream].write(text);
  call.lines ??= [null, null, null];
  (call.lines[stream] ??= new Lines(stream, call.part(0))).write(text);
}

function logError(error) {
  const text = error instanceof Error && typeof error.stack === 'string'
    ? error.stack
    : require('node:util').inspect(error);
  const own = text.split('\n').filter((line) => !line.includes(__filename));
  logText(2, own.join('\n') + '\n');
}

function replaceStream(name, number) {
  let stream;
  const make = () => {
    const { Writable } = require('node:stream');
    stream = new Writable({
      decodeStrings: false,
      write(chunk, encoding, done) {
        logText(number, typeof chunk === 'string' ? chunk : chunk.toString());
        done();
      },
    });
    stream.fd = number;
    return stream;
  };
  const get = () => stream ?? make();
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get });
}

// --- Frames ----------------------------------------------------------------------------------

function header(frame, kind, flags, length) {
  frame[0] = VERSION;
  frame[1] = kind;
  frame[2] = flags;
  frame[3] = 0;
  frame.writeUInt32BE(length, 4);
}

// A whole answer or its head: `fields` are encoded headers, `body` a string or bytes.
function responseFrame(status, media, fields, body, flags) {
  const isText = typeof body === 'string';
  const size = isText ? Buffer.byteLength(body) : body.length;
  const frame = Buffer.allocUnsafe(16 + fields.length + size);
  header(frame, RESPONSE, flags, 8 + fields.length + size);
  frame.writeUInt16BE(status, 8);
  frame[10] = media;
  frame[11] = 0;
  frame.writeUInt32BE(fields.length, 12);
  if (fields.length > 0) fields.copy(frame, 16);
  if (isText) frame.write(body, 16 + fields.length);
  else if (size > 0) frame.set(body, 16 + fields.length);
  return frame;
}

function dataFrame(data, flags) {
  const frame = Buffer.allocUnsafe(HEADER + data.length);
  header(frame, DATA, flags, data.length);
  frame.set(data, HEADER);
  return frame;
}

function wordFrame(kind, flags, word, text) {
  const first = Buffer.from(word).subarray(0, 256);
  const rest = Buffer.from(text).subarray(0, MAX_MESSAGE);
  const length = Buffer.allocUnsafe(2);
  length.writeUInt16BE(first.length);
  const head = Buffer.allocUnsafe(HEADER);
  header(head, kind, flags, 2 + first.length + rest.length);
  return Buffer.concat([head, length, first, rest]);
}

function errorKind(error) {
  if (error instanceof Error) return String(error.name || error.constructor?.name || 'Error');
  return error === null ? 'null' : typeof error;
}

function errorMessage(error) {
  try {
    return String(error instanceof Error ? error.message : error).slice(0, MAX_MESSAGE);
  } catch {
    return '(its message cannot be shown)';
  }
}

const failFrame = (error) => wordFrame(FAIL, END, errorKind(error), errorMessage(error));

function errorFrame(error, status) {
  const body = JSON.stringify({ error: { type: errorKind(error), message: errorMessage(error) } });
  return responseFrame(status, AS_JSON, NOTHING, body, status === 500 ? END | ERROR : END);
}

// --- The call --------------------------------------------------------------------------------

// What a handler may know about its call. Parts are decoded when they are asked for.
class Context {
  #query;
  #headers;
  #abort;
  #began = performance.now();

  constructor(frame) {
    // Not in the way of those who print a context.
    Object.defineProperty(this, 'frame', { value: frame });
    for (const name of ['lines', 'left', 'stream', 'body']) {
      Object.defineProperty(this, name, { value: null, writable: true });
    }
    this.left = false;
  }

  // 0 id, 1 charset, 2 method, 3 path, 4 query, 5 headers, 6 the body's first bytes.
  part(number) {
    const { frame } = this;
    let start = CALL_FIXED;
    for (let at = 0; ; at++) {
      if (at === 6) return frame.subarray(start);
      const length = at < 3 ? frame.readUInt16BE(10 + 2 * at) : frame.readUInt32BE(16 + 4 * (at - 3));
      if (at === number) return frame.subarray(start, start + length);
      start += length;
    }
  }

  get requestId() { return this.part(0).toString(); }
  get functionName() { return functionName; }
  get namespace() { return namespace; }
  get functionUid() { return functionUid; }
  get method() { return this.part(2).latin1Slice(); }
  // As sent: still percent-encoded.
  get path() { return this.part(3).latin1Slice(); }
  get queryString() { return this.part(4).latin1Slice(); }

  get searchParams() { return new URLSearchParams(this.queryString); }

  // Decoded parameters; of a repeated one, the first.
  get query() {
    if (this.#query === undefined) {
      this.#query = Object.create(null);
      for (const [name, value] of this.searchParams) this.#query[name] ??= value;
    }
    return this.#query;
  }

  // Pairs of name and value, in order.
  get rawHeaders() {
    const data = this.part(5);
    const pairs = [];
    for (let at = 0; at < data.length;) {
      const name = data.readUInt16BE(at);
      const value = data.readUInt32BE(at + 2);
      at += 6;
      pairs.push([data.latin1Slice(at, at + name), data.latin1Slice(at + name, at + name + value)]);
      at += name + value;
    }
    return pairs;
  }

  // By lower-case name; repeated fields are joined.
  get headers() {
    if (this.#headers === undefined) {
      this.#headers = Object.create(null);
      for (const [name, value] of this.rawHeaders) {
        const before = this.#headers[name];
        this.#headers[name] = before === undefined
          ? value
          : before + (name === 'cookie' ? '; ' : ', ') + value;
      }
    }
    return this.#headers;
  }

  // Milliseconds until the deadline.
  get remaining() {
    return Math.max(0, this.frame.readUInt32BE(28) - (performance.now() - this.#began));
  }

  // The deadline in milliseconds since 1970.
  get deadline() { return Date.now() + this.remaining; }

  // Whether the client has left.
  get cancelled() { return this.left; }

  // Aborts when the client leaves.
  get signal() {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.left) this.#abort.abort();
    }
    return this.#abort.signal;
  }

  // The host's CANCEL.
  static leave(call) {
    call.left = true;
    call.#abort?.abort();
  }
}

const LATIN = new Set(['latin1', 'latin-1', 'iso-8859-1', 'iso8859-1', 'l1']);

function decodeText(body, charset) {
  const name = charset.toLowerCase();
  if (LATIN.has(name)) return body.latin1Slice();
  if (name === '' || name === 'utf-8' || name === 'utf8') {
    if (!isUtf8(body)) throw new BadEvent('the body is not a text in utf-8');
    return body.toString();
  }
  let decoder;
  try {
    decoder = new TextDecoder(name, { fatal: true });
  } catch {
    throw new BadEvent(`the charset '${charset}' is unknown`);
  }
  try {
    return decoder.decode(body);
  } catch {
    throw new BadEvent(`the body is not a text in ${charset}`);
  }
}

function parseJson(body) {
  if (!isUtf8(body)) throw new BadEvent('the body is not JSON: it is not UTF-8');
  try {
    return JSON.parse(body.toString());
  } catch (error) {
    throw new BadEvent(`the body is not JSON: ${error.message}`);
  }
}

function makeEvent(call, body) {
  call.body = body;
  if (body.length === 0) return {};
  const kind = call.frame[HEADER];
  if (kind === JSON_EVENT) return parseJson(body);
  if (kind === TEXT_EVENT) return decodeText(body, call.part(1).toString());
  if (kind === UNNAMED_EVENT) {
    try {
      return parseJson(body);
    } catch {
      return body;
    }
  }
  return body;
}

// --- Answers ---------------------------------------------------------------------------------

function typeName(value) {
  if (typeof value !== 'object') return typeof value;
  return value.constructor?.name || 'Object';
}

const noJson = (what) => new ResultError(`the handler returned ${what}, which has no JSON form`);

// JSON.stringify turns some values into null or {} without a word.
function checkLossless(value) {
  JSON.stringify(value, function check(key, item) {
    if (typeof item === 'number' && !Number.isFinite(item)) throw noJson(`the number ${item}`);
    if (item === null && this[key] instanceof Date) throw noJson('an invalid Date');
    if (item instanceof Map || item instanceof Set || item instanceof WeakMap
      || item instanceof WeakSet || item instanceof RegExp || item instanceof Promise
      || item instanceof Error) {
      throw noJson(`a value of type ${typeName(item)}`);
    }
    return item;
  });
}

function stringify(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    const what = typeof value === 'bigint' ? 'a value of type bigint' : 'a value';
    throw new ResultError(`the handler returned ${what} without a JSON form: ${errorMessage(error)}`);
  }
  if (text === undefined) throw noJson(`a value of type ${typeof value}`);
  if (text.includes('null') || text.includes('{}')) checkLossless(value);
  return text;
}

const isStream = (value) => typeof value[Symbol.asyncIterator] === 'function'
  || (typeof value.next === 'function' && typeof value[Symbol.iterator] === 'function');

// A result, ready to be sent: media type and body, or pieces of one.
function bodyOf(value) {
  if (value === undefined || value === null) return { media: AS_JSON, body: 'null' };
  if (typeof value === 'string') return { media: AS_TEXT, body: value };
  if (typeof value !== 'object') return { media: AS_JSON, body: stringify(value) };
  if (value instanceof Uint8Array) return { media: AS_BYTES, body: value };
  if (value instanceof ArrayBuffer) return { media: AS_BYTES, body: new Uint8Array(value) };
  if (ArrayBuffer.isView(value)) {
    const body = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return { media: AS_BYTES, body };
  }
  if (isStream(value)) return { media: AS_BYTES, pieces: value };
  return { media: AS_JSON, body: stringify(value) };
}

function answerOf(result) {
  if (result === null || typeof result !== 'object' || !('statusCode' in result)) {
    return { status: 200, fields: NOTHING, ...bodyOf(result) };
  }
  const { statusCode, body, headers } = result;
  if (!Number.isInteger(statusCode) || statusCode < 200 || statusCode > 999) {
    throw new ResultError(`statusCode is ${String(statusCode)}; expected a number from 200 to 999`);
  }
  const answer = { status: statusCode, fields: NOTHING };
  if (body === undefined || body === null) {
    Object.assign(answer, { media: AS_HEADERS, body: NOTHING });
  } else if (result.isBase64Encoded) {
    if (typeof body !== 'string') {
      throw new ResultError('isBase64Encoded is set, but body is not a string');
    }
    Object.assign(answer, { media: AS_BYTES, body: Buffer.from(body, 'base64') });
  } else {
    Object.assign(answer, bodyOf(body));
  }
  if (headers !== undefined && headers !== null) encodeHeaders(answer, headers);
  return answer;
}

function encodeHeaders(answer, headers) {
  if (typeof headers !== 'object') {
    throw new ResultError(`headers is of type ${typeof headers}; expected an object`);
  }
  const out = [];
  const pairs = typeof headers.entries === 'function' ? headers.entries() : Object.entries(headers);
  for (const [name, values] of pairs) {
    if (name.toLowerCase() === 'content-type') answer.media = AS_HEADERS;
    for (const value of Array.isArray(values) ? values : [values]) {
      if (typeof value !== 'string' && typeof value !== 'number') {
        throw new ResultError(`the header ${name} has a value of type ${typeof value}`);
      }
      const key = fieldBytes(name).subarray(0, 0xffff);
      const text = fieldBytes(String(value));
      const lengths = Buffer.allocUnsafe(6);
      lengths.writeUInt16BE(key.length, 0);
      lengths.writeUInt32BE(text.length, 2);
      out.push(lengths, key, text);
    }
  }
  answer.fields = Buffer.concat(out);
}

// eslint-disable-next-line no-control-regex
const fieldBytes = (text) => Buffer.from(text, /^[\0-\xff]*$/.test(text) ? 'latin1' : 'utf8');

function pieceBytes(piece) {
  if (typeof piece === 'string') return Buffer.from(piece);
  if (piece instanceof Uint8Array) return piece;
  if (piece instanceof ArrayBuffer) return new Uint8Array(piece);
  const kind = piece === null ? 'null' : typeName(piece);
  throw new ResultError(`the handler streamed a value of type ${kind}; expected string or bytes`);
}

// --- Slots -----------------------------------------------------------------------------------

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
    this.rest = null;
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
      if (end > data.length) break;
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
    } else if (this.open) {
      this.open = (flags & END) === 0;
      const piece = frame.subarray(HEADER);
      if (this.stream !== null) {
        this.stream.feed(Buffer.from(piece), !this.open, null);
      } else if (this.whole !== null) {
        this.whole.add(piece);
        if (!this.open) {
          const body = this.whole.bytes();
          this.whole = null;
          this.begin(this.call, body);
        }
      }
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
    if (storage === null) {
      running = call;
      this.run(call, body);
    } else {
      storage.run(call, () => this.run(call, body));
    }
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
        this.send(frame);
        frame = body;
      }
    } catch (error) {
      this.fail(call, error);
      return;
    }
    this.end(call, frame);
  }

  fail(call, error) {
    if (error instanceof BadEvent) {
      this.end(call, errorFrame(error, 400));
      return;
    }
    logError(error);
    this.end(call, errorFrame(error, 500));
  }

  end(call, frame) {
    if (call.lines !== null) for (const lines of call.lines) lines?.flush();
    this.call = null;
    this.stream = null;
    this.onLeave = null;
    if (storage === null) running = null;
    this.send(frame);
    this.resume();
  }

  async sendPieces(call, answer) {
    const { status, fields, pieces } = answer;
    let { media } = answer;
    let begun = false;
    let iterator;
    const left = new Promise((resolve) => { this.onLeave = () => resolve({ done: true }); });
    try {
      const isAsync = typeof pieces[Symbol.asyncIterator] === 'function';
      iterator = isAsync ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
      for (let count = 1; !call.left; count++) {
        const { done, value } = isAsync ? await Promise.race([iterator.next(), left]) : iterator.next();
        if (done) break;
        const data = pieceBytes(value);
        let flowing = true;
        if (!begun) {
          begun = true;
          if (typeof value === 'string' && media === AS_BYTES) media = AS_TEXT;
          flowing = this.send(responseFrame(status, media, fields, data, 0));
        } else if (data.length > 0) {
          flowing = this.send(dataFrame(data, 0));
        }
        if (!flowing) await Promise.race([this.drained(), left]);
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
    return new Promise((resolve) => { this.socket.once('drain', resolve); });
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

// --- Start -----------------------------------------------------------------------------------

function findModule(name) {
  const base = path.join(codeDir, ...name.split(/[./]/));
  const literal = path.join(codeDir, name);
  for (const start of base === literal ? [base] : [base, literal]) {
    for (const end of ['.js', '.cjs', '.mjs', '/index.js', '/index.cjs', '/index.mjs']) {
      if (fs.existsSync(start + end)) return start + end;
    }
  }
  throw new Refused(
    'handler_import',
    `the entrypoint ${entrypoint} names a module that is not there: ${name}`,
  );
}

async function loadModule(file) {
  const { pathToFileURL } = require('node:url');
  if (file.endsWith('.mjs')) return import(pathToFileURL(file));
  try {
    return require(file);
  } catch (error) {
    if (error?.code !== 'ERR_REQUIRE_ESM') throw error;
    return import(pathToFileURL(file));
  }
}

function checkSignature(handler) {
  // Node calls it `length` and does not count defaults and rest parameters; of the rest, only
  // an empty list that does not read `arguments` takes nothing.
  let count = handler.length;
  if (count === 0) {
    const source = Function.prototype.toString.call(handler)
      .replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
    const empty = /^(?:async\b\s*)?(?:function\b\s*)?\*?\s*(?:[\w$]+\s*)?\(\s*\)/.test(source);
    if (!empty || /\barguments\b/.test(source) || source.includes('[native code]')) count = 1;
  }
  if (count < 1 || count > 2) {
    throw new Refused(
      'handler_signature',
      `the handler ${entrypoint} takes ${count} required arguments; expected (event) or (event, context)`,
    );
  }
}

async function load() {
  const at = entrypoint.lastIndexOf('.');
  const name = entrypoint.slice(at + 1);
  const file = findModule(entrypoint.slice(0, at));
  process.argv = [process.argv[0], file];
  let loaded;
  try {
    loaded = await loadModule(file);
  } catch (error) {
    logError(error);
    const text = `importing ${path.relative(codeDir, file)} failed: `;
    throw new Refused('handler_import', `${text}${errorKind(error)}: ${errorMessage(error)}`);
  }
  let handler = loaded?.[name] ?? loaded?.default?.[name];
  if (handler === undefined && typeof loaded?.default === 'function' && loaded.default.name === name) {
    handler = loaded.default;
  }
  if (handler === undefined) {
    const text = `${path.relative(codeDir, file)} exports no function ${name}`;
    throw new Refused('handler_missing', text);
  }
  if (typeof handler !== 'function') {
    throw new Refused(
      'handler_missing',
      `${name} in ${path.relative(codeDir, file)} is of type ${typeof handler}; expected a function`,
    );
  }
  checkSignature(handler);
  const streams = Boolean(handler.streamBody);
  return { run: (event, context) => handler(event, context), streams };
}

replaceStream('stdout', 1);
replaceStream('stderr', 2);

load().then(
  (handler) => {
    const control = new net.Socket({ fd: controlFd, allowHalfOpen: true });
    control.on('error', () => process.exit(0));
    control.on('end', () => process.exit(0));
    control.resume();
    for (const fd of slotFds) new Slot(fd, handler);
    const ready = Buffer.allocUnsafe(HEADER);
    header(ready, READY, 0, 0);
    fs.writeSync(controlFd, ready);
  },
  (error) => {
    const reason = error instanceof Refused ? error.reason : 'handler_import';
    writeAll(controlFd, wordFrame(REFUSED, 0, reason, errorMessage(error)));
    process.reallyExit(1);
  },
);
