// The messages of a topic: runs the search or the live tail of the address, and shows what arrives.
// Payloads are set as text only. What a row expands to is rendered by the server, which escapes it.

const form = document.getElementById("query");
const found = document.querySelector("[data-found]");
const table = found.querySelector("[data-table]");
const body = table.tBodies[0];
const progress = found.querySelector("[data-progress]");
const bar = found.querySelector("[data-bar]");
const empty = found.querySelector("[data-empty]");
const more = found.querySelector("[data-more]");
const startButton = form.querySelector("[data-start]");
const stopButton = form.querySelector("[data-stop]");

const LIVE_ROWS_MAX = 500;
const numbers = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

let source = null;
let left = "";
let stopped = false;

// --- the toolbar

function live() { return form.elements.from.value === "live"; }

function fit() {
  const start = form.elements.from.value;
  const at = form.querySelector("[data-at]");
  at.hidden = start !== "offset" && start !== "time";
  at.querySelector("input").placeholder = start === "time" ? "2026-11-19T10:00 or -15m" : "42, or -100";
  for (const part of ["key", "value"]) {
    const wanted = form.elements[part].value === "avro";
    form.querySelector(`[data-schema-of=${part}]`).hidden = !wanted;
    if (wanted) form.querySelector("details.options").open = true;
  }
}

form.addEventListener("change", (event) => {
  fit();
  if (!event.target.matches("[data-run]")) return;
  const start = form.elements.from.value;
  if ((start === "offset" || start === "time") && !form.elements.at.value) { form.elements.at.focus(); return; }
  form.requestSubmit();
});
// The address keeps only what was chosen.
form.addEventListener("formdata", (event) => {
  const plain = { from: "newest", limit: "50", key: "auto", value: "auto" };
  const start = event.formData.get("from");
  if (start !== "offset" && start !== "time") event.formData.delete("at");
  for (const [name, value] of [...event.formData]) {
    if (value.trim() === "" || plain[name] === value) event.formData.delete(name);
  }
});

// --- running

function run(continued) {
  stop();
  stopped = false;
  const params = new URLSearchParams(location.search);
  if (continued) params.set("left", continued); else body.replaceChildren();
  const url = live() ? form.dataset.liveUrl : form.dataset.searchUrl;
  source = new EventSource(`${url}?${params}`);
  source.addEventListener("messages", (event) => show(JSON.parse(event.data)));
  source.addEventListener("progress", (event) => report(JSON.parse(event.data)));
  source.addEventListener("ready", () => { found.dataset.ready = "yes"; progress.textContent = "Live: waiting for records."; });
  source.addEventListener("done", (event) => done(JSON.parse(event.data)));
  source.addEventListener("note", (event) => problem(JSON.parse(event.data), true));
  source.addEventListener("problem", (event) => { problem(JSON.parse(event.data)); ended(); });
  source.addEventListener("error", () => { problem({ what: "The console does not answer. Search again." }); ended(); });
  found.dataset.state = "running";
  form.querySelector("[data-problem]").hidden = true;
  progress.textContent = live() ? "Connecting…" : "Searching…";
  bar.hidden = live();
  bar.removeAttribute("value");
  startButton.hidden = true;
  stopButton.hidden = false;
  more.hidden = true;
  empty.hidden = true;
}

function stop() { source?.close(); source = null; }

function ended() {
  stop();
  found.dataset.state = "ended";
  bar.hidden = true;
  startButton.hidden = false;
  stopButton.hidden = true;
}

stopButton.addEventListener("click", () => {
  stopped = true;
  ended();
  progress.textContent = `Stopped. ${progress.textContent.replace(/^(Searching|Live):? ?/, "")}`;
});
more.querySelector("button").addEventListener("click", () => run(left));

function done(told) {
  ended();
  left = told.left;
  more.hidden = !left;
  more.querySelector("span").textContent = left ? "There are more records." : "";
  if (body.rows.length) return;
  const filtered = form.elements.filter.value;
  nothing(filtered ? "No record matches." : "No records here.", filtered
    ? "All records of the chosen partitions and time were searched."
    : "New ones appear with “Start: Live”.");
}

function nothing(text, hint) {
  table.hidden = true;
  empty.hidden = false;
  empty.querySelector("[data-empty-text]").textContent = text;
  empty.querySelector("[data-empty-hint]").textContent = hint;
}

function problem(told, goesOn = false) {
  const line = form.querySelector("[data-problem]");
  line.hidden = false;
  const where = told.field ? `${told.field[0].toUpperCase()}${told.field.slice(1)}${told.column ? `, column ${told.column}` : ""}: ` : "";
  line.textContent = where + told.what;
  if (!goesOn) progress.textContent = "";
}

