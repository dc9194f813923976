// What a handler returned, ready to be sent.
'use strict';

const {
  AS_HEADERS, AS_JSON, AS_TEXT, AS_BYTES, NOTHING, errorMessage,
} = require('./worker_frames.js');

// What the handler returned cannot be sent.
class ResultError extends Error {
  get name() { return 'ResultError'; }
}

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

module.exports = { answerOf, pieceBytes };
