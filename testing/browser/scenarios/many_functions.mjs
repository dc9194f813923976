// Five hundred functions: how fast a page is there, and whether it scrolls smoothly.
import { clean, equal, holds } from "./world.mjs";

export default async function (world) {
  const names = Array.from({ length: 500 }, (_, n) => `function-${String(n).padStart(3, "0")}`);
  const make = (name) => world.api("POST", "/functions", { name, runtime: "python3.11", replicas: 0 });
  for (let at = 0; at < names.length; at += 50) await Promise.all(names.slice(at, at + 50).map(make));
  const page = await world.signedIn();
  equal(await page.locator("#functions > details").count(), 500, "entries");
  const times = [];
  for (let count = 0; count < 5; count += 1) {
    await page.reload();
    times.push(await page.evaluate(() => {
      const [entry] = performance.getEntriesByType("navigation");
      return Math.round(entry.responseEnd - entry.requestStart);
    }));
  }
  console.log(`500 functions answered in ${Math.min(...times)} ms (all: ${times})`);
  holds(Math.min(...times) < 200, `answered in ${times} ms`);
  const frames = await page.evaluate(() => new Promise((done) => {
    const gaps = [];
    let last = performance.now();
    const step = (now) => {
      gaps.push(now - last);
      last = now;
      scrollBy(0, 120);
      if (gaps.length < 120) requestAnimationFrame(step);
      else done(gaps.slice(5).sort((a, b) => a - b));
    };
    requestAnimationFrame(step);
  }));
  const middle = frames[Math.floor(frames.length / 2)];
  console.log(`a frame while scrolling: ${middle.toFixed(1)} ms in the middle, ${frames.at(-1).toFixed(1)} ms at most`);
  holds(middle < 34, `scrolling takes ${middle} ms a frame`);
  clean(page, world);
}
