// Details of a task, or of a due time without one, below its row.

import { ask, get, maybe } from "./ask.js";
import { badge, by, el, facts, groupPath, joined, progress, soft } from "./elements.js";
import { sleep, visible } from "./stream.js";
import { took, when } from "./time.js";

export const opened = new Map(); // id of a task, or dueKey of a due time → row

const ofDue = "due ";
const whyOf = (job, at) => `jobs/${encodeURIComponent(job)}/why?at=${encodeURIComponent(at)}`;
export const dueKey = (t) => t.task_id || ofDue + whyOf(t.job, t.at);

export function opener(task) {
  if (!task) return "";
  const open = opened.has(task);
  return el("button", { type: "button", "data-task": task, "aria-expanded": String(open), click: (e) => toggle(task, e.currentTarget) }, open ? "Close" : "Details");
}

function toggle(task, button) {
  const open = !opened.has(task), row = button.closest("tr");
  if (open) row.after(under(task, row));
  else { opened.get(task).remove(); opened.delete(task); }
  button.setAttribute("aria-expanded", String(open));
  button.textContent = open ? "Close" : "Details";
}

export function under(task, row) {
  let tr = opened.get(task);
  if (!tr) {
    const box = el("td", { class: "more", role: "cell", colspan: row.cells.length }, soft("Loading …"));
    tr = el("tr", { class: "under", role: "row" }, box);
    opened.set(task, tr);
  }
  if (tr.of !== row.text) { // new, or its row changed
    tr.of = row.text;
    if (task.startsWith(ofDue)) fillDue(task.slice(ofDue.length), tr.cells[0]);
    else fill(task, tr.cells[0]);
  }
  return tr;
}

// causes are why a task has not started, or where it runs.
function causes(why) {
  const s = why.start;
  return [
    el("h3", {}, why.state === "pending" ? "Why it waits" : "Where it runs"),
    el("ul", { class: "causes" }, why.causes.map((c) => el("li", {}, el("code", {}, c.code), " ", c.message))),
    s ? el("p", { class: "soft" }, s.at ? ["Expected to start ", s.not_before ? "not before " : "", when(s.at), ": " + s.basis + "."] : "Expected start unknown: " + s.unknown + ".") : "",
  ].filter(Boolean);
}

// decided are why a due time ran or did not, and how it was decided.
function decided(why) {
  const t = why.trigger, d = why.definition;
  return [
    el("h3", {}, "Why"),
    el("ul", { class: "causes" }, why.causes.map((c) => el("li", {}, el("code", {}, c.code), " ", c.message))),
    t ? facts([
      ["Decided", [when(t.decided_at, "clock"), by(t.replica), t.late ? `, ${t.late} after it was due` : "", t.overdue ? ", as overdue" : ""]],
      ["Clock", t.clock_offset ? t.clock_offset + " ahead of the database's" : ""],
      ["Store", t.took ? "took " + t.took : ""], ["Locks", t.lock_took ? "took " + t.lock_took : ""],
      ["Definition", d ? [el("code", {}, d.hash), `, of configuration ${d.config}, since `, when(d.since, "clock")] : t.definition ? el("code", {}, t.definition) : ""],
      ["Configuration", t.config ? String(t.config) : ""],
    ]) : "",
  ].filter(Boolean);
}

async function fillDue(path, box) {
  try {
    box.replaceChildren(...decided(await get(path)).flat(2));
  } catch (e) {
    box.replaceChildren(soft(e.status === 404 ? "This replica cannot say why." : "Request failed: " + e.message));
  }
}

// evidence is what put a task into quarantine.
const evidence = (lost) => [
  el("h3", {}, "Quarantined: replicas and workers over HTTP that died while they had it"),
  el("ul", { class: "causes" }, lost.map((a) => el("li", {}, `${a.replica}, attempt ${a.attempt}: started `, when(a.started_at, "clock"), ", lost ", when(a.lost_at)))),
];

