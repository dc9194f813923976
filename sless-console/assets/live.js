// What becomes of functions, as the server tells it.
import { parse, part, say, stream, swap, whileSeen } from "./html.js";

/** What was told last, by name. */
const known = new Map();

export function startLive() {
  const { live } = document.body.dataset;
  const page = document.querySelector("article[data-page]");
  if (!live || !(page || document.getElementById("functions"))) return;
  const url = `${live}?${page ? new URLSearchParams({ only: page.dataset.function }) : shown()}`;
  const handlers = {
    all: (data) => all(JSON.parse(data)),
    some: (data) => JSON.parse(data).forEach(one),
  };
  whileSeen(() => stream(url, handlers, connection));
}

/** Which of the functions this page lists: those with a text in their names, from a place on. */
function shown() {
  const wanted = new URLSearchParams(location.search);
  return new URLSearchParams(["find", "cursor"].flatMap((name) => {
    const value = wanted.get(name);
    return value ? [[name, value]] : [];
  }));
}

function connection(works) {
  const line = document.querySelector(".offline");
  const { reconnecting, reconnected } = document.body.dataset;
  if (!works) {
    line.textContent = reconnecting;
    line.hidden = false;
  } else if (!line.hidden) {
    line.hidden = true;
    say(reconnected);
  }
}

function all(told) {
  const names = new Set(told.map(({ name }) => name));
  for (const { dataset: { function: name } } of document.querySelectorAll("#functions > details")) {
    if (!names.has(name)) document.getElementById(`f-${name}`)?.remove();
  }
  told.forEach(one);
}

function one(told) {
  const { name, gone, word, state, version, code } = told;
  const before = known.get(name);
  if (gone) {
    known.delete(name);
    document.getElementById(`f-${name}`)?.remove();
    return;
  }
  known.set(name, told);
  const places = [...document.querySelectorAll("[data-state]")].filter((e) => e.dataset.state === name);
  if (places.length === 0) { add(name); return; }
  const fresh = parse(state);
  const differs = places.some((place) => place.innerHTML !== html(fresh));
  for (const place of places) if (differs) place.replaceChildren(fresh.cloneNode(true));
  if (before && before.word !== word) say(`${name} ${document.body.dataset.isNow} ${word}`);
  if (before ? before.version !== version : differs) refresh(name);
  if (before && before.code !== code) {
    document.dispatchEvent(new CustomEvent("sless:code", { detail: name }));
  }
}

function html(fragment) {
  const box = document.createElement("div");
  box.append(fragment.cloneNode(true));
  return box.innerHTML;
}

/** What is shown of an opened function, anew. */
async function refresh(name) {
  const place = document.getElementById(`f-${name}`) ?? document.querySelector("article[data-page]");
  if (!place || (place.tagName === "DETAILS" && !place.open)) {
    // Fetched when it is opened.
    if (place) delete place.dataset.full;
    return;
  }
  const path = location.pathname.split("/").slice(0, 3).join("/");
  const told = await part(`${path}/functions/${name}?part=live`);
  if (!told.ok) return;
  for (const what of ["facts", "triggers"]) {
    const old = place.querySelector(`[data-${what}]`);
    const fresh = told.content.querySelector(`[data-${what}]`);
    if (old && fresh) swap(old, fresh);
  }
}

/** An entry for a function that is new, in its place by name. */
async function add(name) {
  const list = document.getElementById("functions");
  if (!list || !belongs(name, list)) return;
  const told = await part(`${location.pathname}/functions/${name}?part=entry`);
  const entry = told.content.querySelector("details");
  if (!told.ok || !entry || document.getElementById(`f-${name}`)) return;
  const after = [...list.children].find((other) => other.dataset.function > name);
  list.insertBefore(entry, after ?? null);
  document.querySelector("main > .empty")?.remove();
}

/** Whether a function is to be on this page of the list, and not on one before or behind it. */
function belongs(name, list) {
  const wanted = new URLSearchParams(location.search);
  const isAfter = (other) => other !== undefined && name > other.dataset.function;
  const [first, last] = [list.children[0], list.children[list.childElementCount - 1]];
  if (wanted.has("cursor") && !isAfter(first)) return false;
  if (document.querySelector('main [name="cursor"]') && isAfter(last)) return false;
  return name.includes((wanted.get("find") ?? "").trim());
}
