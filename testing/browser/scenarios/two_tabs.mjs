// Two tabs of one person, and another person: what one does, the others see.
import { clean, equal, holds, until } from "./world.mjs";

export default async function (world) {
  await world.deploy("hello", { "handler.py": "def handle(event):\n    return 1\n" });
  const first = await world.signedIn();
  const second = await world.tab(first.context());
  await second.goto(world.console("/functions/hello"));
  await first.locator("#f-hello > summary").click();
  await first.getByRole("button", { name: "Stop: hello" }).click();
  for (const page of [first, second]) {
    await page.locator("[data-state=hello] [data-phase=stopped]").waitFor();
    await page.getByRole("button", { name: "Start: hello" }).waitFor();
  }
  await until("the change is said aloud", async () =>
    (await second.locator("#say").textContent()) === "hello is now Stopped");

  // Both press at once: the state is what was asked for last, and no tab shows an error.
  const buttons = await Promise.all([first, second].map((page) =>
    page.getByRole("button", { name: "Start: hello" }).elementHandle()));
  await Promise.all(buttons.map((button) => button.evaluate((element) => element.click())));
  for (const page of [first, second]) {
    await page.locator("[data-state=hello] [data-phase=ready]").waitFor();
    equal(await page.locator(".failure").count(), 0, "no error");
  }

  // A hidden tab keeps no connection, since a browser has only six for one host.
  const tabs = [];
  for (let count = 0; count < 8; count += 1) {
    const tab = await world.tab(first.context());
    await tab.goto(world.console());
    await tab.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
    tabs.push(tab);
  }
  const last = await world.tab(first.context());
  equal((await last.goto(world.console())).status(), 200, "an eleventh tab");
  for (const tab of tabs) await tab.close();

  // A function that is made elsewhere appears in its place; one that goes, goes.
  await world.deploy("alpha", { "handler.py": "def handle(event):\n    return 1\n" });
  await first.locator("#f-alpha").waitFor();
  const order = await first.locator("#functions > details").evaluateAll((all) => all.map((one) => one.id));
  equal(order, ["f-alpha", "f-hello"], "by name");
  await world.api("DELETE", "/functions/alpha");
  await first.locator("#f-alpha").waitFor({ state: "detached" });

  // Signed out in one tab, the other can do nothing either, and says so.
  await Promise.all([first.waitForNavigation(), first.getByRole("button", { name: "Sign out" }).click()]);
  await second.getByRole("button", { name: "Stop: hello" }).click();
  await second.locator(".failure").waitFor();
  holds((await second.locator(".failure").textContent()).includes("session_missing"), "why");
  for (const page of [first, second]) clean(page, world);
}
