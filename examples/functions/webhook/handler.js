"use strict";

const { createHmac, timingSafeEqual } = require("node:crypto");

const SECRET = process.env.WEBHOOK_SECRET;
if (!SECRET) {
  // A deploy without it fails here, instead of taking everything or nothing later.
  throw new Error("WEBHOOK_SECRET is not set");
}

const signedBy = (header, body) => {
  const given = /^sha256=([0-9a-f]{64})$/i.exec(header ?? "");
  const right = createHmac("sha256", SECRET).update(body).digest();
  // How long the comparison takes tells nothing about how much of the signature was right.
  return given !== null && timingSafeEqual(Buffer.from(given[1], "hex"), right);
};

const answer = (statusCode, body) => ({
  statusCode,
  headers: { "content-type": "application/json" },
  body,
});

exports.handle = (event, context) => {
  // The bytes that were sent: a JSON value written again may differ from them.
  if (!signedBy(context.headers["x-hub-signature-256"], context.body)) {
    console.warn("refused: no signature, or a wrong one");
    return answer(401, { error: "x-hub-signature-256 does not fit the body" });
  }
  const kind = context.headers["x-github-event"] ?? "unknown";
  console.log(`accepted: ${kind}`);
  return answer(202, { accepted: kind, action: event.action ?? null });
};
