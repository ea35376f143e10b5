// Loading again what the stream does not have.

import { asking } from "./ask.js";
import { $, headline } from "./elements.js";
import { lost, setFailed } from "./stream.js";

// refresh calls load at once, a second after it failed, when something has changed, and 10 s after the last time. It
// never runs twice at the same time, nor while the page is hidden. An error is shown until it is called without one.
export function refresh(load) {
  let busy = false, stale = true, at = 0;
  const now = async () => {
    if (busy) stale = true;
    if (busy || asking()) return;
    busy = true;
    stale = false;
    at = Date.now();
    try {
      await load();
      setFailed("");
    } catch (e) {
      if (e.status !== 401) { // the form has it
        stale = true;
        setFailed("Request failed: " + e.message + ". Retrying.");
        if ($("lists").hidden) headline("wait", "Retrying …");
      }
    } finally {
      busy = false;
    }
  };
  setInterval(() => { if (!document.hidden && (stale && Date.now() - at > 900 || Date.now() - at > 10e3) && !lost()) now(); }, 250);
  return { now, changed: () => { stale = true; } };
}
