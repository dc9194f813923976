// The switches, and what they do to the URL.
import { clean, equal, until } from "./world.mjs";

export default async function (world) {
  await world.deploy("hello", { "handler.py": "def handle(event):\n    return 'here'\n" });
  await world.api("POST", "/triggers",
    { name: "yearly", type: "cron", function_ref: "hello", schedule: "0 0 1 1 *" });
  equal((await world.call("hello")).status, 200, "before");
  const page = await world.signedIn();
  const entry = page.locator("#f-hello");
  await entry.locator("> summary").click();
  const methods = [];
  page.on("request", (request) => methods.push(request.method()));
  await entry.getByRole("button", { name: "Stop: hello" }).click();
  await entry.locator("[data-state] [data-phase=stopped]").waitFor();
  const stopped = await world.call("hello");
  equal(stopped.status, 503, "stopped");
  equal((await stopped.json()).code !== undefined, true, "a stopped function says why");
  equal(methods.includes("PATCH"), true, "by PATCH");

  await entry.getByRole("button", { name: "Start: hello" }).click();
  await entry.locator("[data-state] [data-phase=ready]").waitFor();
  await until("it answers again", async () => (await world.call("hello")).status === 200);

  // A schedule is switched in the same way, and says when it fires next.
  await entry.locator("ol.fires time").first().waitFor();
  equal(await entry.locator("ol.fires time").count(), 5, "next fires");
  await entry.getByRole("button", { name: "Stop: yearly" }).click();
  await entry.getByRole("button", { name: "Start: yearly" }).waitFor();
  equal(await entry.locator("ol.fires").count(), 0, "no fires while it is off");
  equal((await world.api("GET", "/triggers/yearly")).enabled, false, "as the API tells");
  equal(await page.evaluate(() => document.activeElement.dataset.key), "switch-yearly", "focus stays");
  clean(page, world);
}
