"""A worker for one pool, with Python's standard library: python3 worker.py POOL, with LOCKSTEP_SERVER and LOCKSTEP_API_TOKEN."""
import json, os, sys, threading, time, urllib.error, urllib.request

SERVER = os.environ.get("LOCKSTEP_SERVER", "http://127.0.0.1:8080") + "/api/v1/"

def call(path, patience=float("inf"), **body):
    """Posts body, again while no replica answers; urllib.error.HTTPError 409: what runs here is no longer this worker's."""
    end = time.monotonic() + patience
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("LOCKSTEP_API_TOKEN", "none")}
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(SERVER + path, json.dumps(body).encode(), headers), timeout=min(90, patience)) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            if refused.code not in (429, 502, 503, 504):
                raise
        except OSError:
            pass
        if time.monotonic() > end:
            raise TimeoutError("no replica has answered, and the session may have expired")
        time.sleep(0.5)

def beat(at, task, every, done):
    """Says that the worker lives while the task runs. It stops the process where the task must not go on here."""
    while not done.wait(every):
        try:
            if call(f"tasks/{task['id']}/heartbeat", 1.5 * every, **at)["cancel"]:  # the ttl is three times every
                call(f"tasks/{task['id']}/fail", **at, error="cancelled")
                os._exit(1)
        except OSError as lost:  # refused, or without an answer
            if not done.is_set():
                print("stopped:", lost, file=sys.stderr)
                os._exit(1)

def work(pool, run):
    session = {}
    while True:
        try:
            got = call(f"pools/{pool}/claim", **session, wait="30s", **({"have": []} if session else {"name": "python"}))
        except urllib.error.HTTPError as refused:
            if refused.code != 409:
                raise
            session = {}  # it has expired: open another one
            continue
        session = {"session": got["session"]}
        for task in got["items"]:
            at, done = {**session, "token": task["token"]}, threading.Event()
            threading.Thread(target=beat, args=(at, task, got["beat"], done), daemon=True).start()
            try:
                end = ("complete", {"output": str(run(task) or "")})
            except Exception as wrong:
                end = ("fail", {"error": repr(wrong)})
            done.set()
            try:
                call(f"tasks/{task['id']}/{end[0]}", **at, **end[1])
            except urllib.error.HTTPError as refused:
                print("not recorded:", refused.read().decode(), file=sys.stderr)

def run(task):  # your work; task["idempotency_key"] and task["token"] are for what it writes to
    time.sleep((task.get("payload") or {}).get("seconds", 0))
    return f"done by {task['replica']}"

if __name__ == "__main__":
    work(sys.argv[1], run)
