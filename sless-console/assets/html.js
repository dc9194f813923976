// What all scripts share: markup from this server, requests to it, and words for screen readers.

const policy = globalThis.trustedTypes?.createPolicy("sless", { createHTML: (text) => text })
  ?? { createHTML: (text) => text };

/** Markup that this server has made. Nothing else may come here. */
export function parse(text) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(text);
  return template.content;
}

/** A part of a page. What is refused, or cannot be reached, is a part that says so. */
export async function part(url, options = {}) {
  const headers = { "x-sless-fragment": "1", ...options.headers };
  try {
    const response = await fetch(url, { ...options, headers, redirect: "error" });
    return { ok: response.ok, status: response.status, content: parse(await response.text()) };
  } catch {
    return { ok: false, status: 0, content: trouble(document.body.dataset.wentWrong) };
  }
}

/** A part that says what went wrong. */
export function trouble(text) {
  const box = document.createElement("div");
  box.className = "failure";
  box.setAttribute("role", "alert");
  box.textContent = text;
  return box;
}

/** Puts a part in the place of what was in an element. */
export function fill(element, content) {
  element.replaceChildren(content);
  element.removeAttribute("aria-busy");
}

/** Says something to those who do not see the page. */
export function say(text) {
  document.getElementById("say").textContent = text;
}

/** Puts a new element in the place of an old one; focus and opened parts stay. */
export function swap(old, fresh) {
  const key = old.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const open = [...old.querySelectorAll("details[open][data-fetch]")].map((one) => one.dataset.fetch);
  old.replaceWith(fresh);
  for (const one of fresh.querySelectorAll("details[data-fetch]")) {
    if (open.includes(one.dataset.fetch)) one.open = true;
  }
  if (key) focusKey(fresh, key);
}

export function focusKey(root, key) {
  const all = [...root.querySelectorAll("[data-key]")];
  all.find((one) => one.dataset.key === key)?.focus();
}

/** Answers while the page is seen with a function that is called when it is hidden, and again. */
export function whileSeen(begin) {
  let end = null;
  const look = () => {
    if (document.hidden) { end?.(); end = null; } else { end ??= begin(); }
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    end?.();
    end = null;
  };
}

/** A stream of events that is opened again whatever ends it. Answers how to end it for good. */
export function stream(url, handlers, seen = () => {}) {
  const AGAIN = 1500;
  let source = null;
  let timer = 0;
  const open = () => {
    source = new EventSource(url);
    source.onopen = () => seen(true);
    source.onerror = () => {
      seen(false);
      // The browser itself tries again unless it was refused, as by a proxy whose server restarts.
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, AGAIN);
    };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handle(event.data));
    }
  };
  open();
  return () => { clearTimeout(timer); source.close(); };
}
