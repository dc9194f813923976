// The frames that a worker writes. src/frame.rs documents them.
'use strict';

const VERSION = 1;
const HEADER = 8;
const CALL = 1, DATA = 2, CANCEL = 3, RESPONSE = 17, FAIL = 18, READY = 33, REFUSED = 34, LOG = 35;
const END = 1, ERROR = 2, LOGGED = 4;
const AS_HEADERS = 0, AS_JSON = 1, AS_TEXT = 2, AS_BYTES = 3;
const MAX_MESSAGE = 16384;
const NOTHING = Buffer.alloc(0);

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

// The head of a DATA frame, whose payload is written behind it.
function dataHead(length) {
  const frame = Buffer.allocUnsafe(HEADER);
  header(frame, DATA, 0, length);
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

module.exports = {
  HEADER, CALL, DATA, CANCEL, READY, REFUSED, LOG, END, LOGGED,
  AS_HEADERS, AS_JSON, AS_TEXT, AS_BYTES, NOTHING,
  header, responseFrame, dataFrame, dataHead, wordFrame, failFrame, errorFrame, errorKind, errorMessage,
};
