// The page of what failed for good: all groups, or the tasks of one.

import { all, who } from "./ask.js";
import { bulk } from "./bulk.js";
import { $, badge, el, facts, groupPath, headline, link, plural, soft } from "./elements.js";
import { findings } from "./findings.js";
import { refresh } from "./refresh.js";
import { banner } from "./stream.js";
import { count, table } from "./table.js";
import { opener } from "./task.js";
import { when } from "./time.js";

const number = (g) => (g.at_least ? "over " + g.count : String(g.count));
const first = (text) => (text ?? "").split("\n").find((line) => line.trim()) ?? "";
const why = (g) => [first(g.error) || g.reason];

export function deadPage() {
  let pages = 1, seen = "", shown; // shown: the hash of what is shown
  const act = bulk($("bulk"), () => data.now());

  const showGroups = (groups, more) => {
    const some = plural(groups.length, "group") + (more ? " or more" : "");
    headline(groups.length ? "amber" : "green", groups.length ? `Tasks failed for good, in ${some}` : "Nothing has failed for good");
    $("sum").textContent = groups.length ? "A task that is retried leaves its group." : "";
    groups.sort((a, b) => (a.last < b.last ? 1 : a.last > b.last ? -1 : 0));
    table("groups", groups, (g) => g.pool + "/" + g.fingerprint, (g) => [
      ["What", [el("a", { href: groupPath(g.pool, g.fingerprint) }, g.job || g.pool + (g.kind ? " / " + g.kind : "")), g.job ? soft(" in pool " + g.pool) : ""], "head"],
      ["How", [badge(g.state), soft(" " + (g.reason_code ?? ""))]],
      ["Tasks", number(g), "n"],
      ["Why", why(g), "why"],
      ["First", when(g.first)],
      ["Last", when(g.last)],
    ], "No task has failed for good, or all were retried.");
  };

  const showGroup = (pool, fingerprint, [g], tasks) => {
    headline(g ? "amber" : "green", g ? `${number(g)} task${g.count === 1 ? "" : "s"} failed for good in this way` : "None is left: they were retried or deleted");
    $("sum").textContent = "";
    $("facts").querySelector("dl")?.remove();
    $("facts").append(facts([
      ["Pool", pool], ["Kind", g?.kind], ["Job", g?.job ? link(g.job) : ""],
      ["How", g ? [badge(g.state), " ", g.reason_code ?? ""] : ""], ["Why", g ? why(g) : ""],
      ["First", g ? when(g.first) : ""], ["Last", g ? when(g.last) : ""], ["Fingerprint", el("code", {}, fingerprint)],
    ]));
    act.about(pool + fingerprint, g);
    count("tasks", g && tasks.length < g.count ? `${tasks.length} of ${number(g)}` : "");
    table("tasks", tasks, (t) => t.id, (t) => [
      ["Task", el("code", {}, t.id), "head"],
      ["Ended", when(t.finished_at)],
      ["Attempt", `${t.attempt} of ${Math.max(t.attempt, t.max_attempts)}`],
      ["Why", [first(t.error) || t.reason], "why"],
      ["Replica", t.replica, "id"],
      ["", opener(t.id), "act"],
    ], "No task of this group is left.");
  };

  const data = refresh(async () => {
    const hash = location.hash, [, pool, fingerprint] = hash.match(/^#([\w.-]{1,64})\/([0-9a-f]{16})$/) ?? [];
    if (hash !== shown) {
      shown = hash;
      pages = 1;
      $("lists").hidden = true;
      headline("wait", "Loading …");
    }
    const filter = pool ? `pool=${pool}&fingerprint=${fingerprint}&` : "";
    let groups, tasks = [];
    try {
      groups = await all("dead-letters?" + filter, pool ? 1 : 50 * pages);
      if (pool) tasks = await all("tasks?" + filter, 20 * pages);
    } catch (e) {
      if (e.status !== 404) throw e;
      headline("wait", e.message);
      $("lists").hidden = true;
      return;
    }
    if (location.hash !== hash) return data.changed(); // the reader has gone on
    if (!pool) act.about("");
    $("name").textContent = pool ? "Failed for good in " + pool : "Failed for good";
    $("groups").hidden = Boolean(pool);
    $("group").hidden = $("up").hidden = !pool;
    if (pool) showGroup(pool, fingerprint, groups[0], tasks[0]);
    else showGroups(...groups);
    $("more").hidden = !(pool ? tasks : groups)[1];
    $("lists").hidden = false;
    document.title = `${$("headline").textContent}: ${$("name").textContent} · Lockstep`;
  });
  $("more").addEventListener("click", () => { pages++; data.now(); });
  addEventListener("hashchange", () => data.now());
  data.now();
  return (o) => {
    who(o.replica);
    findings(o); // for its banners
    banner();
    act.update();
    const ends = JSON.stringify([o.wrong, o.trouble]);
    if (ends !== seen) data.changed();
    seen = ends;
  };
}
