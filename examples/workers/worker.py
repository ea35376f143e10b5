# A worker for one pool, with Python's standard library: python3 worker.py POOL, with LOCKSTEP_SERVER and LOCKSTEP_API_TOKEN.
import json, os, signal, sys, threading, time, urllib.request
from concurrent.futures import ThreadPoolExecutor, wait

SERVER = os.environ.get("LOCKSTEP_SERVER", "http://127.0.0.1:8080") + "/api/v1/"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("LOCKSTEP_API_TOKEN", "none")}

def run(task):  # your work; task["idempotency_key"] and task["token"] are for what it writes to
    time.sleep((task.get("payload") or {}).get("seconds", 0))
    return f"done by {task['replica']}"

# call sends body, again while no replica answers, and returns a status with the answer; 0: there was none in so many seconds.
def call(method, path, body, patience=1e9):
    request = urllib.request.Request(SERVER + path, json.dumps(body).encode(), HEADERS, method=method)
    end = time.monotonic() + patience
    while (left := end - time.monotonic()) > 0:
        try:
            return 200, json.load(urllib.request.urlopen(request, timeout=min(90, left)))
        except Exception as failure:  # one without a code: no answer, or a part of it
            if getattr(failure, "code", 503) not in (429, 502, 503, 504):
                return failure.code, failure.read().decode()
        time.sleep(min(0.5, left))
    return 0, "no replica has answered"

# perform runs the task in a thread, and sends heartbeats. Where the task must not go on here, within the session's ttl, it ends the process.
def perform(task, at, beat):  # the ttl is three times beat
    path, running, until = f"tasks/{task['id']}/", threads.submit(run, task), time.monotonic() + 1.7 * beat  # since the claim's answer
    while wait([running], beat).not_done:
        until, (status, answer) = time.monotonic() + 2.7 * beat, call("POST", path + "heartbeat", at, until - time.monotonic())
        if status != 200 or answer["cancel"]:
            call("POST", path + "fail", {**at, "error": f"stopped: {answer}"}, 0.3 * beat)
            os._exit(1)
    how, end = ("fail", {"error": repr(running.exception())}) if running.exception() else ("complete", {"output": running.result()})
    print(path + how, call("POST", path + how, {**at, **end})[0], flush=True)

threads, stopping, session, pause = ThreadPoolExecutor(1), threading.Event(), {"name": "python"}, 0.5
signal.signal(signal.SIGTERM, lambda *_: stopping.set())  # what runs comes to its end
while not stopping.is_set():
    status, got = call("POST", f"pools/{sys.argv[1]}/claim", {**session, "wait": "5s"})
    if status == 200:
        session, pause = {"session": got["session"], "have": []}, 0.5
        for task in got["items"]:
            perform(task, {"session": got["session"], "token": task["token"]}, got["beat"])
    else:  # the session has expired, or the replica has another file, as in an upgrade: open another session later
        print("waiting:", got, flush=True)
        session, pause = {"name": "python"}, min(2 * pause, 15)
        stopping.wait(pause)
call("DELETE", "workers/" + session.get("session", "none"), {}, 5)
