// Phases and logs as they happen.
import { clean, equal, holds, until } from "./world.mjs";

const code = (word, takes = 0) => `import sys, time
time.sleep(${takes})
print("loaded ${word}")
def handle(event):
    print("called ${word}", event)
    print("to the error output", file=sys.stderr)
    return "ok"
`;

export default async function (world) {
  await world.deploy("hello", { "handler.py": code("first") });
  const page = await world.signedIn({}, "/functions/hello");
  await page.locator("details[data-log] > summary").click();
  const lines = page.locator(".log .lines");
  await lines.waitFor();
  await until("the stream", () => page.asked.filter((url) => url.endsWith("/logs")).length >= 2);
  await world.call("hello", "", { method: "POST", body: '{"n": 1}' });
  const begun = Date.now();
  await until("the line of a call", async () => (await lines.textContent()).includes("called first {'n': 1}"));
  holds(Date.now() - begun < 5000, "lines come at once");
  equal(await page.locator(".line.stderr").first().isVisible(), true, "the error output is told apart");

  // New code: the phase, the build's log and the new lines come by themselves.
  const phases = new Set();
  await page.exposeFunction("seen", (phase) => phases.add(phase));
  await page.evaluate(() => {
    const look = () => globalThis.seen(document.querySelector("[data-state] [data-phase]").dataset.phase);
    new MutationObserver(look).observe(document.querySelector("[data-state]"), { childList: true, subtree: true });
  });
  // A state that passes at once may never be told.
  await world.upload("hello", { "handler.py": code("second", 2) });
  await until("another phase and ready again", async () => phases.size >= 2 && phases.has("ready"));
  await world.call("hello", "", { method: "POST", body: "{}" });
  await until("the line of the new code", async () => (await lines.textContent()).includes("called second {}"));
  holds((await lines.locator(".line").count()) > 1, "lines are elements of their own");

  // Closed, nothing is asked for any more.
  await page.locator("details[data-log] > summary").click();
  const asked = page.asked.length;
  await world.call("hello", "", { method: "POST", body: "{}" });
  await page.waitForTimeout(500);
  equal(page.asked.slice(asked).filter((url) => url.includes("/logs")), [], "a closed log is not read");
  clean(page, world);
}
