// The first page.

import { who } from "./ask.js";
import { $, atLeast, badge, by, el, headline, joined, link, plural, progress, soft } from "./elements.js";
import { findings } from "./findings.js";
import { banner } from "./stream.js";
import { count, table } from "./table.js";
import { opener } from "./task.js";
import { when } from "./time.js";
import { dueOf, outcome } from "./trigger.js";

const what = (t) => (t.job ? link(t.job, t.task_id) : [soft("pool "), failed(t)]);
const failed = (t) => t.job || `${t.pool}${t.kind ? " / " + t.kind : ""}`;

// grouped shows repeated failures as one row, the latest one; the count is of the last hour.
function grouped(list, wrong) {
  const key = (t) => [failed(t), t.state].join("\n"), groups = new Map(), times = new Map();
  for (const w of wrong) times.set(key(w), (times.get(key(w)) ?? 0) + w.count);
  for (const t of list) {
    const k = key(t);
    if (!groups.has(k)) groups.set(k, { ...t, times: times.get(k) ?? 1, key: k });
  }
  return [...groups.values()].slice(0, 12);
}

const rate = (l) => joined([l.rate, l.burst && "burst " + l.burst], " ");

function perKey(p) {
  const l = p.per_key ?? {}, all = joined([l.max_running && "at most " + l.max_running, rate(l), p.order && "in order", p.fair && ["fair", ...Object.entries(p.fair.weights ?? {}).map(([key, n]) => key + " " + n)].join(" ")]);
  return all && "per key " + all;
}

function perKind(p) {
  return Object.entries(p.per_kind ?? {}).map(([kind, l]) => kind + " " + joined([l.max_running && "at most " + l.max_running, rate(l)])).join("; ");
}

let shown = "";
function showState(o) {
  const list = findings(o);
  const reds = list.filter((f) => f[0] === "red").length;
  if (reds) headline("red", reds === 1 ? "One problem" : `${reds} problems`);
  else if (list.length) headline("amber", list.length === 1 ? "One warning" : `${list.length} warnings`);
  else headline("green", "Healthy");
  document.title = (reds ? "✕ " : list.length ? "▲ " : "✓ ") + $("headline").textContent + " · Lockstep";
  const text = JSON.stringify(list.map((f) => f.map((x) => x instanceof Element ? x.dateTime ?? x.textContent : x)));
  if (text !== shown) {
    shown = text;
    $("findings").replaceChildren(...list.map(([color, what, ...rest]) => el("li", {},
      badge(what, color, color === "red" ? "✕" : "▲"), el("span", {}, ...rest))));
  }
  if (!o.at) return;
  const live = o.replicas.filter((r) => r.state === "live").length, first = (o.next ?? []).find((n) => !n.suspended);
  $("sum").replaceChildren(`${plural(o.jobs, "job")} · ${plural(live, "live replica")} · ${o.running?.length ?? 0}${o.running?.length === 30 ? " or more" : ""} running`, ...(first ? [" · next due ", when(first.start_at ?? first.at, "due")] : []));
}

const titles = { lock: "lock service", draining: "in service" };

