// Tables whose unchanged rows are kept.

import { $, el } from "./elements.js";
import { opened, under } from "./task.js";

// table shows items as rows in the section with this id. cells returns [label, content, class] for each column. Rows of
// unchanged items keep their elements, so that focus, selection and opened details survive an update.
export function table(id, items, key, cells, empty) {
  const section = $(id);
  let t = section.querySelector("table"), note = section.querySelector(".empty");
  if (!items.length) {
    t?.remove();
    if (!note) section.append(note = el("p", { class: "empty" }));
    if (note.textContent !== empty) note.textContent = empty;
    return;
  }
  note?.remove();
  if (!t) {
    const head = cells(items[0]).map(([label, , c]) => el("th", { class: c, scope: "col", role: "columnheader" }, label));
    section.append(t = el("table", { role: "table", "aria-labelledby": "h-" + id },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)), el("tbody", { role: "rowgroup" })));
  }
  const body = t.tBodies[0], first = !body.rows.length, old = new Map();
  for (const tr of body.rows) if (tr.key) old.set(tr.key, tr);
  const rows = [];
  for (const item of items) {
    const k = key(item), text = JSON.stringify(item);
    let tr = old.get(k);
    if (tr?.text !== text) {
      const was = tr;
      tr = el("tr", { role: "row", class: first || was ? undefined : "fresh" }, cells(item).map(([label, content, c]) => {
        const value = el("div", {}, content);
        return el("td", { role: "cell", class: [c, value.hasChildNodes() ? "" : "none"].join(" ").trim() || undefined, "data-label": label }, value);
      }));
      tr.key = k;
      tr.text = text;
      if (was?.contains(document.activeElement)) tr.focusOn = [...was.querySelectorAll("a,button")].indexOf(document.activeElement);
    }
    rows.push(tr);
    const task = tr.querySelector("button[data-task]")?.dataset.task;
    if (task && opened.has(task)) rows.push(under(task, tr));
  }
  const focus = document.activeElement;
  if (rows.length !== body.rows.length || rows.some((tr, i) => body.rows[i] !== tr)) body.replaceChildren(...rows);
  for (const tr of rows) {
    if (tr.focusOn >= 0) tr.querySelectorAll("a,button")[tr.focusOn]?.focus({ preventScroll: true });
    delete tr.focusOn;
  }
  if (focus !== document.activeElement && body.contains(focus)) focus.focus({ preventScroll: true });
}

// count writes n after the heading of a section.
export function count(id, n) {
  const h = $("h-" + id);
  let small = h.querySelector("small");
  if (!small) h.append(small = el("small"));
  small.textContent = n;
}
