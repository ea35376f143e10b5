// The search box.

import { get } from "./ask.js";
import { $, badge, el, link, soft } from "./elements.js";
import { when } from "./time.js";
import { outcome } from "./trigger.js";

export function search() {
  let turn = 0, timer;
  const input = $("search"), found = $("found");
  const look = async () => {
    const mine = ++turn, prefix = input.value.trim();
    if (!prefix) { found.hidden = true; found.replaceChildren(); return; }
    let content;
    try {
      const list = await get("jobs?limit=20&prefix=" + encodeURIComponent(prefix));
      content = list.items.length
        ? el("ul", {}, list.items.map((j) => el("li", {}, link(j.name), " ", j.last ? outcome(j.last) : "", " ", j.next_at && !j.suspended ? soft("due ", when(j.next_at, "due")) : j.suspended ? badge("suspended") : "")), list.next ? el("li", { class: "soft" }, "and more: type on") : "")
        : el("p", { class: "empty" }, `No job begins with “${prefix}”.`);
    } catch (e) {
      content = el("p", { class: "empty" }, e.message);
    }
    if (mine !== turn) return;
    found.hidden = false;
    found.replaceChildren(el("h2", {}, "Jobs found"), content);
  };
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(look, 150); });
  input.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { input.value = ""; look(); }
    if (e.key === "Enter") found.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName) && !e.ctrlKey && !e.metaKey) { e.preventDefault(); input.focus(); }
  });
}
