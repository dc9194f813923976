// A process that is nothing but a console: it checks tokens as one with the API does.
import { equal, holds } from "./world.mjs";

export const settings = { SLESS_ROLES: "console" };
export const bare = true;

export default async function (world) {
  const ask = async (path, token) => {
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    return fetch(`${world.address}${path}`, { headers });
  };
  const path = `/funcs/${world.namespace}`;
  const good = world.token("alice");
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const claims = { sub: "alice", exp: Math.floor(Date.now() / 1000) + 600 };
  const forged = `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}.${"A".repeat(43)}`;
  equal((await ask(path)).status, 401, "nobody");
  equal((await ask(path, forged)).status, 401, "a token without a signature that fits");
  equal((await ask(path, world.token("eve"))).status, 403, "somebody else");
  const shown = await ask(path, good);
  equal(shown.status, 200, "the one");
  holds((await shown.text()).startsWith("NAME"), "a listing");
  equal((await ask(`/v1/namespaces/${world.namespace}/functions`, good)).status, 404, "no API");
  equal((await ask(`/fn/${world.namespace}/x`)).status, 404, "no functions");
}
