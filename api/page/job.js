// The page of one job.

import { all, ask, get, maybe, role, who } from "./ask.js";
import { $, by, el, facts, headline, joined, labels, looks, plural, soft } from "./elements.js";
import { findings } from "./findings.js";
import { refresh } from "./refresh.js";
import { banner } from "./stream.js";
import { count, table } from "./table.js";
import { dueKey, opened, opener } from "./task.js";
import { clock, took, when } from "./time.js";
import { dueOf, outcome, wordOf } from "./trigger.js";

// calendarsOf says which calendars a job goes by: "not in holidays; only in office".
const calendarsOf = (c) => joined([c?.exclude && "not in " + c.exclude.join(", "), c?.only && "only in " + c.only.join(" and "), c?.otherwise === "next" && "else when that ends"], "; ");

// flat is the settings of a definition by their paths, as JSON.
function flat(settings, path = "", to = {}) {
  for (const [k, v] of Object.entries(settings)) {
    if (v?.constructor === Object && path + k !== "payload") flat(v, path + k + ".", to);
    else to[path + k] = JSON.stringify(v);
  }
  return to;
}

// changes is what a definition has otherwise than the one before it.
function changes(d, before, more) {
  if (!before) return more ? "" : "the first one";
  const a = flat(before.definition), b = flat(d.definition);
  return Object.keys({ ...a, ...b }).sort().filter((k) => a[k] !== b[k]).map((k) => `${k}: ${a[k] ?? "none"} → ${b[k] ?? "none"}`).join(";\n") || "only what is not shown";
}

// did is how far an order has come.
const did = (b) => (b ? `${b.made} of ${b.due_times} made, ${b.running} running, ${b.succeeded} succeeded, ${b.failed} failed${b.cancelled ? `, ${b.cancelled} cancelled` : ""}${b.ran ? `, ${b.ran} had run` : ""}, ${b.left} left` : "not made yet");

// canceller is a button that cancels an order when it is pressed again.
function canceller(order, changed) {
  let sure = false;
  return el("button", {
    type: "button",
    click: async ({ currentTarget: b }) => {
      if (!sure) { sure = true; b.textContent = "Cancel the order"; return; }
      b.disabled = true;
      try {
        await ask(`orders/${order.id}/cancel`, undefined, {});
      } catch (e) {
        b.after(soft(" " + e.message));
        b.disabled = false;
      }
      changed();
    },
  }, "Cancel …");
}

