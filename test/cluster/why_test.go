//go:build unix

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// why is what the command says of a task, asked of a replica.
func (r *replica) why(t *testing.T, id string) wire.Why {
	t.Helper()
	cmd := exec.Command(program.Build(t, scheduler), "tasks", "why", id, "-o", "json")
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+r.url)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tasks why %s: %v, %s", id, err, out)
	}
	var y wire.Why
	if err := json.Unmarshal(out, &y); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if y.TaskID != id || y.At.IsZero() || len(y.Causes) == 0 {
		t.Fatalf("%s", out)
	}
	return y
}

func codes(y wire.Why) string {
	var all []string
	for _, c := range y.Causes {
		all = append(all, string(c.Code))
	}
	return strings.Join(all, " ")
}

// becomes waits until a task has these causes, and returns the first.
func (r *replica) becomes(t *testing.T, id, want string) wire.Cause {
	t.Helper()
	var y wire.Why
	defer func() {
		if t.Failed() {
			t.Logf("task %s: %+v", id, y)
		}
	}()
	program.Within(t, 30*time.Second, "task "+id+" has the causes "+want, func() bool {
		y = r.why(t, id)
		return codes(y) == want
	})
	return y.Causes[0]
}

// add enqueues one task.
func (r *replica) add(t *testing.T, pool string, n map[string]any) string {
	t.Helper()
	var p page
	if err := r.call("POST", "/api/v1/pools/"+pool+"/tasks", []any{n}, &p); err != nil {
		t.Fatal(err)
	}
	return p.Items[0].ID
}

// post sends a request whose answer does not matter.
func (r *replica) post(t *testing.T, path string) {
	t.Helper()
	var answer json.RawMessage
	if err := r.call("POST", path, nil, &answer); err != nil {
		t.Fatal(err)
	}
}

