// Code that is dropped on a form, or chosen in it, and how far it is on its way.
import { fill, parse, say, trouble } from "./html.js";
import { zip } from "./zip.js";

/** What never belongs to a function, in any folder: as for the command line, since `.env` holds secrets. */
const leftOut = (name) => name.startsWith(".") || name === "node_modules" || name === "__pycache__";

/** Says what a folder's function is; the code does without it. */
const MANIFEST = "sless.toml";

/** Files that were dropped on a form. */
const dropped = new WeakMap();

export function startDrops() {
  offerFolders(document);
  document.addEventListener("sless:filled", (event) => offerFolders(event.target));
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => dragged(name, event));
  }
  document.addEventListener("submit", (event) => {
    if (!("deploy" in event.target.dataset)) return;
    event.preventDefault();
    deploy(event.target);
  });
}

function offerFolders(root) {
  for (const part of root.querySelectorAll(".scripted")) part.hidden = false;
}

function dragged(name, event) {
  if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
  // What misses the form must not be opened in place of the page.
  event.preventDefault();
  const form = event.target.closest?.("form.drop");
  for (const other of document.querySelectorAll(".drop.over")) other.classList.remove("over");
  if (form && name === "dragover") form.classList.add("over");
  if (form && name === "drop") {
    take(form, event.dataTransfer).catch(() => {
      fill(document.getElementById(form.dataset.answer), trouble(document.body.dataset.wentWrong));
    });
  }
}

async function take(form, transfer) {
  // The list is empty once this function has waited.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const plain = [...transfer.files];
  const files = [];
  if (entries.length) for (const entry of entries) await walk(entry, "", files);
  else for (const file of plain) files.push({ path: file.name, file });
  dropped.set(form, files);
  const name = form.elements.name;
  const first = entries[0]?.name ?? plain[0]?.name ?? "";
  if (name?.type !== "hidden" && !name.value) name.value = nameOf(first);
  form.requestSubmit();
}

function nameOf(file) {
  const word = file.toLowerCase().replace(/\.zip$/, "").replace(/[^a-z0-9]+/g, "-");
  return word.replace(/^-+|-+$/g, "").slice(0, 63);
}

async function walk(entry, folder, files) {
  if (leftOut(entry.name)) return;
  const path = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise((done, fail) => entry.file(done, fail));
    files.push({ path, file });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (some.length === 0) return;
    for (const one of some) await walk(one, `${path}/`, files);
  }
}

/** What is to be sent: a zip as it is, or a zip of everything else. */
async function content(form) {
  let files = dropped.get(form);
  if (!files) {
    const zips = [...form.elements.file.files];
    const folder = [...form.querySelector("[data-folder]").files];
    files = zips.length
      ? zips.map((file) => ({ path: file.name, file }))
      : folder.map((file) => ({ path: file.webkitRelativePath, file }));
    files = files.filter(({ path }) => !path.split("/").some(leftOut));
  }
  if (files.length === 1 && files[0].path.toLowerCase().endsWith(".zip")) return files[0].file;
  if (files.length === 0) return null;
  return zip(withoutCommonFolder(files).filter(({ path }) => path !== MANIFEST));
}

/** A folder is sent as what is in it. */
function withoutCommonFolder(files) {
  const first = files[0].path.split("/")[0];
  const common = files.every(({ path }) => path.startsWith(`${first}/`));
  if (!common) return files;
  return files.map(({ path, file }) => ({ path: path.slice(first.length + 1), file }));
}

async function deploy(form) {
  if (form.getAttribute("aria-busy") === "true") return;
  const place = document.getElementById(form.dataset.answer);
  const bar = form.querySelector("progress");
  form.setAttribute("aria-busy", "true");
  const words = document.body.dataset;
  try {
    fill(place, document.createTextNode(words.packing));
    const file = await content(form);
    if (!file) { form.elements.file.click(); fill(place, ""); return; }
    const body = new FormData();
    // The file last: the server reads in this order.
    for (const name of ["name", "runtime", "entrypoint"]) {
      if (form.elements[name]) body.append(name, form.elements[name].value);
    }
    body.append("file", file, "code.zip");
    bar.hidden = false;
    bar.value = 0;
    const told = await send(form.action, body, (percent) => {
      bar.value = percent;
      fill(place, document.createTextNode(`${words.uploading}: ${percent} %`));
    });
    fill(place, parse(told));
  } catch {
    fill(place, trouble(words.wentWrong));
    say(words.wentWrong);
  } finally {
    bar.hidden = true;
    dropped.delete(form);
    form.removeAttribute("aria-busy");
  }
}

/** `fetch` does not tell how far an upload is. */
function send(url, body, progress) {
  return new Promise((done, fail) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    request.setRequestHeader("x-sless-fragment", "1");
    request.upload.onprogress = ({ loaded, total }) => progress(Math.floor((loaded / total) * 100));
    request.onload = () => done(request.responseText);
    request.onerror = () => fail(new Error("the connection was lost"));
    request.send(body);
  });
}
