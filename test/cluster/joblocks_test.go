package cluster

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// lockCells are the lock services of jobs, the store's own database among them.
var lockCells = append(slices.Clone(cells), cell{"mysql", func(t *testing.T, _ string) (string, string, string) {
	return "mysql", servers.MySQL(t), `{ttl: 10s}`
}})

// Commands that hold a lock never run beside each other, on three replicas, one of which is killed while it holds the lock: then its task
// runs elsewhere. What waits says who holds the lock, and runs in the order of the store.
func TestJobLocks(t *testing.T) {
	t.Parallel()
	for _, c := range lockCells {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dialect, dsn, lock := c.open(t, dir)
			config, log, release := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "log"), filepath.Join(dir, "release")
			text := fmt.Sprintf(`version: 1
replica: {session_ttl: 4s, drain_timeout: 5s}
store: {driver: %s, dsn: %q}
lock: %s
pools:
  orders:
    on_lost: retry
    locks: [orders-db]
    shell: |
      echo "begin $LOCKSTEP_TASK_ID $LOCKSTEP_ATTEMPT $LOCKSTEP_LOCK_TOKENS" >>%s
      while [ -d %s ] && [ ! -e %s ]; do sleep 0.05; done
      sleep 0.2
      echo "end $LOCKSTEP_TASK_ID $LOCKSTEP_ATTEMPT" >>%[4]s
`, dialect, dsn, strings.Replace(strings.ReplaceAll(lock, "ttl: 10s", "ttl: 4s"), "session_timeout: 10s", "session_timeout: 4s", 1), log, dir, release)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			replicas := map[string]*replica{}
			for _, id := range []string{"r1", "r2", "r3"} {
				replicas[id] = startReplica(t, config, id)
			}
			ids := replicas["r1"].enqueue(t, "orders", 6)
			var holder task
			program.Within(t, 20*time.Second, "one runs, and the others wait", func() bool {
				running := replicas["r1"].tasks(t, "orders", "running")
				if len(running) == 1 {
					holder = running[0]
				}
				return len(running) == 1 && waitsFor(t, replicas["r1"], ids[5], "waits for lock orders-db")
			})
			victim := replicas[holder.Replica]
			delete(replicas, holder.Replica)
			var other *replica
			for _, r := range replicas {
				other = r
			}
			victim.Kill(t)
			killed := time.Now()
			program.Within(t, 30*time.Second, "another one holds the lock", func() bool {
				running := other.tasks(t, "orders", "running")
				return len(running) == 1 && running[0].Replica != holder.Replica
			})
			t.Logf("%v after the kill", time.Since(killed).Round(time.Millisecond))
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			program.Within(t, 60*time.Second, "all have succeeded", func() bool { return len(other.tasks(t, "orders", "succeeded")) == len(ids) })
			wantInTurn(t, log, ids, holder.ID)
		})
	}
}

// waitsFor reports whether the reason of a task is that.
func waitsFor(t *testing.T, r *replica, id, why string) bool {
	t.Helper()
	var got struct {
		Reason     string
		ReasonCode string `json:"reason_code"`
	}
	if err := r.call("GET", "/api/v1/tasks/"+id, nil, &got); err != nil {
		t.Fatal(err)
	}
	return got.ReasonCode == "waits_for_lock" && strings.Contains(got.Reason, why)
}

// wantInTurn holds that attempts ran one after the other, and their tasks in order, but for the first attempt of one whose replica was
// killed: it has no end.
func wantInTurn(t *testing.T, log string, ids []string, lost string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	inside := ""
	var order []string
	token := int64(0)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		attempt := words[1] + " " + words[2]
		switch {
		case words[0] == "end" && attempt == inside:
			inside = ""
		case words[0] == "begin" && (inside == "" || inside == lost+" 1"):
			inside = attempt
			if words[1] != lost {
				order = append(order, words[1])
			}
			var next int64
			if _, err := fmt.Sscanf(words[3], `{"orders-db":%d}`, &next); err != nil || next <= token {
				t.Errorf("token %s after %d", words[3], token)
			}
			token = next
		default:
			t.Fatalf("%q while %q runs:\n%s", line, inside, text)
		}
	}
	if want := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == lost }); !slices.Equal(order, want) {
		t.Errorf("they ran as\n%v, enqueued as\n%v", order, want)
	}
}

