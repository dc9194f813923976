// Signing in, its refusals, and where the token is not.
import { clean, equal, holds, signIn } from "./world.mjs";

export default async function (world) {
  await world.deploy("hello", { "handler.py": "def handle(event):\n    return 1\n" });
  const context = await world.window();
  const page = await world.tab(context);
  const refused = await page.goto(world.console("/functions/hello"));
  equal(refused.status(), 401, "without a session");
  holds(!(await page.content()).includes("handler.handle"), "nothing is shown");

  await signIn(page, "no token at all");
  equal(await page.locator("[role=alert] code").textContent(), "token_malformed", "nonsense");
  const good = world.token("alice");
  await signIn(page, `${good.slice(0, -4)}AAAA`);
  equal(await page.locator("[role=alert] code").textContent(), "token_signature", "a wrong signature");
  holds(!(await page.content()).includes(good.slice(0, -4)), "the token is not repeated");

  await signIn(page, good);
  equal(page.url(), world.console("/functions/hello"), "back where it was");
  equal(await page.locator("h1").textContent(), "hello", "the page");
  const cookies = await context.cookies(world.console());
  const session = cookies.find(({ name }) => name === "sless_session");
  holds(session.httpOnly && session.sameSite === "Strict" && session.path === "/funcs", "its flags");
  holds(!good.includes(session.value) && !session.value.includes(good), "the cookie is not the token");
  equal(await page.evaluate(() => document.cookie), "", "scripts see no cookie");
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  equal(stored, "[{},{}]", "nothing is stored");

  const other = await page.goto(world.console().replace(world.namespace, "sless-0123456789abcdef"));
  equal(other.status(), 403, "another's namespace");

  await page.goto(world.console());
  await Promise.all([page.waitForNavigation(), page.getByRole("button", { name: "Sign out" }).click()]);
  equal((await page.goto(world.console())).status(), 401, "signed out");
  holds(page.asked.every((url) => !url.includes(good.slice(0, 20))), "no token in an address");

  // Whoever is let in elsewhere is not let in here.
  const forged = await page.request.get(world.console(), {
    headers: { accept: "text/html", cookie: `sless_session=${session.value.slice(0, -2)}AA` },
  });
  equal(forged.status(), 401, "a changed cookie");
  clean(page, world);
}
