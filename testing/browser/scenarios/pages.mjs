// More functions than a page of the list has: each page shows its own, and keeps to them while things
// change, whichever page they are on.
import { clean, equal, holds, signIn, until } from "./world.mjs";

const name = (n) => `function-${String(n).padStart(4, "0")}`;
const shown = (page) => page.locator("#functions > details")
  .evaluateAll((all) => all.map((one) => one.dataset.function));

export default async function (world) {
  const names = Array.from({ length: 1003 }, (_, n) => name(n));
  const make = (name) => world.api("POST", "/functions", { name, runtime: "python3.11", replicas: 0 });
  for (let at = 0; at < names.length; at += 50) await Promise.all(names.slice(at, at + 50).map(make));
  // How often a page's stream has told all that it is about.
  const context = await world.window();
  await context.addInitScript(() => {
    globalThis.told = 0;
    const Source = globalThis.EventSource;
    globalThis.EventSource = class extends Source {
      constructor(url) {
        super(url);
        this.addEventListener("all", () => { globalThis.told += 1; });
      }
    };
  });
  const first = await world.tab(context);
  await first.goto(world.console());
  await signIn(first, world.token("alice"));
  const next = await first.locator("main [name=cursor]").getAttribute("value");
  const [second, found] = [await world.tab(context), await world.tab(context)];
  await second.goto(`${world.console()}?cursor=${encodeURIComponent(next)}`);
  await found.goto(`${world.console()}?find=${name(1002)}`);
  const tabs = [first, second, found];

  // What the streams begin with leaves all as it is.
  for (const page of tabs) await page.waitForFunction(() => globalThis.told > 0);
  equal(await shown(first), names.slice(0, 1000), "the first page");
  equal(await shown(second), names.slice(1000), "the second page");
  equal(await shown(found), [name(1002)], "what was looked for");

  // A change on the second page is seen there, and brings nothing to the first.
  await world.api("PATCH", `/functions/${name(1002)}`, { replicas: 2 });
  for (const page of [second, found]) {
    await until("the change", async () =>
      (await page.locator(`#f-${name(1002)} .replicas`).textContent()).endsWith("0/2"));
  }
  await world.api("PATCH", `/functions/${name(5)}`, { replicas: 3 });
  await until("the other change", async () =>
    (await first.locator(`#f-${name(5)} .replicas`).textContent()).endsWith("0/3"));
  equal((await shown(first)).includes(name(1002)), false, "not on the first page");
  equal((await shown(second)).includes(name(5)), false, "not on the second page");

  // New ones appear where they belong, and one that goes, goes.
  await make("a-first");
  await make("z-last");
  await world.api("DELETE", `/functions/${name(1000)}`);
  await first.locator("#f-a-first").waitFor();
  await second.locator("#f-z-last").waitFor();
  await second.locator(`#f-${name(1000)}`).waitFor({ state: "detached" });
  equal(await first.locator("#f-z-last").count(), 0, "the last one is not on the first page");
  equal(await second.locator("#f-a-first").count(), 0, "the first one is not on the second page");
  equal(await found.locator("#functions > details").count(), 1, "nothing else was looked for");

  // After a restart each page is told its own anew.
  await world.stopServer();
  await world.serve();
  for (const page of tabs) await page.waitForFunction(() => globalThis.told > 1);
  const after = await shown(second);
  holds(after.includes(name(1002)) && after.includes("z-last"), `the second page: ${after}`);
  equal(await shown(found), [name(1002)], "what was looked for");
  for (const page of tabs) clean(page, world);
}