export function jobPage() {
  const name = decodeURIComponent(location.pathname.split("/").pop());
  $("name").textContent = name;
  document.title = name + " · Lockstep";
  let seen = "", file = "", pages = 1, want = location.hash.slice(1);
  const path = "jobs/" + encodeURIComponent(name), none = { items: [] }; // retired

  const show = (job, due, triggers, more, had) => {
    $("lists").hidden = false;
    const last = job.last, now = job.definition;
    if (job.retired) headline("grey", "– Retired: no live configuration has it");
    else if (job.suspended) headline("amber", "Suspended" + (job.suspended_until ? " until " + clock(new Date(job.suspended_until)) : "") + (by(job.suspended_by, job.suspended_reason) || (job.suspended_override === undefined ? " in its definition" : "")));
    else if (job.paused) headline("amber", "Held: everything is paused" + by(job.paused.by) + (job.paused.reason ? ": " + job.paused.reason : ""));
    else if (job.unrunnable) headline("red", "No live replica runs it");
    else if (!last) headline("wait", "Not due yet");
    else {
      const ended = triggers.find((t) => t.outcome && t.outcome !== "skipped"), word = ended ? wordOf(ended) : wordOf(last);
      const color = looks[word]?.[0];
      headline(color === "grey" ? "wait" : color, { succeeded: "Its last run succeeded", failed: "Its last run failed", lost: "Its last run was lost", missed: "Its last due time was missed", cancelled: "Its last run was cancelled" }[word] ?? "Its first run is on");
    }
    document.title = `${$("headline").textContent}: ${name} · Lockstep`;
    $("sum").replaceChildren(...[job.description, job.description ? " · " : "", "last success ", when(job.last_success), job.open ? ` · ${plural(job.open, "task")} open` : "", job.skip_next ? ` · skips its next ${job.skip_next === 1 ? "due time" : job.skip_next + " due times"}${job.skip_next_by ? ", by " + job.skip_next_by : ""}` : "",
      job.suspended_override === false ? ` · resumed${by(job.suspended_by)}${job.suspended_defined ? ", though its definition suspends it" : ", also over a definition that suspends it"}` : ""].filter(Boolean));
    table("triggers", triggers, (t) => t.at + t.cause + t.task_id, (t) => [
      ["Due", dueOf(t), "head"],
      ["Outcome", outcome(t)],
      ["Why", t.reason, "why"],
      ["Took", took(t) || (wordOf(t) === "running" ? when(t.started_at, "for") : ""), "n"],
      ["Replica", t.replica, "id"],
      ["", opener(dueKey(t)), "act"],
    ], "No due times yet.");
    $("older").hidden = !more;
    const orders = job.orders ?? [], may = role === "operator" || role === "admin";
    $("orders").hidden = !orders.length;
    if (orders.length) {
      count("orders", job.more_orders ? `the latest ${orders.length}` : "");
      table("orders", orders.map((o) => ({ ...o, may })), (o) => o.id, (o) => [
        ["Kind", o.kind, "head"],
        ["When", o.backfill ? [when(o.backfill.from, "clock"), " – ", when(o.backfill.to, "clock")] : when(o.at)],
        ["Ordered", [when(o.created_at), soft(by(o.by))]],
        ["Progress", [did(o.backfill), o.causes?.map((c) => el("div", { class: "soft" }, c.message))], "why"],
        ["", o.may ? canceller(o, data.now) : "", "act"],
      ]);
    }
    $("facts").querySelector("dl")?.remove();
    $("facts").append(facts([
      ["Schedule", (job.schedules ?? []).join("\n") || (job.retired ? "" : "none: on demand")], ["Time zone", job.timezone], ["Starts at", job.starts_at], ["Ends at", job.ends_at], ["Spread", job.spread], ["Jitter", job.jitter], ["Calendars", calendarsOf(job.calendars)], ["Does", job.handler], ["Pool", (job.pool ?? "") + (job.kind ? ", kind " + job.kind : "")],
      ["Timeout", job.timeout], ["Concurrency", joined([job.concurrency, job.max_running && `${job.max_running} at once`, job.queue_limit && `up to ${job.queue_limit} wait`])], ["When its replica is lost", job.on_lost], ["Catch-up", job.catch_up && joined([job.catch_up.policy, job.catch_up.window && "of the last " + job.catch_up.window, job.catch_up.limit && `${job.catch_up.limit} at most`])], ["Retries", job.retries && `up to ${job.retries.limit}, after ${job.retries.backoff} to ${job.retries.max_backoff}`], ["Locks", job.locks?.map((l) => joined([l.key, l.mode === "shared" && l.mode, l.limit && `${l.limit} at once`])).join("\n")], ["Suspend after", job.suspend_after ? `${job.suspend_after} runs that fail in a row; ${job.failures ?? 0} so far` : ""], ["Output", joined([job.output?.keep && `keeps ${job.output.keep} bytes`, job.output?.file], "\n")], ["Expected", joined([job.expect?.start_within && "starts within " + job.expect.start_within, job.expect?.finish_within && "ends within " + job.expect.finish_within])], ["Definition", now ? [el("code", {}, now.hash), `, configuration ${now.config}, since `, when(now.since), now.differs ? "; this replica has another one, as it is shown here" : "", now.own ? [": ", el("code", {}, now.own)] : ""] : ""], ["Configuration file", file], ["Priority", job.priority ? String(job.priority) : ""], ["Runs on", joined([labels(job.runs_on), job.unrunnable], "\n")], ["Labels", labels(job.labels)],
    ]));
    table("due", due, (d) => d.at, (d) => {
      const at = d.runs_at ?? d.at; // later than it is due: when its calendars let it run
      return [["In", when(at, "due"), "head"], ["Your time", when(at, "clock")], ["Due in its own zone", d.local.slice(0, 16).replace("T", " ")],
        ...(d.start_at ? [["Starts", when(d.start_at, "clock")]] : [])];
    },
      job.retired ? "Retired." : job.suspended ? "Suspended." : "No further due time.");
    table("history", had.items.map((d, i, all) => ({ ...d, own: d.hash === now?.own, changed: changes(d, all[i + 1], had.next) })), (d) => d.hash, (d) => [
      ["Definition", [el("code", {}, d.hash), d.own ? soft(" this replica has it") : ""], "head"],
      ["Configuration", String(d.config), "n"],
      ["Since", when(d.since)],
      ["Until", d.until ? when(d.until) : soft("it governs")],
      ["Changed", d.changed, "why lines"],
    ], "None is stored.");
    if (want) {
      const button = [...document.querySelectorAll("button[data-task]")].find((b) => b.dataset.task === want);
      if (button) { want = ""; if (!opened.has(button.dataset.task)) button.click(); button.scrollIntoView({ block: "center" }); }
    }
  };

  const data = refresh(async () => {
    try {
      const [job, due, had] = await Promise.all([get(path), maybe(path + "/next?n=8", none), maybe(path + "/history?limit=10", none)]);
      const [triggers, next] = await all(path + "/triggers?", 20 * pages);
      for (const o of (job.orders ?? []).slice(0, 5)) { // each is a question of its own
        o.causes = (await maybe("orders/" + o.id)).causes?.filter((c) => c.code !== "not_due"); // its time is there
      }
      show(job, job.suspended ? [] : due.items, triggers, next, had);
    } catch (e) {
      if (e.status !== 404) throw e;
      headline("wait", e.message);
      $("lists").hidden = true;
    }
  });
  $("older").addEventListener("click", () => { pages++; data.now(); });
  return (o) => {
    who(o.replica);
    findings(o); // for its banners
    banner();
    file = o.conditions.find((c) => c.name === "configuration file")?.detail ?? "";
    const mine = file + role + JSON.stringify([o.replicas?.map((r) => r.config)].concat([o.recent, o.running, o.trouble, o.broken].map((list) => (list ?? []).filter((x) => x.job === name))));
    if (mine !== seen) data.changed();
    seen = mine;
  };
}
