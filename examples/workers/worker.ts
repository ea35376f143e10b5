// A worker for one pool without dependencies: node worker.ts POOL, with LOCKSTEP_SERVER and LOCKSTEP_API_TOKEN.
declare const process: any;
type Task = { id: string; token: number; replica: string; idempotency_key: string; payload?: any };

const server = (process.env.LOCKSTEP_SERVER ?? "http://127.0.0.1:8080") + "/api/v1/";
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

// call posts body, again while no replica answers. An error with status 409: what runs here is no longer this worker's.
async function call(path: string, body: object, patience = Infinity): Promise<any> {
  const end = Date.now() + patience;
  const headers = { "Content-Type": "application/json", Authorization: "Bearer " + (process.env.LOCKSTEP_API_TOKEN ?? "none") };
  for (;;) {
    const signal = (AbortSignal as any).timeout(Math.ceil(Math.min(90_000, patience)));
    const answer = await fetch(server + path, { method: "POST", headers, body: JSON.stringify(body), signal }).catch(() => null);
    if (answer?.ok) return answer.json();
    if (answer && ![429, 502, 503, 504].includes(answer.status)) throw Object.assign(new Error(await answer.text()), { status: answer.status });
    if (Date.now() > end) throw new Error("no replica has answered, and the session may have expired");
    await sleep(500);
  }
}

// beat says that the worker lives while the task runs. It stops the process where the task must not go on here.
function beat(at: object, task: Task, every: number) {
  const timer = setInterval(async () => {
    try {
      const said = await call(`tasks/${task.id}/heartbeat`, at, 1500 * every); // the ttl is three times every
      if (said.cancel) await call(`tasks/${task.id}/fail`, { ...at, error: "cancelled" }).finally(() => process.exit(1));
    } catch (lost) {
      if (!ended) console.error("stopped:", lost), process.exit(1);
    }
  }, every * 1000);
  let ended = false;
  return () => { ended = true; clearInterval(timer); };
}

async function work(pool: string, run: (task: Task) => Promise<string>) {
  for (let session = {}; ; ) {
    const more = "session" in session ? { have: [] } : { name: "typescript" };
    const got = await call(`pools/${pool}/claim`, { ...session, ...more, wait: "30s" }).catch((refused) => {
      if (refused.status !== 409) throw refused;
      return null; // the session has expired: open another one
    });
    session = got ? { session: got.session } : {};
    for (const task of got?.items ?? []) {
      const at = { ...session, token: task.token };
      const stop = beat(at, task, got.beat);
      const [how, end] = await run(task).then((output) => ["complete", { output }], (wrong) => ["fail", { error: String(wrong) }]);
      stop();
      await call(`tasks/${task.id}/${how}`, { ...at, ...(end as object) }).catch((refused) => console.error("not recorded:", refused.message));
    }
  }
}

work(process.argv[2], async (task) => { // your work; task.idempotency_key and task.token are for what it writes to
  await sleep((task.payload?.seconds ?? 0) * 1000);
  return `done by ${task.replica}`;
});
