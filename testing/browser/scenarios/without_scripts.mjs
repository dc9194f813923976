// Everything can be read without scripts, and the forms work.
import { equal, holds, signIn, until } from "./world.mjs";

export default async function (world) {
  await world.deploy("hello", { "handler.py": "def handle(event):\n    print('called')\n    return 'hi'\n" });
  await world.call("hello");
  const page = await world.tab(await world.window({ javaScriptEnabled: false }));
  await page.goto(world.console());
  await signIn(page, world.token("alice"));
  await page.locator("#f-hello > summary").click();
  await page.locator("#f-hello").getByText("handler.handle").waitFor();
  const go = async (locator) => {
    await Promise.all([page.waitForNavigation(), locator.click()]);
  };
  await go(page.locator("#f-hello").getByRole("link", { name: "Open as a page: hello" }));
  await page.locator("details[data-fetch*='/source/'] > summary").click();
  await go(page.getByRole("link", { name: "Source: hello" }));
  holds((await page.locator(".code .text").textContent()).startsWith("def handle"), "source");
  await page.goBack();
  await page.goto(world.console("/functions/hello/logs"));
  await until("the log", async () => {
    await page.reload();
    return (await page.locator(".lines").textContent()).includes("called");
  });
  await page.goto(world.console("/functions/hello/calls"));
  equal(await page.locator("svg").count(), 3, "plots");

  await page.goto(world.console("/functions/hello"));
  await go(page.getByRole("button", { name: "Stop: hello" }));
  await until("stopped", async () => {
    await page.reload();
    return (await page.locator("[data-phase=stopped]").count()) > 0;
  });
  await go(page.getByRole("button", { name: "Start: hello" }));
  await world.phase("hello", "Ready");
  await page.goto(world.console("/functions/hello"));
  await page.locator("details[data-call] > summary").click();
  await go(page.getByRole("button", { name: "Call", exact: true }));
  equal(await page.locator(".answer pre.body").textContent(), "hi", "an answer");

  await page.goto(world.console());
  await go(page.getByRole("button", { name: "Русский" }));
  equal(await page.locator("html").getAttribute("lang"), "ru", "the language");
  await page.goto(world.console("/functions/hello"));
  await page.locator("details.danger > summary").click();
  await page.locator("input[name=confirm]").fill("hello");
  await go(page.getByRole("button", { name: "Удалить: hello" }));
  holds((await page.locator(".receipt").textContent()).includes("hello"), "a receipt");
}
