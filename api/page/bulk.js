// Retrying or deleting the tasks of a group: they are counted, then the reader is asked, then it is done in batches.

import { ask, role } from "./ask.js";
import { el, plural, soft } from "./elements.js";
import { when } from "./time.js";

const actions = {
  retry: { title: "Retry them …", verb: "Retry", done: "retried" },
  purge: { title: "Delete them …", verb: "Delete", done: "deleted" },
};

// may are the actions of the caller's role; undefined: it is not known yet.
const may = () => ({ viewer: [], operator: ["retry"], admin: ["retry", "purge"] })[role];

// bulk shows in section what the reader may do with a group, and calls changed after something was done.
//
//   1. offer the actions
//   2. count what one would change, batch by batch
//   3. say the number, and ask
//   4. do it, batch by batch
//   5. say what was done, and offer the actions again
//
// Stop takes effect after the batch that is under way. What ends after the end of the latest task that is shown is not
// changed: nobody has seen it.
export function bulk(section, changed) {
  const hint = el("p", { class: "soft", hidden: true }, "A token with the role operator may retry them; one with the role admin may delete them, too.");
  const said = el("p", { role: "status", tabindex: -1 }), buttons = el("p", { class: "row" });
  section.append(hint, said, buttons);
  let key, group, walk, offered; // walk: what is under way, until it is idle again

  const say = (...text) => said.replaceChildren(...text.flat(Infinity).filter(Boolean));
  const offer = (list, focus = 0) => {
    const had = buttons.contains(document.activeElement);
    buttons.replaceChildren(...list.map(([text, click]) => el("button", { type: "button", click }, text)));
    if (had) (buttons.children[focus] ?? said).focus({ preventScroll: true });
  };
  const offers = () => (group ? may() : undefined);
  const idle = () => {
    walk = undefined;
    offered = offers()?.join();
    hint.hidden = offered !== "";
    offer((offers() ?? []).map((name) => [actions[name].title, () => count(name)]));
  };

  // batches sends one batch after the other, and returns what became of all of them; undefined: the reader has gone on.
  async function batches(name, body, progress) {
    const mine = walk = { stopped: false }, sum = { done: 0, skipped: new Map(), error: "" };
    offer([["Stop", () => { mine.stopped = true; }]]);
    try {
      for (let cursor; ;) {
        const one = await (await ask("tasks/" + name, undefined, { ...body, limit: 500, cursor })).json();
        sum.done += one.done;
        for (const s of one.skipped ?? []) sum.skipped.set(s.reason, { ...s, count: s.count + (sum.skipped.get(s.reason)?.count ?? 0) });
        cursor = one.next;
        if (!cursor || mine.stopped) break;
        progress(sum.done);
      }
    } catch (e) {
      sum.error = e.message;
    }
    sum.stopped = mine.stopped;
    return walk === mine ? sum : undefined;
  }
  const skips = (sum) => [...sum.skipped.values()].map((s) => soft(` Skipped: ${s.count}, such as ${s.task_id}, which ${s.reason}.`));

  async function count(name) {
    const { verb, done } = actions[name], { pool, fingerprint, last } = group;
    const body = { pool, fingerprint, until: new Date(Date.parse(last) + 1).toISOString() }; // behind last, which has more digits
    say("Counting …");
    const sum = await batches(name, { ...body, dry_run: true }, (n) => say(`Counting … ${n}`));
    if (!sum) return;
    if (sum.error) say(`Nothing was ${done}: ${sum.error}`);
    else if (sum.stopped) say();
    else say(`${plural(sum.done, "task")} that ended by `, when(last, "clock"), ` would be ${done}.`, skips(sum));
    if (sum.error || sum.stopped || !sum.done) return idle();
    offer([[`${verb} ${plural(sum.done, "task")}`, () => change(name, body, sum.done)], ["Cancel", () => { say(); idle(); }]], name === "purge" ? 1 : 0);
  }

  async function change(name, body, most) {
    const { done } = actions[name];
    say(`0 of ${most} ${done} …`);
    const sum = await batches(name, body, (n) => say(`${n} of ${most} ${done} …`));
    changed();
    if (!sum) return;
    const was = `${plural(sum.done, "task")} ${sum.done === 1 ? "was" : "were"} ${done}.`;
    if (sum.error || sum.stopped) say(`Stopped${sum.error ? ": " + sum.error : ""}. ${was} The same goes on with what is left.`);
    else say(was, skips(sum));
    idle();
  }

  return {
    // about sets the group, undefined if nothing is left of it; another key is another group.
    about(now, g) {
      group = g;
      if (now !== key) {
        key = now;
        if (walk) walk.stopped = true;
        say();
        idle();
      } else this.update();
    },
    // update offers something else if the role or the group has changed.
    update() {
      if (!walk && offered !== offers()?.join()) idle();
    },
  };
}
