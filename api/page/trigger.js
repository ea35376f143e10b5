// How a due time is shown.

import { badge, by, soft } from "./elements.js";
import { when } from "./time.js";

// wordOf is the state of a due time, in one word.
export const wordOf = (t) => (t.outcome === "ran" ? t.result ?? "ran" : t.outcome || (t.started_at ? "running" : "pending"));
export const outcome = (t) => badge(wordOf(t));

export function dueOf(t) {
  const many = t.count > 1 ? soft(` and ${t.count - 1} more`) : "";
  const cause = t.cause === "schedule" ? "" : soft(" " + t.cause.replace("_", "-") + by(t.by));
  return [when(t.at), many, cause];
}
