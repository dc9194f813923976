// Run with: npm test

const test = require("node:test");
const assert = require("node:assert");

const { handle } = require("./handler");

test("greets by name", async () => {
  assert.deepStrictEqual(await handle({ name: "Ada" }), { message: "Hello, Ada!" });
});

test("greets the world", async () => {
  assert.deepStrictEqual(await handle({}), { message: "Hello, world!" });
});
