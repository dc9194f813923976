// A zip of files, stored as they are: APPNOTE 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let bit = 0; bit < 8; bit += 1) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** Numbers of 2 or 4 bytes, the smallest part first. */
function fields(...list) {
  const bytes = new DataView(new ArrayBuffer(list.reduce((sum, [size]) => sum + size, 0)));
  let at = 0;
  for (const [size, value] of list) {
    if (size === 2) bytes.setUint16(at, value, true);
    else bytes.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(bytes.buffer);
}

const NAMES_ARE_UTF8 = 0x0800;
const FIRST_OF_JANUARY_1980 = 0x0021;
const MADE_ON_UNIX = 0x0314;
const READABLE_FILE = (0o100644 << 16) >>> 0;

/** The zip of `[{ path, file }]`, in the order of their paths, so that the same files are the same zip. */
export async function zip(files) {
  const sorted = [...files].sort((a, b) => (a.path < b.path ? -1 : 1));
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const { path, file } of sorted) {
    const name = new TextEncoder().encode(path);
    const bytes = new Uint8Array(await file.arrayBuffer());
    const common = [
      [2, 20], [2, NAMES_ARE_UTF8], [2, 0], [2, 0], [2, FIRST_OF_JANUARY_1980],
      [4, crc32(bytes)], [4, bytes.length], [4, bytes.length], [2, name.length], [2, 0],
    ];
    const head = fields([4, 0x04034b50], ...common);
    parts.push(head, name, bytes);
    directory.push(
      fields([4, 0x02014b50], [2, MADE_ON_UNIX], ...common, [2, 0], [2, 0], [2, 0],
        [4, READABLE_FILE], [4, offset]),
      name,
    );
    offset += head.length + name.length + bytes.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const end = fields([4, 0x06054b50], [2, 0], [2, 0], [2, sorted.length], [2, sorted.length],
    [4, size], [4, offset], [2, 0]);
  return new Blob([...parts, ...directory, end], { type: "application/zip" });
}
