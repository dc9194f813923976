// Functions as an accordion, by mouse and by keyboard; what is fetched when.
import { clean, equal, holds, until } from "./world.mjs";

export default async function (world) {
  const source = "# says hello\ndef handle(event):\n    return 'hello'\n";
  await world.deploy("hello", { "handler.py": source, "lib/words.py": "WORDS = 12\n" });
  await world.deploy("other", { "handler.js": "exports.handle = () => `hi`;\n" }, { runtime: "nodejs20" });
  const page = await world.signedIn();
  const entry = page.locator("#f-hello");
  const summary = entry.locator("> summary");
  for (const text of ["hello", "Ready", "python3.11", "1/1", "UTC"]) {
    holds((await summary.textContent()).includes(text), `${text} in a closed entry`);
  }
  equal(await page.locator("#functions > details").count(), 2, "entries");
  holds(page.asked.every((url) => !url.includes("/source/")), "no source before it is opened");

  await summary.click();
  await entry.locator("details[data-fetch*='/source/'] > summary").click();
  await entry.locator(".code .text").waitFor();
  equal(await entry.locator(".code .text").textContent(), source, "the source, whole");
  equal(await entry.locator(".code .hc").textContent(), "# says hello", "a comment is marked");
  equal(await entry.locator(".code .hk").first().textContent(), "def", "a keyword is marked");
  await entry.getByRole("button", { name: "lib/words.py" }).click();
  await until("the other file", async () =>
    (await entry.locator(".code .text").textContent()) === "WORDS = 12\n");

  // By keyboard alone.
  const second = page.locator("#f-other > summary");
  await second.focus();
  await page.keyboard.press("Enter");
  await page.locator("#f-other details[data-fetch*='/source/'] > summary").waitFor();
  for (let steps = 0; ; steps += 1) {
    holds(steps < 60, "the source is reached by the tabulator");
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => document.activeElement.parentElement?.dataset.fetch ?? "");
    if (here.endsWith("/source/other")) break;
  }
  await page.keyboard.press("Space");
  await page.locator("#f-other .code .hs").waitFor();
  equal(await page.locator("#f-other .code .hs").textContent(), "`hi`", "JavaScript is marked");

  // A search is a link that can be passed on.
  await page.locator("#find").fill("oth");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  equal(await page.locator("#functions > details").count(), 1, "found");
  holds(page.url().endsWith("?find=oth"), page.url());
  clean(page, world);
}
