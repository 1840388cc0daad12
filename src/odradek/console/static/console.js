// The script of every page: keeps [data-live] parts up to date, the keyboard, times in the reader's zone.
// Pages work without it.

import { morph } from "./morph.js";
import { jumping } from "./jump.js";
import { keyboard } from "./keyboard.js";

const root = document.documentElement;
const prefix = root.dataset.prefix ?? "";
const SLOW_MS = 10_000;

// A page that is slow to make is asked for less often.
const PAUSE_PER_TOOK = 4;

let fetching = false;
let notBefore = 0;
let wanted = false;
let paused = root.dataset.refresh === "off";

// Replaces the parts that have changed. Everything else on the page stays: fields, scroll positions, open dialogs.
export async function refresh() {
  if (fetching) { wanted = true; return; }
  fetching = true;
  const began = performance.now();
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html", "x-refresh": "1" } });
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live][id]")) {
      const next = fresh.getElementById(part.id);
      if (next) morph(part, next);
    }
    decorate(document);
    root.dataset.connection = "there";
    document.dispatchEvent(new CustomEvent("refreshed"));
  } catch {
    root.dataset.connection = "lost";
  } finally {
    fetching = false;
    notBefore = performance.now() + PAUSE_PER_TOOK * (performance.now() - began);
    if (wanted) { wanted = false; refresh(); }
  }
}

function news() {
  if (!document.querySelector("[data-live]")) return;
  const look = () => { if (!paused && !document.hidden && performance.now() >= notBefore) refresh(); };
  if (root.dataset.refresh === "10") { setInterval(look, SLOW_MS); return; }
  let last = null;
  const source = new EventSource(`${prefix}/events`);
  source.addEventListener("snapshot", (event) => {
    if (last !== null && last !== event.data) look();
    last = event.data;
    root.dataset.connection = "there";
  });
  source.addEventListener("error", () => { root.dataset.connection = "lost"; });
  document.addEventListener("visibilitychange", look);
}

// Times in the reader's own zone; the exact one, in UTC, is the title.
function decorate(within) {
  for (const time of within.querySelectorAll("time[data-ms]")) {
    const at = new Date(Number(time.dataset.ms));
    if (Number.isNaN(at.getTime())) continue; // microseconds: the number that the server wrote stays
    const today = at.toDateString() === new Date().toDateString();
    const text = today ? at.toLocaleTimeString() : at.toLocaleString();
    if (time.textContent !== text) time.textContent = text;
    time.title = at.toISOString();
  }
}

function ages() {
  const age = document.getElementById("age");
  if (!age) return;
  const seconds = Math.max(0, (Date.now() - Number(age.dataset.at)) / 1000);
  age.classList.toggle("old", seconds > 8);
  age.textContent = paused ? "paused" : seconds < 100 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`;
}

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (!copy) return;
  const from = document.getElementById(copy.dataset.copy);
  await navigator.clipboard.writeText(from ? from.textContent : copy.dataset.text ?? "");
  copy.dataset.done = "yes";
  setTimeout(() => { delete copy.dataset.done; }, 1500);
});

keyboard({
  jump: jumping(prefix),
  pause: () => { paused = !paused; ages(); if (!paused) refresh(); },
});
decorate(document);
if (root.dataset.refresh !== "off") news();
setInterval(ages, 1000);
