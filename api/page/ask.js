// Calls of the API, and the form for its token.

import { $, el, root } from "./elements.js";

let token = sessionStorage.getItem("lockstep-token") ?? "";

// ask reads, or writes if there is a body.
export async function ask(path, signal, body) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body) headers["Content-Type"] = "application/json";
  const res = await fetch(new URL("api/v1/" + path, root), { method: body ? "POST" : "GET", body: body && JSON.stringify(body), headers, signal, cache: "no-store", credentials: "omit", redirect: "error" });
  if (res.ok) return res;
  let message = res.status + " " + res.statusText, code = "";
  try { ({ message, code } = (await res.json()).error); } catch { /* not of our making: a proxy's page */ }
  throw Object.assign(new Error(message), { status: res.status, code });
}

export const get = async (path) => (await ask(path)).json();

// maybe is get, or none where there is nothing: it was swept meanwhile, or the replica is older.
export const maybe = (path, none = "") => get(path).catch((e) => { if (e.status === 404) return none; throw e; });

// all reads a list until it has n rows, or the list ends.
export async function all(path, n) {
  const rows = [];
  let next = "";
  do {
    const list = await get(path + "limit=" + Math.min(n, 100) + (next ? "&cursor=" + encodeURIComponent(next) : ""));
    rows.push(...list.items);
    next = list.next;
  } while (next && rows.length < n);
  return [rows, next];
}

export let role = ""; // of the caller; empty: not known yet
export function setRole(r) { role = r ?? ""; }

// login shows the form until a token is given. Concurrent calls wait for the same one.
let waiting;
export function login(reason) {
  return waiting ??= new Promise((done) => {
    const had = token !== "";
    $("main").hidden = true;
    const input = el("input", { type: "password", id: "token", autocomplete: "off", required: true, "aria-describedby": "token-help" });
    const form = el("form", {
      submit: (e) => {
        e.preventDefault();
        token = input.value.trim();
        if (!token) return;
        sessionStorage.setItem("lockstep-token", token);
        form.remove();
        $("main").hidden = false;
        waiting = undefined;
        done();
      },
    }, el("h1", {}, "Token required"),
      had ? el("p", { role: "alert" }, reason) : "",
      el("label", { for: "token" }, "API token"), input,
      el("p", { id: "token-help", class: "soft" }, "The role viewer suffices; ", el("code", {}, "scheduler token create"), " creates one. It is kept in this tab until the tab is closed."),
      el("button", {}, "Look"));
    document.body.insertBefore(form, $("main"));
    input.focus();
  });
}

// asking reports whether the form is shown.
export const asking = () => waiting !== undefined;

export function who(replica) {
  const p = $("who");
  if (p.dataset.replica === replica + token) return;
  p.dataset.replica = replica + token;
  p.replaceChildren(...(replica ? ["served by ", el("b", {}, replica)] : []));
  if (token) p.append(" ", el("button", { type: "button", click: () => { sessionStorage.removeItem("lockstep-token"); location.reload(); } }, "Forget the token"));
}
