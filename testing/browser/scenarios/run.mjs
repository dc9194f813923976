// Runs one scenario against a server of its own: node run.mjs SCENARIO

import { World } from "./world.mjs";

const name = process.argv[2];
const { settings, bare, default: scenario } = await import(`./${name}.mjs`);
const world = await World.start(settings, { bare });
let failed = false;
try {
  await scenario(world);
} catch (error) {
  failed = true;
  console.error(`${name}: ${error.stack ?? error}`);
  console.error(`The end of the server's log:\n${world.log()}`);
} finally {
  await world.end();
}
process.exit(failed ? 1 : 0);
