// Logs that go on as they are written.
import { stream, whileSeen } from "./html.js";

const LINES_MAX = 2000;
const ends = new Map();

export function startLogs() {
  for (const log of document.querySelectorAll("article .log, main > .log")) follow(log);
  // Another build has another log.
  document.addEventListener("sless:code", (event) => {
    for (const log of [...ends.keys()]) {
      if (log.dataset.stream.includes(`/functions/${event.detail}/`)) { end(log); follow(log); }
    }
  });
}

export function openLog(details) {
  const log = details.querySelector(".log");
  if (log) follow(log);
}

export function endLog(details) {
  const log = details.querySelector(".log");
  if (log) end(log);
}

function follow(log) {
  if (ends.has(log)) return;
  log.querySelector(".bar").hidden = false;
  const lines = log.querySelector(".lines");
  const keep = log.querySelector("[data-keep]");
  const toEnd = () => { if (keep.checked) lines.scrollTop = lines.scrollHeight; };
  const handlers = {
    begin: () => lines.replaceChildren(),
    lines: (data) => {
      if (!log.isConnected) { end(log); return; }
      log.querySelector(".empty")?.remove();
      lines.append(...JSON.parse(data).map(line));
      while (lines.childElementCount > LINES_MAX) lines.firstElementChild.remove();
      toEnd();
    },
  };
  toEnd();
  ends.set(log, whileSeen(() => stream(log.dataset.stream, handlers)));
}

function end(log) {
  ends.get(log)?.();
  ends.delete(log);
}

function line({ at, source, text, truncated }) {
  const row = document.createElement("span");
  row.className = `line ${source}`;
  const part = (name, word) => {
    const element = document.createElement("span");
    element.className = name;
    element.textContent = word;
    return element;
  };
  row.append(part("at", at), " ", part("from", source), ` ${text}${truncated ? " …" : ""}\n`);
  return row;
}