// The command says of tasks what really holds them up, and no more once that is gone: limits, keys, locks of other processes, replicas that
// lack something, and due times.
func TestWhy(t *testing.T) {
	t.Parallel()
	for _, c := range cells[:2] {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dialect, dsn, lock := c.open(t, dir)
			file := func(name, kinds string) string {
				path := filepath.Join(dir, name)
				text := fmt.Sprintf(`version: 1
replica: {session_ttl: 3s, drain_timeout: 1s, labels: {zone: a}}
store: {driver: %s, dsn: %q}
lock: %s
pools:
  full: {max_running: 1, shell: %[4]q}
  slow: {workers: 1, shell: %[4]q}
  keyed: {per_key: {max_running: 1}, shell: %[4]q}
  ordered: {order: key, shell: %[4]q}
  rated: {rate: 1/h, burst: 1, command: ["true"]}
  locked: {locks: [orders-db], shell: %[4]q}
  kinds: {kinds: {%[5]s}}
  fails: {retries: {limit: 5, backoff: 1h, max_backoff: 1h}, shell: "exit 3"}
  idle: {command: ["true"]}
jobs:
  elsewhere: {command: ["true"], runs_on: {zone: b}}
`, dialect, dsn, lock, fmt.Sprintf("while [ -d %[1]s ] && [ ! -e %[1]s/$LOCKSTEP_POOL ]; do sleep 0.05; done", dir), kinds)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			config := file("lockstep.yaml", `mail: {command: ["true"]}`)
			r := startReplica(t, config, "r1")
			release := func(pool string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, pool), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			ids := r.enqueue(t, "full", 2)
			if cause := r.becomes(t, ids[1], "max_running"); cause.Max != 1 || cause.Count != 1 || cause.Tasks[0].ID != ids[0] || cause.Tasks[0].Replica != "r1" {
				t.Errorf("%+v", cause)
			}
			if cause := r.becomes(t, ids[0], "running"); cause.Replica != "r1" || cause.Attempt != 1 || time.Since(cause.SeenAt) > 10*time.Second {
				t.Errorf("%+v", cause)
			}
			release("full")
			r.becomes(t, ids[1], "succeeded")

			slow := r.enqueue(t, "slow", 3)
			r.becomes(t, slow[1], "workers_busy")
			if y := r.why(t, slow[2]); codes(y) != "workers_busy behind_others" || y.Causes[1].Count != 1 || y.Start.Unknown == "" {
				t.Errorf("%+v", y)
			}
			release("slow")
			r.becomes(t, slow[2], "succeeded")

			first, second := r.add(t, "keyed", map[string]any{"key": "acme"}), r.add(t, "keyed", map[string]any{"key": "acme"})
			if cause := r.becomes(t, second, "waits_for_key"); cause.Limit != "max_running" || cause.Key != "acme" || cause.Tasks[0].ID != first {
				t.Errorf("%+v", cause)
			}
			release("keyed")
			r.becomes(t, second, "succeeded")

			first, second = r.add(t, "ordered", map[string]any{"key": "acme", "run_at": time.Now().Add(time.Hour)}), r.add(t, "ordered", map[string]any{"key": "acme"})
			r.becomes(t, first, "not_due")
			if cause := r.becomes(t, second, "waits_for_key"); cause.Limit != "order" || cause.Tasks[0].ID != first || cause.Tasks[0].State != jobs.StatePending {
				t.Errorf("%+v", cause)
			}
			r.post(t, "/api/v1/tasks/"+first+"/cancel")
			r.becomes(t, second, "running")
			release("ordered")
			r.becomes(t, second, "succeeded")
			if cause := r.becomes(t, first, "cancelled"); !strings.Contains(cause.Message, "cancelled by ") {
				t.Errorf("%+v", cause)
			}

			r.becomes(t, r.add(t, "rated", map[string]any{}), "succeeded")
			if cause := r.becomes(t, r.add(t, "rated", map[string]any{}), "rate"); time.Until(cause.Until) < 50*time.Minute {
				t.Errorf("%+v", cause)
			}

			r.post(t, "/api/v1/pools/idle/pause")
			paused := r.add(t, "idle", map[string]any{})
			if cause := r.becomes(t, paused, "pool_paused"); cause.By == "" || time.Since(cause.Since) > time.Minute {
				t.Errorf("%+v", cause)
			}
			r.post(t, "/api/v1/pools/idle/resume")
			r.becomes(t, paused, "succeeded")

			cmd := exec.Command(program.Build(t, scheduler), "locks", "exec", "-c", config, "--name", "by-hand", "--wait", "30s", "orders-db", "--", "sh", "-c", "echo has it; while [ ! -e "+dir+"/end ]; do sleep 0.05; done")
			cmd.Dir = dir
			holder := program.Start(t, cmd)
			program.Within(t, 20*time.Second, "another process holds the lock", func() bool { return strings.Contains(holder.Log(), "has it") })
			locked := r.add(t, "locked", map[string]any{})
			if cause := r.becomes(t, locked, "waits_for_lock"); cause.Locks[0].Key != "orders-db" || len(cause.Locks[0].Holders) != 1 ||
				!strings.HasSuffix(cause.Locks[0].Holders[0].Owner, fmt.Sprint("/", holder.Cmd.Process.Pid)) || !strings.Contains(cause.Message, "by-hand") {
				t.Errorf("%+v", cause)
			}
			behind := r.add(t, "locked", map[string]any{})
			program.Within(t, 20*time.Second, "the next one has its place", func() bool {
				cause := r.why(t, behind).Causes[0]
				return cause.Code == "waits_for_lock" && cause.Locks[0].Before == 1 && cause.Locks[0].First == locked
			})
			release("end")
			r.becomes(t, locked, "running")
			release("locked")
			r.becomes(t, behind, "succeeded")

			failed := r.add(t, "fails", map[string]any{})
			if cause := r.becomes(t, failed, "backoff"); cause.Attempt != 1 || cause.MaxAttempts != 6 || *cause.ExitCode != 3 || time.Until(cause.Until) < 20*time.Minute {
				t.Errorf("%+v", cause)
			}

			var run wire.Run
			if err := r.call("POST", "/api/v1/jobs/elsewhere/run", nil, &run); err != nil {
				t.Fatal(err)
			}
			if cause := r.becomes(t, run.Task.ID, "no_replica"); cause.RunsOn["zone"] != "b" || len(cause.Replicas) != 1 || cause.Replicas[0].Labels["zone"] != "a" {
				t.Errorf("%+v", cause)
			}
			fax := r.add(t, "kinds", map[string]any{"kind": "fax", "force": true})
			if cause := r.becomes(t, fax, "no_handler"); len(cause.Replicas) != 1 || fmt.Sprint(cause.Replicas[0].Kinds) != "[mail]" {
				t.Errorf("%+v", cause)
			}
			newer := startReplica(t, file("newer.yaml", `mail: {command: ["true"]}, fax: {command: ["true"]}`), "r2")
			newer.becomes(t, fax, "succeeded")

			if code := exitOf(t, r, "tasks", "why", "00000000-0000-7000-8000-000000000000"); code != 1 {
				t.Errorf("an unknown task: exit code %d", code)
			}
		})
	}
}

