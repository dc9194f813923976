// A server of its own for each scenario, a browser, and ways to talk to both.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { join } from "node:path";

const LOOK = 50;
/** Where functions run in a cluster: the server's settings for it, and whose namespace it looks after. */
export const cluster = JSON.parse(process.env.SLESS_TEST_CLUSTER ?? "null");
export const DEADLINE = cluster ? 120_000 : 60_000;
/** The user of the tests. */
const alice = cluster?.subject ?? "alice";

function needed(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; see testing/browser/README.md`);
  return value;
}

const modules = needed("SLESS_TEST_BROWSER_MODULES");
const require = createRequire(join(modules, "package.json"));
export const { chromium } = require("playwright-core");
export const axeSource = () => readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");
export const state = needed("SLESS_TEST_BROWSER_STATE");
const binary = needed("SLESS_TEST_SERVER");

export class World {
  /** `settings` is of the environment, or a function of the port. `bare` leaves the API alone. */
  static async start(settings = {}, { bare = false } = {}) {
    const world = new World();
    mkdirSync(state, { recursive: true });
    world.folder = mkdtempSync(join(state, "world-"));
    world.port = await freePort();
    world.address = `http://127.0.0.1:${world.port}`;
    world.settings = typeof settings === "function" ? settings(world.port) : settings;
    world.tokens = {};
    try {
      await world.serve();
      world.namespace = namespaceOf(world.token(alice));
      if (!bare) await world.api("POST", "/ensure");
      world.browser = await chromium.launch({
        executablePath: needed("SLESS_TEST_BROWSER"),
        // Debian's Chromium does not run as root in a sandbox of its own; nothing foreign is looked at here.
        args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
          "--disable-background-networking", "--disable-component-update", "--disable-sync"],
      });
    } catch (error) {
      console.error(`The end of the server's log:\n${world.log()}`);
      await world.end();
      throw error;
    }
    return world;
  }

  environment() {
    const inherited = Object.entries(process.env)
      .filter(([name]) => !name.startsWith("SLESS_") && !["EXTERNAL_URL", "DATABASE_URL"].includes(name));
    return {
      ...Object.fromEntries(inherited),
      ...cluster?.settings,
      SLESS_LISTEN: `127.0.0.1:${this.port}`,
      SLESS_DATA_DIR: join(this.folder, "data"),
      SLESS_DRAIN_TIMEOUT: "3s",
      SLESS_LOG: "info",
      ...this.settings,
    };
  }

  async serve() {
    const log = openSync(join(this.folder, "server.log"), "a");
    this.server = spawn(binary, ["serve"], { env: this.environment(), stdio: ["ignore", log, log] });
    this.ended = new Promise((done) => this.server.once("exit", done));
    await until("a server that is ready", async () => {
      if (this.server.exitCode !== null) throw new Error(`the server ended:\n${this.log()}`);
      return (await fetch(`${this.address}/readyz`).catch(() => null))?.ok;
    });
  }

  async stopServer() {
    this.server.kill("SIGTERM");
    await this.ended;
  }

  log() {
    return readFileSync(join(this.folder, "server.log"), "utf8").split("\n").slice(-40).join("\n");
  }

  token(subject) {
    const make = () => execFileSync(binary, ["token", "--sub", subject], { env: this.environment() });
    this.tokens[subject] ??= make().toString().trim();
    return this.tokens[subject];
  }

  /** A request to the REST API, as alice. */
  async api(method, below, body, kind = "application/json") {
    const response = await fetch(`${this.address}/v1/namespaces/${this.namespace}${below}`, {
      method,
      headers: { authorization: `Bearer ${this.token(alice)}`, "content-type": kind },
      body: kind === "application/json" && body ? JSON.stringify(body) : body,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${below}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  /** A function that is ready, or whatever phase is waited for. */
  async deploy(name, files, { phase = "Ready", trigger = true, runtime = "python3.11", ...rest } = {}) {
    await this.api("POST", "/functions", { name, runtime, ...rest });
    if (trigger) await this.api("POST", "/triggers", { name, type: "http", function_ref: name });
    await this.upload(name, files);
    await this.phase(name, phase);
  }

  async upload(name, files) {
    await this.api("POST", `/functions/${name}/upload`, await zipOf(files), "application/zip");
  }

  async phase(name, phase) {
    await until(`${name} ${phase}`, async () => {
      const now = await this.api("GET", `/functions/${name}`);
      if (now.phase === "Failed" && phase !== "Failed") throw new Error(JSON.stringify(now));
      return now.phase === phase;
    });
  }

  /** A call of a function; a body is JSON. */
  call(name, tail = "", options = {}) {
    const headers = options.body ? { "content-type": "application/json" } : {};
    return fetch(`${this.address}/fn/${this.namespace}/${name}${tail}`, { headers, ...options });
  }

  console(below = "") {
    return `${this.address}/funcs/${this.namespace}${below}`;
  }

  /** A browser window that knows nobody. What goes wrong in it is kept in `problems`. */
  async window(options = {}) {
    const context = await this.browser.newContext({ locale: "en-US", ...options });
    context.setDefaultTimeout(DEADLINE);
    return context;
  }

  async tab(context) {
    const page = await context.newPage();
    page.problems = [];
    page.asked = [];
    page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
    page.on("dialog", (dialog) => { page.problems.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("console", (said) => {
      const text = said.text();
      if (/Content Security Policy|Trusted Type/i.test(text)) page.problems.push(`policy: ${text}`);
    });
    page.on("request", (request) => page.asked.push(request.url()));
    return page;
  }

  /** A page of the console for somebody who has signed in by its form. */
  async signedIn(options = {}, below = "", subject = alice) {
    const page = await this.tab(await this.window(options));
    await page.goto(this.console(below));
    await signIn(page, this.token(subject));
    return page;
  }

  async end() {
    await this.browser?.close();
    this.server.kill("SIGTERM");
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export async function signIn(page, token) {
  await page.locator("#token").fill(token);
  await Promise.all([page.waitForNavigation(), page.locator("form.stack button").click()]);
}

/** Drops files as a person does, as far as a page can be told so: a real DataTransfer. */
export async function drop(page, selector, files) {
  const list = files.map(({ name, bytes }) => ({ name, data: Buffer.from(bytes).toString("base64") }));
  const transfer = await page.evaluateHandle((given) => {
    const made = new DataTransfer();
    for (const { name, data } of given) {
      const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
      made.items.add(new File([bytes], name));
    }
    return made;
  }, list);
  await page.dispatchEvent(selector, "dragover", { dataTransfer: transfer });
  holds(await page.locator(".drop.over").count() === 1, "the place to drop is shown");
  await page.dispatchEvent(selector, "drop", { dataTransfer: transfer });
}

export function equal(found, wanted, what = "") {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (left !== right) throw new Error(`${what}: found ${left}, wanted ${right}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(`does not hold: ${what}`);
}

/** Nothing went wrong in a tab, and it asked nobody but the server. */
export function clean(page, world) {
  equal(page.problems, [], "problems");
  const elsewhere = page.asked.filter((url) => !url.startsWith(world.address) && !url.startsWith("data:"));
  equal(elsewhere, [], "requests to others");
}

export async function until(what, isSo) {
  const end = Date.now() + DEADLINE;
  for (;;) {
    if (await isSo()) return;
    if (Date.now() > end) throw new Error(`not in time: ${what}`);
    await new Promise((done) => setTimeout(done, LOOK));
  }
}

function namespaceOf(token) {
  const { sub } = JSON.parse(Buffer.from(token.split(".")[1], "base64url").toString());
  const { createHash } = process.getBuiltinModule("node:crypto");
  return `sless-${createHash("sha256").update(sub).digest("hex").slice(0, 16)}`;
}

function freePort() {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once("error", fail);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

/** The console's own zip writer is tried with every upload here. */
export async function zipOf(files) {
  const source = readFileSync(new URL("../../../sless-console/assets/zip.js", import.meta.url), "utf8");
  const module = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  const list = Object.entries(files).map(([path, text]) => ({ path, file: new Blob([text]) }));
  return Buffer.from(await (await module.zip(list)).arrayBuffer());
}
