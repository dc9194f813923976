// What is fetched when it is opened.
import { fill, part } from "./html.js";
import { endLog, openLog } from "./log.js";

export function startPanels() {
  // `toggle` does not bubble, but it can be caught on its way down.
  document.addEventListener("toggle", (event) => toggled(event.target), true);
  for (const details of document.querySelectorAll("details.function[open]")) toggled(details);
}

function toggled(details) {
  const { panel, fetch: path, log } = details.dataset;
  if (!details.open) {
    if (log) endLog(details);
    return;
  }
  if (panel) openPanel(details);
  else if (path) load(details, path);
  else if (log) load(details, log).then(() => details.open && openLog(details));
}

/** The whole panel of a function, once. */
async function openPanel(details) {
  if (details.dataset.full) return;
  details.dataset.full = "yes";
  const body = details.querySelector("[data-body]");
  body.setAttribute("aria-busy", "true");
  const told = await part(details.dataset.panel);
  if (told.ok) fill(body, told.content);
  else {
    body.append(told.content);
    delete details.dataset.full;
  }
  body.dispatchEvent(new CustomEvent("sless:filled", { bubbles: true }));
}

async function load(details, path) {
  const place = details.querySelector("[data-into]");
  place.setAttribute("aria-busy", "true");
  fill(place, (await part(path)).content);
}
