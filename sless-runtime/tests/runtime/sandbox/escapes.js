// Tries to get out, as escapes.py does, by what Node has itself.
const fs = require('fs');
const net = require('net');
const { execFileSync } = require('child_process');

const connects = (path) => new Promise((resolve, reject) => {
  net.connect(path).on('connect', resolve).on('error', reject);
});

const ESCAPES = [
  ["read another function's file", 'files', (e) => fs.readFileSync(`${e.other}/secret`)],
  ["list another function's folder", 'files', (e) => fs.readdirSync(e.other)],
  ["write into another function's folder", 'files', (e) => fs.writeFileSync(`${e.other}/node`, 'x')],
  ["remove another function's file", 'files', (e) => fs.rmSync(`${e.other}/gone-too`)],
  ["read by another program", 'files', (e) => execFileSync('cat', [`${e.other}/secret`])],
  ["change its own code", 'files', () => fs.appendFileSync(__filename, '\n')],
  ["change a file's mode", 'attributes', (e) => fs.chmodSync(`${e.other}/secret`, 0o600)],
  ["read a process's environment", 'processes', (e) => fs.readFileSync(`/proc/${e.victim}/environ`)],
  ['slow another process down', 'processes', (e) => require('os').setPriority(e.victim, 19)],
  ['signal a process', 'signals', (e) => process.kill(e.victim, 'SIGWINCH')],
  ['connect to a Unix socket', 'sockets', (e) => connects(`${e.other}/stream`)],
  ['fill the disk by a file', 'file_size', (e) => {
    process.on('SIGXFSZ', () => {});
    fs.writeFileSync(`${e.own}/big`, Buffer.alloc(24 << 20));
  }],
];

exports.handle = async (event) => {
  const found = [];
  for (const [name, protection, attempt] of ESCAPES) {
    const told = await Promise.resolve().then(() => attempt(event))
      .then(() => 'escaped', (error) => String(error));
    found.push({ name, protection, who: 'all', told });
  }
  return found;
};
