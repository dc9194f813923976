// axe-core on every page and with everything open: both themes, both languages, wide and narrow.
import { axeSource, equal, holds, signIn } from "./world.mjs";
import { fill, openAll } from "./screenshots.mjs";

export const settings = { SLESS_STATIC_VALIDATION: "true" };

async function check(page, what) {
  await page.evaluate(axeSource());
  const found = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  }));
  const told = found.violations.map(({ id, help, nodes }) =>
    `${id}: ${help}\n${nodes.slice(0, 3).map(({ html }) => `    ${html.slice(0, 300)}`).join("\n")}`);
  equal(told.length, 0, `${what}:\n${told.join("\n")}\n`);
  holds(found.passes.length > 10, `${what}: axe has looked`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  holds(wide <= 0, `${what}: ${wide} pixels too wide`);
}

export default async function (world) {
  await fill(world);
  // Colours and words are looked at in each pair; parts as pages of their own only once in each width.
  const parts = ["/source/orders", "/functions/orders/calls", "/functions/orders/logs",
    "/triggers/queue/dead-letters", "/functions/none"];
  for (const [colorScheme, locale, width, alone] of [
    ["light", "en-US", 1280, parts], ["dark", "ru-RU", 1280, []],
    ["dark", "en-US", 360, parts], ["light", "ru-RU", 360, []],
  ]) {
    const what = `${colorScheme}, ${locale}, ${width}`;
    const context = await world.window({ colorScheme, locale, viewport: { width, height: 800 }, reducedMotion: "reduce" });
    const page = await world.tab(context);
    await page.goto(world.console());
    await check(page, `signing in, ${what}`);
    await signIn(page, "wrong");
    await check(page, `a refusal, ${what}`);
    await signIn(page, world.token("alice"));
    await check(page, `the functions, ${what}`);
    await page.locator("#f-orders > summary").click();
    await openAll(page, "#f-orders");
    await check(page, `an open entry, ${what}`);
    for (const below of ["/functions/orders", ...alone]) {
      await page.goto(world.console(below));
      if (below === "/functions/orders") await openAll(page, "article");
      await check(page, `${below}, ${what}`);
    }
    await context.close();
  }
}
