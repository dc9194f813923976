"use strict";

const { setTimeout: sleep } = require("node:timers/promises");

const GREETING = process.env.GREETING ?? "Hi";

exports.handle = async (event, context) => {
  await sleep(1); // where a real one would ask a database
  return {
    message: `${GREETING}, ${event.name ?? "world"}!`,
    method: context.method,
  };
};
