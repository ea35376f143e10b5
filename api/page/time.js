// Times in the viewer's zone, and ages that tick.

import { el, soft } from "./elements.js";

let ahead = 0; // ms that the server's clock is ahead of this one

// setClock sets the offset to the server's time, which has a resolution of seconds.
export function setClock(date) {
  ahead = Math.abs(date - Date.now()) > 2500 ? date - Date.now() : 0;
}

const now = () => Date.now() + ahead;
export const clockOf = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayOf = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const fullOf = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long", hourCycle: "h23" });

function span(ms) {
  const s = Math.round(Math.abs(ms) / 1000);
  if (s < 100) return s + " s";
  if (s < 6000) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " days";
}

export const clock = (d) => (Math.abs(d - now()) < 12 * 3600e3 ? clockOf : dayOf).format(d);

// Texts of a time, by its format.
const ways = {
  clock,
  both: (d) => clock(d) + ", " + ways.age(d),
  age: (d) => { const ms = d - now(); return Math.abs(ms) < 1000 ? "now" : ms > 0 ? "in " + span(ms) : span(ms) + " ago"; },
  due: (d) => { const ms = d - now(); return ms < -2000 ? "overdue by " + span(ms) : ms < 1000 ? "now" : "in " + span(ms); },
  for: (d) => span(Math.max(0, now() - d)),
};

export function when(at, way = "both") {
  if (!at) return soft("never");
  const d = new Date(at);
  const t = el("time", { datetime: at, "data-way": way, title: d.toISOString().replace("T", " ").replace("Z", " UTC") + "\n" + fullOf.format(d) });
  t.textContent = ways[way](d);
  return t;
}

export function tick() {
  for (const t of document.querySelectorAll("time")) {
    const text = ways[t.dataset.way](new Date(t.dateTime));
    if (t.textContent !== text) t.textContent = text;
    if (t.dataset.way === "due") t.classList.toggle("late", text.startsWith("overdue"));
  }
}

export const took = (x) => (x.started_at && x.finished_at ? span1(new Date(x.finished_at) - new Date(x.started_at)) : "");
const span1 = (ms) => (ms < 10e3 ? (ms / 1000).toFixed(ms < 100 ? 3 : 1) + " s" : span(ms));

