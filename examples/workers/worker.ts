// A worker for one pool without dependencies: node worker.ts POOL, with LOCKSTEP_SERVER and LOCKSTEP_API_TOKEN.
declare const process: any;
const server = (process.env.LOCKSTEP_SERVER ?? "http://127.0.0.1:8080") + "/api/v1/";
const headers = { "Content-Type": "application/json", Authorization: "Bearer " + (process.env.LOCKSTEP_API_TOKEN ?? "none") };
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function run(task: any): Promise<string> { // your work; task.idempotency_key and task.token are for what it writes to
  await sleep((task.payload?.seconds ?? 0) * 1000);
  return `done by ${task.replica}`;
}

// call sends body, again while no replica answers, and returns a status with the answer; 0: there was none in so many milliseconds.
async function call(method: string, path: string, body: object, patience = 1e12): Promise<[number, any]> {
  for (const end = Date.now() + patience; Date.now() < end; await sleep(500)) {
    const signal = (AbortSignal as any).timeout(Math.ceil(Math.min(90_000, end - Date.now())));
    const sent = fetch(server + path, { method, headers, body: JSON.stringify(body), signal });
    const [status, answer] = await sent.then(async (got) => [got.status, await got.json()]).catch(() => [503, ""]); // no answer, or a part of it
    if (![429, 502, 503, 504].includes(status)) return [status, answer];
  }
  return [0, "no replica has answered"];
}

// perform runs the task, and sends heartbeats. Where the task must not go on here, within the session's ttl, it ends the process.
async function perform(task: any, at: object, beat: number) { // the ttl is three times beat
  const path = `tasks/${task.id}/`;
  const ended = run(task).then((output) => ["complete", { output }] as const, (wrong) => ["fail", { error: String(wrong) }] as const);
  for (let until = Date.now() + 1.7 * beat; !(await Promise.race([ended, sleep(beat)])); ) { // since the claim's answer
    const now = Date.now(), [status, answer] = await call("POST", path + "heartbeat", at, until - now);
    if (status === 200 && !answer.cancel && (until = now + 2.7 * beat)) continue;
    await call("POST", path + "fail", { ...at, error: "stopped: " + JSON.stringify(answer) }, 0.3 * beat);
    process.exit(1);
  }
  const [how, end] = await ended;
  console.log(path + how, (await call("POST", path + how, { ...at, ...end }))[0]);
}

async function work(pool: string, stopping = false, session: any = { name: "typescript" }, pause = 500) {
  process.once("SIGTERM", () => (stopping = true)); // what runs comes to its end
  while (!stopping) {
    const [status, got] = await call("POST", `pools/${pool}/claim`, { ...session, wait: "5s" });
    // Not 200: the session has expired, or the replica has another file, as in an upgrade. Open another session later.
    [session, pause] = status === 200 ? [{ session: got.session, have: [] }, 500] : [{ name: "typescript" }, Math.min(2 * pause, 15_000)];
    for (const task of got.items ?? []) await perform(task, { session: got.session, token: task.token }, got.beat * 1000);
    if (status !== 200) console.log("waiting:", got), await sleep(pause);
  }
  await call("DELETE", "workers/" + (session.session ?? "none"), {}, 5000);
}
work(process.argv[2]);
