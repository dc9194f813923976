// A folder dropped from the desktop, with folders in it: by the browser's own means, so that the page is
// given what a person gives it.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { clean, equal, holds, until } from "./world.mjs";

const files = {
  "handler.py": "from lib.deep.er import word\ndef handle(event):\n    return word\n",
  "lib/__init__.py": "",
  "lib/deep/er.py": "word = 'from a folder ✓'\n",
  "lib/node.txt": "kept\n",
  "large.bin": Buffer.alloc(4 << 20, 7),
};

/** Stays behind, as it does for the command line. */
const leftBehind = {
  "sless.toml": "name = 'other'\n",
  ".env": "SECRET=1\n",
  ".git/config": "x",
  ".venv/bin/python": "x",
  "lib/.DS_Store": "x",
  "lib/__pycache__/a.pyc": "x",
  "node_modules/x/index.js": "x",
};

function write(folder, all) {
  for (const [path, content] of Object.entries(all)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

/** Drags paths of this machine over a form, and lets them go there. */
async function dropPaths(page, selector, paths) {
  const form = page.locator(selector);
  await form.scrollIntoViewIfNeeded();
  const { x, y, width, height } = await form.boundingBox();
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: paths, dragOperationsMask: 1 };
  const drag = (type) => session.send("Input.dispatchDragEvent",
    { type, x: x + width / 2, y: y + height / 2, data });
  await drag("dragEnter");
  await drag("dragOver");
  await page.locator(".drop.over").waitFor();
  await drag("drop");
  await session.detach();
}

export default async function (world) {
  const page = await world.signedIn();
  const folder = join(world.folder, "From Desk");
  write(folder, { ...files, ...leftBehind });
  await page.evaluate(() => {
    globalThis.steps = [];
    const bar = document.querySelector("main > .deploy progress");
    new MutationObserver(() => globalThis.steps.push(bar.value)).observe(bar, { attributes: true });
  });
  const form = "main > .deploy form.drop";
  await dropPaths(page, form, [folder]);
  // Its name is the folder's, as far as a function can be called so.
  await page.locator("[data-deployed=from-desk]").waitFor();
  await page.locator("#f-from-desk [data-phase=ready]").waitFor();
  equal(await (await world.call("from-desk")).text(), "from a folder ✓", "a working URL");
  const steps = await page.evaluate(() => globalThis.steps);
  holds(steps.includes(100) && steps.every((step, at) => at === 0 || step >= steps[at - 1] || step === 0),
    `progress: ${steps}`);
  const stored = await world.api("GET", "/functions/from-desk/source");
  equal(stored.map(({ name }) => name).sort(), Object.keys(files).sort(), "files");

  // A folder of more entries than a browser gives at once, and a file beside it.
  const many = Object.fromEntries(Array.from({ length: 250 }, (_, n) => [`data/${n}.txt`, `${n}`]));
  const second = join(world.folder, "second");
  write(second, many);
  const loose = join(world.folder, "handler.py");
  writeFileSync(loose, "import os\ndef handle(event):\n    return str(len(os.listdir('second/data')))\n");
  await page.locator("#deploy-name-new").fill("both");
  await dropPaths(page, form, [second, loose]);
  await page.locator("#f-both [data-phase=ready]").waitFor();
  await until("all of them", async () => (await (await world.call("both")).text()) === "250");

  // An empty folder is no code: the page asks for some instead, and nothing is made.
  const empty = join(world.folder, "empty");
  mkdirSync(empty);
  await page.locator("#deploy-name-new").fill("empty");
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), dropPaths(page, form, [empty])]);
  holds(chooser !== undefined, "a choice of files");
  const { items } = await world.api("GET", "/functions");
  equal(items.map(({ name }) => name), ["both", "from-desk"], "functions");
  clean(page, world);
}