export function overview(o) {
  who(o.replica);
  showState(o);
  banner();
  if (!o.at) return;
  $("lists").hidden = false;
  $("broken").hidden = !o.failing;
  if (o.failing) {
    count("broken", o.failing);
    table("broken", o.broken, (b) => b.job, (b) => [
      ["Job", link(b.job), "head"], ["Why", b.reason, "why"], ["Last end", when(b.last_end)], ["Last success", when(b.last_success)],
    ]);
  }
  table("trouble", grouped(o.trouble ?? [], o.wrong ?? []), (t) => t.key, (t) => [
    ["What", what(t), "head"],
    ["How", [badge(t.state), t.times > 1 ? soft(` ×${t.times} within the last hour`) : "", t.count > 1 ? soft(` ${t.count} ${t.state === "unrunnable" ? "tasks" : "due times"}`) : ""]],
    ["Why", t.reason || (t.error ?? "").split("\n")[0] || "", "why"],
    ["When", when(t.at)],
    ["", opener(t.task_id), "act"],
  ], "No failures are stored.");
  table("running", o.running ?? [], (r) => r.task_id + r.attempt, (r) => [
    ["What", what(r), "head"],
    ["For", when(r.since, "for")],
    ["On", [r.replica, r.attempt > 1 ? soft(`, attempt ${r.attempt}`) : ""]],
    ["Progress", progress(r), "why"],
  ], "No task is running.");
  table("next", (o.next ?? []).slice(0, 12), (n) => n.job, (n) => [
    ["Job", link(n.job), "head"],
    ["When", n.suspended ? [badge("suspended"), soft(" passes ", when(n.at, "age"))] : n.skip_next ? [when(n.start_at ?? n.at, "due"), soft(" skipped by hand")] : when(n.start_at ?? n.at, "due")],
    ["At", [when(n.at, "clock"), n.start_at ? soft(" starts ", when(n.start_at, "clock")) : ""]],
  ], "No job has a next due time.");
  table("recent", (o.recent ?? []).slice(0, 15), (t) => t.job + t.at + t.task_id, (t) => [
    ["Job", link(t.job, t.task_id), "head"], ["Due", dueOf(t)], ["Outcome", outcome(t)], ["Why", t.reason, "why"], ["Replica", t.replica, "id"],
  ], "No due times yet.");
  count("pools", o.pools_total > o.pools.length ? `${o.pools.length} of ${o.pools_total}` : "");
  table("pools", o.pools, (p) => p.name, (p) => [
    ["Pool", [p.name, " ", p.paused ? badge("paused") : "", soft(by(p.paused_by, p.paused_reason)),
      p.limits_override ? [" ", badge("limits overridden", "amber", "▲"), soft(by(p.limits_by)),
        ...(p.limits_aside ?? []).map((a) => soft(`, set aside: ${a.field}, which ${a.why}`))] : ""], "head"],
    ["Due now", atLeast(p, p.pending), "n"],
    ["Running", p.running + (p.max_running ? " of " + p.max_running : ""), "n"],
    ["Limits", joined([rate(p), perKind(p), perKey(p)], "; ")],
    ["Later", atLeast(p, p.scheduled), "n"],
    ["Oldest pending", p.oldest_pending ? when(p.oldest_pending, "for") : soft("–")],
  ], "There are no pools.");
  count("replicas", o.replicas_total > o.replicas.length ? `${o.replicas.length} of ${o.replicas_total}` : "");
  table("replicas", o.replicas, (r) => r.id + r.joined_at, (r) => [
    ["Replica", [r.id, r.id === o.replica ? soft(" (serves this page)") : ""], "head"],
    ["State", [badge(r.state), r.seen_at ? soft(" seen ", when(r.seen_at, "age")) : ""]],
    ["Version", r.version],
    ["Configuration", r.config ? [String(r.config), r.governs ? " (governs)" : "", r.config_hash ? soft(" " + r.config_hash.slice(0, 12)) : "",
      r.differs && !r.governs ? soft(", older: the one that governs has otherwise " + r.differs) : ""] : ""],
    ["Process", [r.host, r.pid ? "/" + r.pid : ""].join(""), "id"],
    ["Up", when(r.joined_at, "for")],
  ], "No live replica.");
  const workers = o.workers ?? []; // a replica before this version has none
  count("workers", o.workers_total > workers.length ? `${workers.length} of ${o.workers_total}` : "");
  table("workers", workers, (w) => w.id + w.joined_at, (w) => [
    ["Worker", w.id, "head"],
    ["State", badge(w.state)],
    ["Pool", w.pool + (w.kinds?.some(Boolean) ? " / " + w.kinds.map((k) => k || "(no kind)").join(", ") : ""), "why"],
    ["Last heard of", w.seen_at ? when(w.seen_at, "age") : soft("within " + w.ttl)],
    ["Token", w.token, "id"],
    ["Up", when(w.joined_at, "for")],
    ["Running", String(w.running), "n"],
    ["", opener(w.task_id), "act"],
  ], "No worker takes tasks over HTTP.");
  const health = JSON.stringify(o.conditions);
  if ($("health").dataset.text !== health) {
    $("health").dataset.text = health;
    $("health").querySelector("p")?.remove();
    $("health").append(el("p", { class: "row" }, o.conditions.map((c) => {
      const name = titles[c.name] ?? c.name;
      if (c.name === "access" && !c.detail?.startsWith("insecure")) return badge(joined([name, c.detail], ": "), "green", "✓");
      return c.ready && !c.detail ? badge(name, "green", "✓") : badge(name + (c.ready ? ": see above" : ": not ready"), c.ready ? "amber" : "red", c.ready ? "▲" : "✕");
    })));
  }
}