// follow appends to pre what the attempts of a task write, until the task has ended, or pre is not shown any more.
//
//  1. wait until the page is visible
//  2. ask for what has come since the last answer; the replica answers once there is something, or 10 s later
//  3. append it; an error is asked about again
async function follow(id, pre) {
  const stop = new AbortController(), look = setInterval(() => { if (!pre.isConnected) stop.abort(); }, 250);
  let attempt = 1;
  for (let next = "", ended = false; !ended && pre.isConnected;) {
    await visible();
    try {
      const news = await (await ask(`tasks/${id}/logs?follow=${next}`, stop.signal)).json(), low = pre.scrollTop + pre.clientHeight > pre.scrollHeight - 9;
      for (const p of news.items) {
        if (p.attempt > attempt) pre.append(`… attempt ${attempt = p.attempt} …\n`);
        if (p.left_out) pre.append(`\n… ${p.left_out} bytes left out …\n`);
        pre.append(p.text);
      }
      if (low) pre.scrollTop = pre.scrollHeight;
      ({ next, ended } = news);
    } catch (e) {
      if (e.status > 400 && e.status < 405) break;
      await sleep(1500);
    }
  }
  clearInterval(look);
}

const pretty = (payload) => (typeof payload === "string" ? payload : JSON.stringify(payload, null, 2));
async function fill(id, box) {
  try {
    const task = await get("tasks/" + id), live = task.state === "running" && el("pre", { tabindex: 0 }), open = live || task.state === "pending";
    let output = "";
    if (task.attempt > 0 && !live) {
      try { output = await (await ask(`tasks/${id}/logs`)).text(); } catch (e) { if (e.status !== 404) throw e; }
    }
    const why = open && await maybe(`tasks/${id}/why`), due = task.job && task.scheduled_at && await maybe(whyOf(task.job, task.scheduled_at));
    const text = (title, body) => (body ? [el("h3", {}, title), el("pre", { tabindex: 0 }, body)] : []);
    const parts = [
      facts([
        ["State", [badge(task.state), " ", task.reason ?? ""]],
        ["Attempt", `${task.attempt} of at most ${Math.max(task.attempt, task.max_attempts)}`],
        ["Progress", progress(task)],
        ["Exit code", task.exit_code === undefined ? "" : String(task.exit_code)],
        ["Pool", task.pool + (task.kind ? ", kind " + task.kind : "")],
        ["Key", task.key],
        ["Own", joined([task.timeout && "timeout " + task.timeout, task.backoff && "backoff " + task.backoff])],
        ["Replica", task.replica],
        ["Started", task.started_at ? [when(task.started_at), took(task) ? " · took " + took(task) : ""] : ""],
        ["Next attempt", task.state === "pending" ? when(task.run_at) : ""],
        ["Expires", task.expires_at ? when(task.expires_at) : ""],
        ["By", task.by],
        ["Retried as", task.retried_as ? el("code", {}, task.retried_as) : ""],
        ["Group", task.fingerprint ? el("a", { href: groupPath(task.pool, task.fingerprint) }, "what failed in the same way") : ""],
        ["Tags", task.tags?.join(", ")],
        ["Token", task.token ? String(task.token) : ""],
        ["Task", el("code", {}, task.id)],
      ]),
      why ? causes(why) : [],
      due?.trigger?.task_id === id ? decided(due) : [],
      task.quarantine ? evidence(task.quarantine) : [],
      text("Error", task.error),
      task.attempts.map((a) => [el("h3", {}, `Attempt ${a.attempt}: ${a.state}${a.replica ? " on " + a.replica : ""}${took(a) ? ", took " + took(a) : ""}`), el("pre", { tabindex: 0 }, joined([a.reason, a.error], "\n") || "no error")]),
      live ? [el("h3", {}, "Output"), live, el("p", { class: "soft" }, "The attempt runs: what it writes appears here.")] : text("Output", output),
      task.result === undefined ? [] : text("Result", pretty(task.result)),
      task.payload === undefined ? [] : text("Payload", pretty(task.payload)),
    ];
    if (!output && !open) parts.push(el("p", { class: "soft" }, "No output is stored."));
    box.replaceChildren(...parts.flat(2));
    if (live) follow(id, live); // the end changes the row, and with that all of this
  } catch (e) {
    box.replaceChildren(soft(e.status === 404 ? "This task is no longer stored." : "Request failed: " + e.message));
  }
}