// A command whose lock was taken away is ended, and its task has failed for that reason.
func TestALostLockEndsTheCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, beats := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "beats")
	text := fmt.Sprintf(`version: 1
store: {driver: sqlite, dsn: lockstep.db}
lock: {ttl: 3s}
pools:
  orders: {locks: [orders-db], retries: {limit: 0}, shell: 'trap "" TERM; while [ -d %s ]; do echo $$ >>%s; sleep 0.05; done'}
`, dir, beats)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	r.enqueue(t, "orders", 1)
	program.Within(t, 15*time.Second, "it runs", func() bool { return len(attempts(t, beats)) > 3 })
	db, err := sql.Open("sqlite", filepath.Join(dir, "lockstep.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM lockstep_lock_leases2 WHERE name LIKE '%orders-db'"); err != nil {
		t.Fatal(err)
	}
	var got []struct {
		Reason     string
		ReasonCode string `json:"reason_code"`
	}
	program.Within(t, 15*time.Second, "it has failed", func() bool {
		var p struct {
			Items []struct {
				Reason     string
				ReasonCode string `json:"reason_code"`
			}
		}
		if err := r.call("GET", "/api/v1/tasks?pool=orders&state=failed", nil, &p); err != nil {
			t.Fatal(err)
		}
		got = p.Items
		return len(got) == 1
	})
	if got[0].ReasonCode != "lock_lost" || !strings.Contains(got[0].Reason, "lock orders-db") {
		t.Errorf("%+v", got[0])
	}
	n := len(attempts(t, beats))
	time.Sleep(500 * time.Millisecond)
	if again := len(attempts(t, beats)); again != n {
		t.Errorf("the command goes on: %d beats, then %d", n, again)
	}
}

// A job's lock and that of a command are one key: a task waits while "locks exec" holds it.
func TestTasksWaitForACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, log, release := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "log"), filepath.Join(dir, "release")
	text := fmt.Sprintf(`version: 1
store: {driver: sqlite, dsn: lockstep.db}
pools:
  orders: {locks: [orders-db], shell: 'echo $LOCKSTEP_LOCK_TOKENS >>%s'}
`, log)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, config, "r1")
	cmd := exec.Command(program.Build(t, scheduler), "locks", "exec", "-c", config, "orders-db", "--",
		"sh", "-c", fmt.Sprintf(`echo "{\"orders-db\":$LOCKSTEP_FENCING_TOKEN}" >>%s; while [ -d %s ] && [ ! -e %s ]; do sleep 0.05; done`, log, dir, release))
	cmd.Dir = dir
	command := program.Start(t, cmd)
	program.Within(t, 20*time.Second, "the command holds the lock", func() bool { return len(attempts(t, log)) == 1 })
	ids := r.enqueue(t, "orders", 1)
	program.Within(t, 20*time.Second, "the task waits for it", func() bool {
		return waitsFor(t, r, ids[0], "waits for lock orders-db, held by")
	})
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := command.Exit(t, 20*time.Second); code != 0 {
		t.Errorf("the command ended with %d\n%s", code, command.Log())
	}
	program.Within(t, 20*time.Second, "the task has run", func() bool { return len(r.tasks(t, "orders", "succeeded")) == 1 })
	var first, then int64
	said, err := os.ReadFile(log)
	if _, scan := fmt.Sscanf(string(said), "{\"orders-db\":%d}\n{\"orders-db\":%d}\n", &first, &then); err != nil || scan != nil || then <= first {
		t.Errorf("%v, %v: the task should have a larger token than the command:\n%s", err, scan, said)
	}
}
