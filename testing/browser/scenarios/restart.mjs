// The server restarts while pages are open.
import { clean, equal, until } from "./world.mjs";

export default async function (world) {
  await world.deploy("hello", { "handler.py": "def handle(event):\n    print('called')\n    return 1\n" });
  const page = await world.signedIn();
  await page.locator("#f-hello > summary").click();
  const entry = page.locator("#f-hello");
  await entry.locator("details[data-log] > summary").click();
  await entry.locator(".lines").waitFor();

  const begun = Date.now();
  await world.stopServer();
  // Open streams must not hold up the end until the limit of three seconds cuts them off.
  equal(Date.now() - begun < 2900, true, `the server ended after ${Date.now() - begun} ms`);
  await page.locator(".offline:not([hidden])").waitFor();
  equal(await page.locator(".offline").textContent(), "Connection lost. Trying again…", "it is told");

  // What is done meanwhile is told as not done, and the page stays.
  await entry.getByRole("button", { name: "Stop: hello" }).click();
  await entry.locator(".trigger .failure").waitFor();

  await world.serve();
  await page.locator(".offline").waitFor({ state: "hidden" });
  await world.phase("hello", "Ready");
  // The session is still good, and everything goes on: a switch, and the log.
  await entry.getByRole("button", { name: "Stop: hello" }).click();
  await entry.locator("[data-state] [data-phase=stopped]").waitFor();
  await entry.getByRole("button", { name: "Start: hello" }).click();
  await entry.locator("[data-state] [data-phase=ready]").waitFor();
  await world.call("hello");
  await until("the log goes on", async () => (await entry.locator(".lines").textContent()).includes("called"));
  clean(page, world);
}
