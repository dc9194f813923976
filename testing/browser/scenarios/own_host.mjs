// The console on a host of its own, and functions without a sandbox on another.
import { clean, equal, signIn } from "./world.mjs";

export const settings = (port) => ({ SLESS_CONSOLE_HOST: `localhost:${port}` });

export default async function (world) {
  await world.deploy("hello", { "handler.py": "def handle(event):\n    return 1\n" });
  const called = await world.call("hello");
  equal([called.status, called.headers.get("content-security-policy")], [200, null], "a function");
  equal((await fetch(world.console())).status, 404, "no console on the host of functions");
  const own = world.address.replace("127.0.0.1", "localhost");
  const below = `/funcs/${world.namespace}`;
  const page = await world.tab(await world.window());
  equal((await page.goto(`${own}/fn/${world.namespace}/hello`)).status(), 404, "no function on the console's");
  equal((await page.goto(`${own}${below}`)).status(), 401, "the console");
  await signIn(page, world.token("alice"));
  await page.locator("#f-hello > summary").click();
  await page.getByRole("button", { name: "Stop: hello" }).click();
  await page.locator("#f-hello [data-phase=stopped]").waitFor();
  clean(page, { address: own });
}
