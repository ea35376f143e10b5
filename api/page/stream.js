// The live stream, and its errors.

import { ask, login, setRole } from "./ask.js";
import { $, el, headline } from "./elements.js";
import { clockOf, setClock } from "./time.js";

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const visible = () => new Promise((done) => {
  const look = () => { if (!document.hidden) { document.removeEventListener("visibilitychange", look); done(); } };
  document.addEventListener("visibilitychange", look);
  look();
});

let lostAt = 0, lostWhy = ""; // since when the stream is silent; 0: connected

export const lost = () => lostAt > 0;

// listen receives overviews while the page is visible.
export async function listen(show) {
  for (let pause = 1; ; pause = Math.min(pause * 2, 15)) {
    await visible();
    const stop = new AbortController();
    const hide = () => { if (document.hidden) stop.abort("hidden"); };
    document.addEventListener("visibilitychange", hide);
    let silence;
    const alive = () => { clearTimeout(silence); silence = setTimeout(() => stop.abort(new Error("no event for 40 s")), 40e3); };
    alive();
    let heard = false;
    try {
      const res = await ask("events", stop.signal);
      setClock(Date.parse(res.headers.get("Date")));
      setRole(res.headers.get("Lockstep-Role"));
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        const { value, done } = await reader.read();
        if (done) break;
        alive();
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) {
          heard = true;
          pause = 1;
          lostAt = 0; // before show, which reads it
          const data = event.split("\n").find((line) => line.startsWith("data: "));
          if (data) show(JSON.parse(data.slice(6)));
          banner();
        }
      }
      lostWhy = "the replica closed the stream";
    } catch (e) {
      lostWhy = e?.message ?? "";
      if (e?.status === 401 || e?.status === 403 && e.code === "forbidden") { // no token, or one that may not look
        clearTimeout(silence);
        await login(e.message);
        pause = .5;
        continue;
      }
    } finally {
      clearTimeout(silence);
      document.removeEventListener("visibilitychange", hide);
    }
    if (document.hidden) continue;
    lostAt ||= Date.now();
    if (!heard) banner();
    await sleep(pause * (700 + 600 * Math.random()));
  }
}

// banner shows errors of the page itself, on top.
let insecure = "", away = "", failed = "";
export function setInsecure(detail) { insecure = detail; }
export function setAway(detail) { away = detail; }
export function setFailed(detail) { failed = detail; banner(); }

export function banner() {
  const lines = [];
  if (insecure) lines.push(["amber", "▲ Access is open: " + insecure]);
  if (away) lines.push(["red", "✕ " + away]);
  else if (failed && !lost()) lines.push(["red", "✕ " + failed]);
  if (lost() && Date.now() - lostAt > 1500) {
    headline("red", "Disconnected"); // the previous state may be stale
    document.title = "✕ Disconnected · Lockstep";
    lines.push(["red", `✕ Disconnected since ${clockOf.format(lostAt)}${lostWhy ? " (" + lostWhy + ")" : ""}. The data is from then; retrying.`]);
  }
  const box = $("banners"), text = JSON.stringify(lines);
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  box.replaceChildren(...lines.map(([color, line]) => el("p", { class: "banner " + color, role: "alert" }, line)));
}
