// Output of a handler: whole lines go to the host at once, with the call that wrote them.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { HEADER, LOG, NOTHING, header } = require('./worker_frames.js');

const OWN = path.join(__dirname, 'worker');
let logFd = -1;
let logLimit = 0;

// With one call at a time a variable says whose lines these are; otherwise the asynchronous
// context does, which costs every promise a little.
let running = null;
let storage = null;
const currentCall = () => (storage === null ? running : storage.getStore() ?? null);

// Runs `work` as a part of this call.
function within(call, work) {
  if (storage !== null) return storage.run(call, work);
  running = call;
  return work();
}

// The call is over, and what it has written goes out. Answers whether it has written anything.
function ended(call) {
  if (call.lines !== null) for (const lines of call.lines) lines?.flush();
  running = null;
  return call.lines !== null;
}

function writeAll(fd, data) {
  let at = 0;
  while (at < data.length) at += fs.writeSync(fd, data, at);
}

// What was written to a stream since its last line end.
class Lines {
  constructor(stream, id, ticket) {
    this.stream = stream;
    this.id = id;
    this.ticket = ticket;
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
    const frame = Buffer.allocUnsafe(HEADER + 12 + this.id.length + line.length);
    header(frame, LOG, 0, frame.length - HEADER);
    frame[8] = this.stream;
    frame[9] = truncated ? 1 : 0;
    frame.writeUInt16BE(this.id.length, 10);
    this.ticket.copy(frame, 12);
    this.id.copy(frame, 20);
    line.copy(frame, 20 + this.id.length);
    return frame;
  }
}

const nobody = Buffer.alloc(8);
const rootLines = [null, new Lines(1, NOTHING, nobody), new Lines(2, NOTHING, nobody)];

function logText(stream, text) {
  const call = currentCall();
  if (call === null) return rootLines[stream].write(text);
  call.lines ??= [null, null, null];
  (call.lines[stream] ??= new Lines(stream, call.part(0), call.ticket)).write(text);
}

function logError(error) {
  const text = error instanceof Error && typeof error.stack === 'string'
    ? error.stack
    : require('node:util').inspect(error);
  const own = text.split('\n').filter((line) => !line.includes(OWN));
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

// Puts our streams in the place of process.stdout and process.stderr.
function redirect(fd, limit, concurrency) {
  logFd = fd;
  logLimit = limit;
  if (concurrency > 1) storage = new (require('node:async_hooks').AsyncLocalStorage)();
  replaceStream('stdout', 1);
  replaceStream('stderr', 2);
}

module.exports = { ended, logError, redirect, within, writeAll };
