// Findings: what is wrong.

import { atLeast, by, link } from "./elements.js";
import { setAway, setInsecure } from "./stream.js";
import { clock, when } from "./time.js";

// findings lists what is wrong: [color, what, …text].
export function findings(o) {
  const out = [];
  const red = (what, ...text) => out.push(["red", what, ...text]), amber = (what, ...text) => out.push(["amber", what, ...text]);
  const then = o.at ? ` The data is from ${clock(new Date(o.at))}.` : "";
  setAway(o.error ? `The store does not answer ${o.replica}: ${o.error}.${then} Retrying each second.` : "");
  if (o.error) red("store", `does not answer ${o.replica}: ${o.error}.${then}`);
  const access = o.conditions.find((c) => c.name === "access")?.detail ?? "";
  setInsecure(access.startsWith("insecure") ? access : ""); // it has its own banner
  for (const c of o.conditions) {
    if (!c.ready) (c.name === "draining" ? amber : red)(c.name, `${o.replica} starts nothing new: ${c.detail ?? c.name}`);
    else if (c.detail && c.name !== "access" && c.name !== "paused") amber(c.name, c.detail);
  }
  if (!o.at) return out;
  const live = o.replicas.filter((r) => r.state === "live");
  if (!live.length) red("replicas", "no live replica starts new work");
  for (const r of o.replicas) {
    if (r.state === "dead") red("replica", `${r.id} is lost; its tasks are being reaped`);
    else if (r.state === "draining") amber("replica", `${r.id} is draining`);
    else if (r.seen_at) amber("replica", `${r.id} was last seen `, when(r.seen_at, "age"));
  }
  const late = (o.workers ?? []).filter((w) => w.seen_at);
  if (late.length) amber("workers", late.length === 1 ? `${late[0].id} was last heard of ` : `${late.length} were last heard of longer than their ttl ago, the first is ${late[0].id}: `, when(late[0].seen_at, "age"));
  const versions = [...new Set(live.map((r) => r.version).filter(Boolean))];
  if (versions.length > 1) amber("versions", `the replicas run ${versions.join(" and ")}`);
  if (o.failing) {
    const shown = (o.broken ?? []).slice(0, 3).flatMap((b, i) => [i ? ", " : "", link(b.job)]);
    red(o.failing === 1 ? "job" : "jobs", o.failing === 1 ? "one fails: " : `${o.failing} fail: `, ...shown, o.failing > 3 ? " and others" : "");
  }
  if (o.paused) amber("paused", `everything is paused${by(o.paused.by)} since `, when(o.paused.since, "age"), o.paused.until ? " until " : "", o.paused.until ? when(o.paused.until, "due") : "", o.paused.reason ? ": " + o.paused.reason : "");
  const overdue = o.paused ? [] : (o.next ?? []).filter((n) => !n.suspended && new Date(o.at) - new Date(n.at) > 10e3);
  if (overdue.length) red("overdue", ...overdue.slice(0, 3).flatMap((n, i) => [i ? ", " : "", link(n.job)]), overdue.length > 3 ? ` and ${overdue.length - 3} more` : "", ": due and not decided yet");
  for (const p of o.pools) {
    if (p.name === "notifications" && p.scheduled) red("notifications", `cannot be delivered: ${p.scheduled} task${p.scheduled === 1 ? " waits" : "s wait"} for a retry`);
    else if (p.paused && p.pending) amber("pool", `${p.name} is paused${p.paused_reason ? ", " + p.paused_reason : ""}, ${atLeast(p, p.pending)} tasks pending`);
    else if (p.oldest_pending && new Date(o.at) - new Date(p.oldest_pending) > 300e3) amber("pool", `${p.name} is behind: its oldest pending task is from `, when(p.oldest_pending, "age"));
  }
  for (const t of (o.trouble ?? []).filter((t) => t.state === "unrunnable")) red(t.job ? "job" : "pool", t.job ? link(t.job) : t.pool, `: ${t.count === 1 ? "a task waits" : t.count + " tasks wait"} and will not run: ${t.reason.replace(": it will not run", "")}`);
  const bad = new Map();
  for (const w of o.wrong ?? []) if (!w.job) bad.set(w.pool, (bad.get(w.pool) ?? 0) + w.count);
  for (const [pool, n] of bad) amber("pool", `${pool}: ${n === 1 ? "a task" : n + " tasks"} failed within the last hour`);
  return out.sort((a, b) => (a[0] === "red" ? 0 : 1) - (b[0] === "red" ? 0 : 1));
}