function report(told) {
  const rate = told.seconds > 0.3 ? ` · ${numbers.format(Math.round(told.records / told.seconds))}/s` : "";
  const read = `${numbers.format(told.records)} ${told.records === 1 ? "record" : "records"}, ${size(told.bytes)}`;
  const out = told.left_out ? ` · ${numbers.format(told.left_out)} more matched than the page can show` : "";
  if (live()) { progress.textContent = `Live: ${numbers.format(told.found)} shown of ${read}${rate}${out}`; return; }
  bar.value = told.share;
  progress.textContent = found.dataset.state === "running"
    ? `Searching: ${Math.floor(told.share * 100)} % · ${read}${rate} · ${numbers.format(told.found)} found`
    : progress.textContent;
  if (told.share !== undefined && !stopped) progress.dataset.last = `${numbers.format(told.found)} found in ${read}, ${told.seconds.toFixed(1)} s${rate}`;
}

new MutationObserver(() => {
  if (found.dataset.state === "ended" && !stopped && progress.dataset.last) progress.textContent = progress.dataset.last;
}).observe(found, { attributes: true, attributeFilter: ["data-state"] });

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

// --- rows

function show(rows) {
  table.hidden = false;
  empty.hidden = true;
  const made = rows.map(row);
  if (!live()) { body.append(...made); return; }
  body.prepend(...made.reverse());
  while (body.rows.length > LIVE_ROWS_MAX) body.lastElementChild.remove();
}

function cell(text, className) {
  const made = document.createElement("td");
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function payload(part, className) {
  const made = cell(part.text, className);
  if (part.kind === "null" || part.kind === "empty") { made.textContent = part.kind; made.classList.add("soft"); }
  if (part.kind === "hex") made.classList.add("soft");
  if (part.cut) made.append("…");
  made.title = part.why ?? part.kind;
  return made;
}

function when(stamp, ms) {
  const at = new Date(ms);
  // Some producers write microseconds: what is no date is shown as the number.
  if (ms < 0 || Number.isNaN(at.getTime())) { stamp.textContent = ms < 0 ? "–" : String(ms); return; }
  stamp.textContent = at.toDateString() === new Date().toDateString() ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
  stamp.title = at.toISOString();
}

function row(told) {
  const made = document.createElement("tr");
  const time = document.createElement("td");
  const toggle = document.createElement("button");
  toggle.type = "button";
  toggle.className = "toggle";
  toggle.setAttribute("aria-expanded", "false");
  toggle.setAttribute("aria-label", `Show partition ${told.p}, offset ${told.o}`);
  const stamp = document.createElement("time");
  when(stamp, told.t);
  time.append(toggle, stamp);
  time.className = "when";
  const link = document.createElement("a");
  link.href = address(told);
  link.textContent = numbers.format(told.o);
  const offset = cell("", "n");
  offset.append(link);
  const last = payload(told.value, "payload-cell value mono");
  made.append(time, cell(told.p, "n"), offset, payload(told.key, "payload-cell key mono"));
  for (const column of told.columns ?? []) made.append(cell(column, "payload-cell mono"));
  made.append(last, cell(size(told.size), "n"));
  made.dataset.place = `${told.p}:${told.o}`;
  return made;
}

function address(told) {
  const params = new URLSearchParams(location.search);
  const kept = new URLSearchParams();
  for (const name of ["key", "value", "key_schema", "value_schema"]) if (params.get(name)) kept.set(name, params.get(name));
  return `${form.dataset.messageUrl}/${told.p}/${told.o}${kept.size ? `?${kept}` : ""}`;
}

body.addEventListener("click", (event) => {
  if (event.target.closest("a, .details, summary") || window.getSelection().toString()) return;
  const row = event.target.closest("tr[data-place]");
  if (row) toggle(row);
});

async function toggle(row) {
  const button = row.querySelector(".toggle");
  const next = row.nextElementSibling;
  if (next?.classList.contains("details")) {
    next.remove();
    button.setAttribute("aria-expanded", "false");
    return;
  }
  button.setAttribute("aria-expanded", "true");
  const details = document.createElement("tr");
  details.className = "details";
  const wide = document.createElement("td");
  wide.colSpan = row.cells.length;
  wide.textContent = "Loading…";
  details.append(wide);
  row.after(details);
  try {
    const answer = await fetch(row.querySelector("a").href, { headers: { accept: "text/html", "x-part": "1" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const part = page.querySelector(".message") ?? page.querySelector("main");
    wide.replaceChildren(document.importNode(part, true));
  } catch {
    wide.textContent = "The console does not answer.";
  }
}

fit();
if (!("idle" in found.dataset)) run("");
window.addEventListener("pagehide", stop);
