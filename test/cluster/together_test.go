package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/program"
)

// Commands that share a lock run beside each other, on three replicas, and never beside one that holds it alone; of those with a limit no
// more run than it allows, also when a replica is killed under them.
func TestLocksHeldTogether(t *testing.T) {
	t.Parallel()
	for _, c := range lockCells {
		if strings.HasSuffix(c.name, " row") {
			continue // it locks keys alone
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			dialect, dsn, lock := c.open(t, dir)
			config, log, release := filepath.Join(dir, "lockstep.yaml"), filepath.Join(dir, "log"), filepath.Join(dir, "release")
			pool := func(locks string) string {
				return fmt.Sprintf(`
    on_lost: retry
    locks: [%s]
    shell: |
      echo "begin $LOCKSTEP_POOL $LOCKSTEP_REPLICA $LOCKSTEP_TASK_ID" >>%s
      while [ -d %s ] && [ ! -e %s ]; do sleep 0.05; done
      sleep 0.2
      echo "end $LOCKSTEP_POOL $LOCKSTEP_REPLICA $LOCKSTEP_TASK_ID" >>%[2]s
`, locks, log, dir, release)
			}
			text := fmt.Sprintf("version: 1\nreplica: {session_ttl: 4s, drain_timeout: 5s}\nstore: {driver: %s, dsn: %q}\nlock: %s\npools:\n  readers:%s  writers:%s  slots:%s",
				dialect, dsn, strings.Replace(strings.ReplaceAll(lock, "ttl: 10s", "ttl: 4s"), "session_timeout: 10s", "session_timeout: 4s", 1),
				pool("{key: schema, mode: shared}"), pool("schema"), pool("{key: uplink, limit: 2}"))
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			replicas := map[string]*replica{}
			for _, id := range []string{"r1", "r2", "r3"} {
				replicas[id] = startReplica(t, config, id)
			}
			any := replicas["r1"]
			any.enqueue(t, "readers", 3)
			program.Within(t, 20*time.Second, "all readers run", func() bool { return len(any.tasks(t, "readers", "running")) == 3 })
			writer, slots := any.enqueue(t, "writers", 1), any.enqueue(t, "slots", 5)
			var running []task
			program.Within(t, 20*time.Second, "two of the limited run, and the others wait, as the writer does", func() bool {
				running = any.tasks(t, "slots", "running")
				return len(running) == 2 && waitsFor(t, any, slots[4], "waits for lock uplink") && waitsFor(t, any, writer[0], "waits for lock schema")
			})
			program.Within(t, 20*time.Second, "their commands have begun", func() bool {
				text, _ := os.ReadFile(log) // the first one makes it
				return strings.Count(string(text), "begin ") == 5
			})
			victim := running[0].Replica
			replicas[victim].Kill(t)
			delete(replicas, victim)
			for _, other := range replicas {
				any = other
			}
			note(t, log, "killed "+victim)
			program.Within(t, 30*time.Second, "others have the place", func() bool {
				running = any.tasks(t, "slots", "running")
				return len(running) == 2 && running[0].Replica != victim && running[1].Replica != victim
			})
			if err := os.WriteFile(release, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for pool, n := range map[string]int{"readers": 3, "writers": 1, "slots": 5} {
				program.Within(t, 60*time.Second, "all have succeeded", func() bool { return len(any.tasks(t, pool, "succeeded")) == n })
			}
			heldTogether(t, log)
		})
	}
}

// note appends a line to the log.
func note(t *testing.T, log, line string) {
	t.Helper()
	file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(file, line); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// heldTogether holds that what ran at one time may hold its lock together.
func heldTogether(t *testing.T, log string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	inside := map[string]map[string]string{"readers": {}, "writers": {}, "slots": {}} // by pool and task, the replica
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[0] == "killed" {
			for _, tasks := range inside {
				for id, replica := range tasks {
					if replica == words[1] {
						delete(tasks, id)
					}
				}
			}
			continue
		}
		pool, replica, id := words[1], words[2], words[3]
		switch by, is := inside[pool][id]; {
		case words[0] == "begin" && !is:
			inside[pool][id] = replica
		case words[0] == "end" && by == replica:
			delete(inside[pool], id)
		default:
			t.Fatalf("%q while %v run:\n%s", line, inside, text)
		}
		if readers, writers := len(inside["readers"]), len(inside["writers"]); writers > 1 || writers > 0 && readers > 0 || len(inside["slots"]) > 2 {
			t.Errorf("after %q these run: %v\n%s", line, inside, text)
		}
	}
}
