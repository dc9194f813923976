// Pictures of the console for people to look at: both themes, wide and narrow.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { holds, state, until } from "./world.mjs";

export const settings = { SLESS_STATIC_VALIDATION: "true" };

const ORDERS = `"""Takes orders from a queue, and says what they cost."""
import json

PRICES = {"tea": 3, "coffee": 4}


def handle(event, context):
    if event.get("fail"):
        raise ValueError("this order cannot be taken")
    total = sum(PRICES[item] for item in event.get("items", []))
    print("order", context.request_id, "costs", total)
    return {"total": total, "currency": "EUR"}
`;

/** Functions in several states, with calls, logs and dead letters. */
export async function fill(world) {
  await world.deploy("orders", {
    "handler.py": ORDERS, "lib/prices.json": '{"tea": 3, "coffee": 4}\n', "README.md": "# Orders\n",
  }, { env: { SHOP: "main" } });
  await world.deploy("hello-node", { "handler.js": "exports.handle = () => ({ hello: 'world' });\n" },
    { runtime: "nodejs20" });
  await world.deploy("paused", { "handler.py": "def handle(event):\n    return 1\n" });
  await world.api("PATCH", "/triggers/paused", { enabled: false });
  await world.api("POST", "/functions", { name: "broken", runtime: "python3.11" });
  await world.upload("broken", { "handler.py": "import nothing_of_this_name\n" });
  await world.phase("broken", "Failed");
  await world.api("POST", "/functions", { name: "waiting", runtime: "nodejs20" });
  await world.api("POST", "/triggers", {
    name: "mornings", type: "cron", function_ref: "orders", schedule: "0 9 * * 1-5", time_zone: "Europe/Berlin",
  });
  await world.api("POST", "/triggers", {
    name: "queue", type: "event", function_ref: "orders", queue: "orders",
    delivery: { max_attempts: 1, min_backoff: "10ms", max_backoff: "10ms" },
  });
  for (const n of [1, 2]) await world.api("POST", "/queues/orders/messages", { fail: true, order: n });
  await until("dead letters", async () =>
    (await world.api("GET", "/triggers/queue/dead-letters")).items.length === 2);
  for (let n = 0; n < 12; n += 1) {
    const body = JSON.stringify(n % 5 === 4 ? { fail: true } : { items: ["tea", "coffee"].slice(0, 1 + (n % 2)) });
    await world.call("orders", "", { method: "POST", body });
  }
  await until("records", async () =>
    (await world.api("GET", "/functions/orders/invocations")).items.length >= 12);
  await world.phase("paused", "Stopped");
}

/** Opens everything in a part of a page, and waits until it is there. */
export async function openAll(page, within) {
  await page.locator(`${within} details.section`).first().waitFor();
  for (const what of ["[data-call]", "[data-fetch*='/source/']", "[data-log]", "[data-fetch$='/calls']",
    ".deploy", ".danger", "[data-fetch$='/dead-letters']"]) {
    const part = page.locator(`${within} details.section${what}`).first();
    if (!(await part.evaluate((details) => details.open))) await part.locator("> summary").click();
  }
  for (const what of [".code .text", ".log .lines", ".calls svg", ".letters"]) {
    await page.locator(`${within} ${what}`).first().waitFor();
  }
  await until("log lines", async () => (await page.locator(`${within} .line`).count()) > 0);
}

export default async function (world) {
  const folder = process.env.SLESS_SCREENSHOTS ?? join(state, "screenshots");
  mkdirSync(folder, { recursive: true });
  await fill(world);
  for (const colorScheme of ["light", "dark"]) {
    for (const [size, width, height] of [["wide", 1200, 800], ["narrow", 390, 800]]) {
      const page = await world.signedIn({ colorScheme, viewport: { width, height }, reducedMotion: "reduce" });
      const shot = async (name, options = {}) => {
        const path = join(folder, `${name}-${colorScheme}-${size}.png`);
        const bytes = await page.screenshot({ path, ...options });
        holds(bytes.length > 5000, `${path} shows something`);
      };
      await page.locator("[data-phase=stopped]").first().waitFor();
      await shot("functions");
      await page.locator("#f-orders > summary").click();
      await page.locator("#f-orders details[data-fetch*='/source/'] > summary").click();
      await page.locator("#f-orders .code .text").waitFor();
      await page.setViewportSize({ width, height: 1100 });
      await page.evaluate(() => scrollTo(0, 0));
      await shot("open");
      await page.setViewportSize({ width, height });
      await page.goto(world.console("/functions/orders"));
      await openAll(page, "article");
      await shot("function", { fullPage: true });
      await page.goto(world.console("/functions/orders/calls"));
      await shot("calls");
      await page.goto(world.console("/source/orders"));
      await shot("source");
      await page.context().clearCookies();
      await page.goto(world.console());
      await shot("sign-in");
      await page.context().close();
    }
  }
  console.log(`pictures are in ${folder}`);
}
