// What somebody has written is never obeyed, not even when scripts put it into the page.
import { clean, equal, holds, until } from "./world.mjs";

const MARKUP = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>";
const code = `print("""${MARKUP}""")
def handle(event):
    print("""${MARKUP}""")
    return {"statusCode": 200, "headers": {"content-type": "text/html", "x-a": "<b>"}, "body": """${MARKUP}"""}
`;

export default async function (world) {
  await world.deploy("hello", { "handler.py": code, "a&lt' autofocus onfocus='alert(3).py": code },
    { env: { MARKUP } });
  await world.api("POST", "/triggers",
    { name: "queue", type: "event", function_ref: "hello", queue: MARKUP });
  await world.api("POST", "/functions", { name: "wrong", runtime: "python3.11" });
  await world.upload("wrong", { "handler.py": `raise ValueError("""${MARKUP}""")\n` });
  await world.phase("wrong", "Failed");

  const page = await world.signedIn({}, "/functions/hello");
  await page.locator("details[data-fetch*='/source/'] > summary").click();
  await page.locator(".code .text").waitFor();
  equal(await page.locator(".code .text").textContent(), code, "the source as it is");
  await page.locator(".files button").first().click();
  await page.locator("details[data-log] > summary").click();
  await page.locator("details[data-call] > summary").click();
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.locator(".answer pre.body").waitFor();
  equal(await page.locator(".answer pre.body").textContent(), MARKUP, "the answer as it is");
  await until("the log as it is", async () => (await page.locator(".lines").textContent()).includes(MARKUP));
  await page.locator("details[data-fetch$='/calls'] > summary").click();
  await page.locator(".calls").waitFor();
  holds(!(await page.content()).includes("MARKUP=</pre>"), "no value of the environment");

  await page.goto(world.console());
  await page.locator("#f-wrong > summary").click();
  await page.locator("#f-wrong details.section").first().waitFor();
  holds((await page.locator("#f-wrong .trouble").textContent()).includes("alert(1)"), "the reason as it is");
  await page.goto(world.console(`?find=${encodeURIComponent(`"><script>alert(4)</script>`)}`));
  equal(await page.locator("img, script:not([src])").count(), 0, "no markup of others");
  clean(page, world);
}
