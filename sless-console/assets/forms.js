// Forms that answer in their place.
import { fill, focusKey, part, swap } from "./html.js";

export function startForms() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const send = sender(form);
    if (!send) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    const fields = new URLSearchParams(new FormData(form, event.submitter));
    form.setAttribute("aria-busy", "true");
    send(form, fields, event.submitter).finally(() => form.removeAttribute("aria-busy"));
  });
}

function sender(form) {
  if ("patch" in form.dataset) return patch;
  if ("send" in form.dataset) return sendOnly;
  if ("swap" in form.dataset) return swapPart;
  if ("answer" in form.dataset && !("deploy" in form.dataset)) return answer;
  return null;
}

function failed(form, content) {
  form.querySelector(".failure")?.remove();
  form.append(content);
}

/** A switch: the stream of events tells what has become of it. */
async function patch(form, fields) {
  const told = await part(form.action, {
    method: "PATCH",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ enabled: fields.get("enabled") === "true" }),
  });
  if (!told.ok) failed(form, told.content);
}

async function sendOnly(form, fields) {
  const told = await part(form.action, { method: "POST", body: fields });
  if (!told.ok) failed(form, told.content);
}

/** Filters, pages, redrives: another state of the part that the form stands in. */
async function swapPart(form, fields, submitter) {
  const isGet = form.method === "get";
  const url = isGet ? `${form.action.split("?")[0]}?${fields}` : form.action;
  const told = await part(url, isGet ? {} : { method: "POST", body: fields });
  const place = form.closest("[data-part]");
  const fresh = told.content.querySelector("[data-part]");
  if (!told.ok || !fresh) { failed(form, told.content); return; }
  const key = submitter?.dataset.key;
  swap(place, fresh);
  if (key) focusKey(fresh, key);
}

async function answer(form, fields) {
  const place = document.getElementById(form.dataset.answer);
  const told = await part(form.action, { method: "POST", body: fields });
  const list = document.getElementById("functions");
  if (told.ok && form.dataset.gone && list) {
    // The entry goes; what is told of that stays.
    const note = document.createElement("div");
    note.tabIndex = -1;
    note.append(told.content);
    list.before(note);
    note.focus();
    return;
  }
  fill(place, told.content);
}
