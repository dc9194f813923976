// A function's page on the console's own host cannot get at the console of whoever looks at it.
import { equal, holds } from "./world.mjs";

const attack = `PAGE = """<!doctype html><title>a game</title><pre id=out>waiting</pre><script>
(async () => {
  const out = {};
  const attempt = async (name, what) => {
    try { out[name] = String(await what()); } catch (error) { out[name] = "refused: " + error.name; }
  };
  await attempt("read", async () => (await fetch(TARGET, { credentials: "include" })).text());
  await attempt("patch", async () => (await fetch(TARGET + "/triggers/victim", {
    method: "PATCH", body: '{"enabled": false}', credentials: "include" })).status);
  await attempt("blind", async () => (await fetch(TARGET + "/triggers/victim", { mode: "no-cors",
    method: "POST", body: new URLSearchParams("enabled=false"), credentials: "include" })).type);
  await attempt("cookie", () => document.cookie);
  await attempt("storage", () => localStorage.length);
  await attempt("worker", async () => (await navigator.serviceWorker.register("?worker", { scope: "/" })).scope);
  await attempt("window", async () => {
    const other = window.open(TARGET);
    await new Promise((done) => setTimeout(done, 1500));
    return other.document.body.textContent;
  });
  document.getElementById("out").textContent = JSON.stringify(out);
})();
</script>"""
def handle(event, context):
    headers = {"content-type": "text/html", "service-worker-allowed": "/",
               "set-cookie": "sless_session=forged; Path=/funcs"}
    if "worker" in str(context.query):
        headers["content-type"] = "text/javascript"
        return {"statusCode": 200, "headers": headers, "body": "self.addEventListener('fetch', () => {})"}
    return {"statusCode": 200, "headers": headers, "body": PAGE}
`;

export default async function (world) {
  await world.deploy("victim", { "handler.py": "def handle(event):\n    return 'fine'\n" });
  const target = world.console();
  await world.deploy("game", { "handler.py": attack.replaceAll("TARGET", JSON.stringify(target)) });
  const page = await world.signedIn();
  const visit = await world.tab(page.context());
  await visit.goto(`${world.address}/fn/${world.namespace}/game`);
  await visit.waitForFunction(() => document.getElementById("out").textContent !== "waiting");
  const out = JSON.parse(await visit.locator("#out").textContent());
  for (const name of ["read", "patch", "cookie", "storage", "worker", "window"]) {
    holds(out[name].startsWith("refused"), `${name}: ${out[name]}`);
  }
  equal((await world.api("GET", "/triggers/victim")).enabled, true, "nothing was switched");
  // Its cookie has not replaced the session.
  equal((await page.reload()).status(), 200, "still signed in");
}
