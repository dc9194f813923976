// Messages that were given up, and sent again once the code is mended.
import { clean, equal, until } from "./world.mjs";

export default async function (world) {
  await world.deploy("orders", { "handler.py": "def handle(event):\n    raise ValueError('not yet')\n" });
  await world.api("POST", "/triggers", {
    name: "queue", type: "event", function_ref: "orders", queue: "orders",
    delivery: { max_attempts: 1, min_backoff: "10ms", max_backoff: "10ms" },
  });
  for (const n of [1, 2]) await world.api("POST", "/queues/orders/messages", { n });
  const letters = () => world.api("GET", "/triggers/queue/dead-letters");
  await until("two dead letters", async () => (await letters()).items.length === 2);

  const page = await world.signedIn({}, "/functions/orders");
  const part = page.locator("details[data-fetch$='/triggers/queue/dead-letters']");
  await part.locator("> summary").click();
  await part.locator("tbody tr").first().waitFor();
  equal(await part.locator("tbody tr").count(), 2, "letters");
  equal(await part.locator("tbody pre.body").first().textContent(), '{"n":1}', "a letter's body");

  await world.upload("orders", { "handler.py": "def handle(event):\n    print('handled', event)\n" });
  await world.phase("orders", "Ready");
  await until("the new code", async () => (await world.call("orders")).status === 200);
  // The panel is shown anew as the code changes; what was open is open again.
  await part.locator("tbody tr").first().waitFor();
  await part.locator("tbody tr").first().getByRole("button").click();
  await part.getByText("Put back into the queue: 1").waitFor();
  await until("one is left", async () => (await letters()).items.length === 1);
  await part.getByRole("button", { name: "Redrive all" }).click();
  await part.getByText("No dead letters.").waitFor();
  await until("both were delivered", async () =>
    (await world.api("GET", "/triggers/queue")).delivered >= 2);
  clean(page, world);
}
