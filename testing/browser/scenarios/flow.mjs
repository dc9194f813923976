// What somebody does with a function in the console from signing in to its end: the same on one machine
// and in a cluster.
import { clean, cluster, drop, equal, holds, until, zipOf } from "./world.mjs";

const handler = `def handle(event):
    print("got", event.get("n"))
    return {"n": event.get("n", 0) + 1}
`;

export default async function (world) {
  const list = await world.signedIn();
  equal(await list.locator("#functions > details").count(), 0, "nothing yet");
  await list.locator("#deploy-name-new").fill("one");
  const bytes = await zipOf({ "handler.py": handler });
  await drop(list, "main > .deploy form.drop", [{ name: "one.zip", bytes }]);
  await list.locator("[data-deployed=one]").waitFor();
  await list.locator("#f-one").waitFor();

  // Its page is opened while it is built, and tells the phase and the build as they come.
  const page = await world.tab(list.context());
  await page.goto(world.console("/functions/one"));
  await page.locator("details[data-log] > summary").click();
  const lines = page.locator(".log .lines");
  await page.locator("[data-state=one] [data-phase=ready]").waitFor();
  await list.locator("#f-one [data-phase=ready]").waitFor();
  await page.locator(".log .line.build").first().waitFor();

  await page.locator("details[data-call] > summary").click();
  await page.getByLabel("Request body").fill('{"n": 41}');
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const answer = page.locator(".answer");
  await answer.waitFor();
  equal(await answer.locator("[data-status]").getAttribute("data-status"), "200", "status");
  equal(JSON.parse(await answer.locator("pre.body").textContent()), { n: 42 }, "answer");
  await until("the line of the call", async () => (await lines.textContent()).includes("got 41"));

  // Stopped and started in the list; the other tab sees it.
  const entry = list.locator("#f-one");
  await entry.locator("> summary").click();
  await entry.getByRole("button", { name: "Stop: one" }).click();
  await page.locator("[data-state=one] [data-phase=stopped]").waitFor();
  await until("it is off", async () => (await world.call("one")).status === 503);
  await entry.getByRole("button", { name: "Start: one" }).click();
  await page.locator("[data-state=one] [data-phase=ready]").waitFor();
  const body = '{"n": 1}';
  await until("it answers again", async () =>
    (await world.call("one", "", { method: "POST", body })).status === 200);

  // The form's call and those of the URL are told of.
  const calls = page.locator("details[data-fetch$='/calls']");
  await until("records of both", async () => {
    if (await calls.evaluate((details) => details.open)) await calls.locator("> summary").click();
    await calls.locator("> summary").click();
    await calls.locator(".calls").waitFor();
    const told = await calls.locator("tbody").textContent();
    return told.includes("direct") && told.includes("http");
  });

  await entry.locator("details.danger > summary").click();
  await entry.locator("input[name=confirm]").fill("one");
  await entry.getByRole("button", { name: "Delete: one" }).click();
  await list.getByText("Receipt: one").waitFor();
  const receipt = await list.locator(".receipt").textContent();
  const kinds = ["stored_source", "stored_context", ...cluster ? ["deployment", "service", "image"] : []];
  for (const kind of kinds) holds(receipt.includes(`${kind} `), `${kind} in ${receipt}`);
  equal(await list.locator(".receipt ul").count(), 1, "nothing is left");
  await entry.waitFor({ state: "detached" });
  await until("it is gone", async () => (await world.call("one")).status === 404);
  // What calls a function stays when that goes.
  await world.api("DELETE", "/triggers/one");
  for (const tab of [list, page]) clean(tab, world);
}
