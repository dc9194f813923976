// A call as its handler sees it: the event and the context.
'use strict';

const { isUtf8 } = require('node:buffer');
const { HEADER } = require('./worker_frames.js');

const JSON_EVENT = 1, TEXT_EVENT = 2, UNNAMED_EVENT = 4;
const CALL_FIXED = HEADER + 40;
// The same for all calls.
const about = { functionName: '', namespace: '', functionUid: '' };

// The body is not what its media type says; answered with 400.
class BadEvent extends Error {
  get name() { return 'BadEvent'; }
}

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

  // Names this call on its log lines.
  get ticket() { return this.frame.subarray(HEADER + 32, HEADER + 40); }
  get requestId() { return this.part(0).toString(); }
  get functionName() { return about.functionName; }
  get namespace() { return about.namespace; }
  get functionUid() { return about.functionUid; }
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

module.exports = { BadEvent, Context, about, makeEvent };
