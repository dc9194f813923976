// The Node worker: loads a handler and runs the calls that its host sends.
//
// Started by the host with inherited sockets; src/frame.rs documents what is said on them. It
// uses Node's own modules only, and loads late what not every call needs.
'use strict';

const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { about } = require('./worker_call.js');
const { logError, redirect, writeAll } = require('./worker_log.js');
const { Slot } = require('./worker_slot.js');
const {
  HEADER, READY, REFUSED, header, wordFrame, errorKind, errorMessage,
} = require('./worker_frames.js');

const [entrypoint, codeDir, namespace, functionName, functionUid, limitText, fdText] =
  process.argv.slice(2);
const [controlFd, logFd, ...slotFds] = fdText.split(',').map(Number);

// The start failed.
class Refused extends Error {
  constructor(reason, message) {
    super(message);
    this.reason = reason;
  }
}

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
  // JavaScript calls a function with more arguments than it names; only one that wants a third
  // argument waits for something that never comes.
  const count = handler.length;
  if (count > 2) {
    throw new Refused(
      'handler_signature',
      `the handler ${entrypoint} takes ${count} arguments; expected at most (event, context)`,
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

Object.assign(about, { namespace, functionName, functionUid });
redirect(logFd, Number(limitText), slotFds.length);

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