func exitOf(t *testing.T, r *replica, args ...string) int {
	t.Helper()
	cmd := exec.Command(program.Build(t, scheduler), args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SERVER="+r.url)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// A replica is frozen while it runs a task, and is killed then: the others say that it is silent, until the task runs elsewhere.
func TestWhyOfASilentReplica(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "lockstep.yaml")
	text := fmt.Sprintf(`version: 1
replica: {session_ttl: 12s, drain_timeout: 1s}
store: {driver: mysql, dsn: %q}
pools:
  long: {workers: 1, on_lost: retry, shell: "while [ -d %[2]s ] && [ ! -e %[2]s/end ]; do sleep 0.05; done"}
`, servers.MySQL(t), dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	first := startReplica(t, config, "r1")
	id := first.add(t, "long", map[string]any{})
	first.becomes(t, id, "running")
	other := startReplica(t, config, "r2")

	first.Signal(t, syscall.SIGSTOP)
	if cause := other.becomes(t, id, "replica_silent running"); cause.Replica != "r1" || time.Since(cause.SeenAt) < 10*time.Second {
		t.Errorf("%+v", cause)
	}
	first.Kill(t)
	program.Within(t, 40*time.Second, "it runs elsewhere", func() bool {
		cause := other.why(t, id).Causes[0]
		return cause.Code == "running" && cause.Replica == "r2" && cause.Attempt == 2
	})
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other.becomes(t, id, "succeeded")
}

// While the lock service is down, what needs it says so: with when_down: wait all tasks do, else those with locks.
func TestWhyWithoutTheLockService(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]string{"wait": "lock_service_down", "store": "lock_service_down waits_for_lock"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			redis := servers.NewRedis(t)
			dir := t.TempDir()
			config := filepath.Join(dir, "lockstep.yaml")
			text := fmt.Sprintf(`version: 1
name: whys
replica: {drain_timeout: 1s}
store: {dsn: lockstep.db}
lock: {driver: redis, ttl: 3s, when_down: %s, redis: {addrs: [%q]}}
pools:
  locked: {locks: [orders-db], command: ["true"]}
`, when, redis.Addr)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := startReplica(t, config, "r1")
			r.becomes(t, r.add(t, "locked", map[string]any{}), "succeeded")
			redis.Stop()
			program.Within(t, 20*time.Second, "the replica has noticed", func() bool {
				_, detail := r.condition(t, "lock")
				return detail != ""
			})
			waits := r.add(t, "locked", map[string]any{})
			r.becomes(t, waits, want)
			redis.Start()
			r.becomes(t, waits, "succeeded")
		})
	}
}
