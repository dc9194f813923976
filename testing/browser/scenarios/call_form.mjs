// Calling a function from its page, and what is then told of its calls.
import { clean, equal, holds, until } from "./world.mjs";

const code = `import time
def handle(event, context):
    if event == {"fail": True}:
        raise ValueError("as asked")
    time.sleep(0.05)
    return {"statusCode": 207, "headers": {"x-from": context.path, "content-type": "text/plain"},
            "body": f"{context.method} {event}"}
`;

export default async function (world) {
  await world.deploy("hello", { "handler.py": code });
  const page = await world.signedIn({}, "/functions/hello");
  await page.locator("details[data-call] > summary").click();
  await page.getByLabel("Path below the URL").fill("/a/b?c=d");
  await page.getByLabel("Request body").fill('{"n": [1, 2]}');
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const answer = page.locator(".answer");
  await answer.waitFor();
  equal(await answer.locator("[data-status]").getAttribute("data-status"), "207", "status");
  equal(await answer.locator("pre.body").textContent(), "POST {'n': [1, 2]}", "body");
  const took = await answer.locator(".took").textContent();
  holds(/^\d+ ms$/.test(took) && parseInt(took, 10) >= 50, `time: ${took}`);
  await answer.locator("summary").click();
  holds((await answer.locator("details pre").textContent()).includes("x-from: /a/b"), "fields");

  await page.getByLabel("Request body").fill('{"fail": true}');
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await until("the failure", async () =>
    (await answer.locator("[data-status]").getAttribute("data-status")) === "500");
  holds((await answer.locator("pre.body").textContent()).includes("as asked"), "its reason");

  // Both calls are told of, in a table and in plots; the filter leaves one.
  const calls = page.locator("details[data-fetch$='/calls']");
  await until("two records", async () => {
    const open = await calls.evaluate((details) => details.open);
    if (open) await calls.locator("> summary").click();
    await calls.locator("> summary").click();
    await calls.locator(".calls").waitFor();
    return (await calls.locator("tbody tr").count()) === 2;
  });
  equal(await calls.locator("svg[role=img]").count(), 3, "plots");
  holds((await calls.locator("svg").first().getAttribute("aria-label")).includes("total 2"), "in words");
  await calls.getByLabel("Failed only").check();
  await calls.getByRole("button", { name: "Filter" }).click();
  await until("one record", async () => (await calls.locator("tbody tr").count()) === 1);
  holds((await calls.locator("tbody").textContent()).includes("500"), "the failed one");
  clean(page, world);
}
