// Elements made of text. Data from the server becomes a text node, never markup.

export const root = new URL("..", import.meta.url); // the API may be mounted below a path
export const $ = (id) => document.getElementById(id);

export function el(tag, attrs, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attrs ?? {})) {
    if (typeof value === "function") e.addEventListener(name, value);
    else if (value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== null && c !== ""));
  return e;
}

export const link = (job, task) => el("a", { href: new URL("jobs/" + encodeURIComponent(job) + (task ? "#" + task : ""), root) }, job);
export const groupPath = (pool, fingerprint) => new URL(`dead-letters#${pool}/${fingerprint}`, root);
export const progress = (t) => (t.progress === undefined ? "" : `${Math.floor(t.progress * 1000 + 1e-6) / 10}%${t.progress_text ? ", " + t.progress_text : ""}`);
export const soft = (...text) => el("span", { class: "soft" }, ...text);

export const looks = {
  succeeded: ["green", "✓"], failed: ["red", "✕"], lost: ["red", "?"], missed: ["red", "!"], unrunnable: ["red", "!"],
  cancelled: ["grey", "–"], skipped: ["grey", "–"], running: ["grey", "▸"], pending: ["grey", "…"],
  live: ["green", "✓"], draining: ["amber", "▲"], dead: ["red", "✕"], paused: ["amber", "▲"], suspended: ["amber", "▲"],
};

export function badge(word, color, sign) {
  const [c, s] = looks[word] ?? ["grey", "·"];
  return el("span", { class: "badge " + (color ?? c) }, (sign ?? s) + " " + word);
}

export function facts(pairs) {
  return el("dl", {}, pairs.filter(([, v]) => v !== undefined && v !== "" && v !== null).map(([k, v]) => [el("dt", {}, k), el("dd", {}, ...[v].flat())]).flat());
}

// by is who did something, and why, if that is known.
export const by = (who, why) => (who ? " by " + who + (why ? ": " + why : "") : "");
// joined is what there is of some texts.
export const joined = (texts, by = ", ") => texts.filter(Boolean).join(by);
export const labels = (m) => Object.entries(m ?? {}).map(([k, v]) => k + "=" + v).join(", ");

export const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

export function headline(color, text) {
  const h = $("headline");
  if (h.className !== color) h.className = color;
  if (h.textContent !== text) h.textContent = text;
}

// atLeast is a number of tasks of a pool, which are counted up to 10,000.
export const atLeast = (p, n) => (p.approximate && n >= 10_000 ? "≥ " : "") + n;
