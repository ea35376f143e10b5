package compat

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A replica of this program joins those of the one before and brings the tables up to date under
// them; both go on deciding due times and working through pools, each due time once; the one before
// still starts on the new tables, and goes on alone after the way back.
func TestOneByOneAndBack(t *testing.T) {
	if endsCompatibility(t) {
		t.Log("the newest migration ends the compatibility with the program before: see TestAllAtOnce")
		return
	}
	before, genuine := buildPrevious(t)
	now := build(t, root, "now")
	for driver, dsn := range map[string]string{"sqlite": "lockstep.db", "mysql": servers.MySQL(t)} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "lockstep.yaml")
			if err := os.WriteFile(config, fmt.Appendf(nil, `version: 1
store: {driver: %s, dsn: %q}
pools:
  work: {workers: 2, max_running: 2, command: [sleep, "0.02"]}
jobs:
  each-second: {schedule: "* * * * * *", concurrency: allow, command: ["true"]}
`, driver, dsn), 0o600); err != nil {
				t.Fatal(err)
			}
			if !genuine {
				up := exec.Command(now, "migrate", "up", "-c", config)
				up.Dir = filepath.Dir(config)
				if out, err := up.CombinedOutput(); err != nil {
					t.Fatalf("migrate up: %v\n%s", err, out)
				}
			}
			old1 := start(t, before, config, "old-1")
			works(t, old1)

			new1 := start(t, now, config, "new-1")
			if n := pending(t, now, config) + unknown(t, now, config); n != 0 {
				t.Errorf("after the new program's start %d migrations are pending or unknown to it", n)
			}
			if n := unknown(t, before, config); n < 1 {
				t.Error("the program before knows the newest migration")
			}
			works(t, old1, new1)

			old2 := start(t, before, config, "old-2") // somebody's machine restarts meanwhile
			works(t, old1, old2, new1)
			old1.drain(t)
			old2.drain(t)
			works(t, new1)

			old3 := start(t, before, config, "old-3") // and back
			new1.drain(t)
			works(t, old3)
			eachSecondOnce(t, old3)
		})
	}
}

// works holds that each replica does its part of what is enqueued through each of them, and decides
// or runs due times.
func works(t *testing.T, replicas ...*replica) {
	t.Helper()
	began := time.Now()
	seen := map[string]map[string]bool{"work": {}, "each-second": {}}
	program.Within(t, 30*time.Second, "every replica works on the pool, and due times are run", func() bool {
		for _, r := range replicas {
			if _, err := r.Enqueue(t.Context(), slices.Repeat([]jobs.NewTask{{Pool: "work"}}, 20)...); err != nil {
				t.Fatalf("enqueue at %s: %v", r.id, err)
			}
		}
		time.Sleep(200 * time.Millisecond) // let them have some of it
		tasks, err := replicas[0].Tasks(t.Context(), wire.TaskFilter{State: jobs.StateSucceeded, Page: wire.Page{Limit: 500}})
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks.Items {
			if !task.StartedAt.Before(began) && task.Job == "" {
				seen["work"][task.Replica] = true
			} else if !task.StartedAt.Before(began) {
				seen[task.Job][task.Replica] = true
			}
		}
		return len(seen["work"]) == len(replicas) && len(seen["each-second"]) > 0
	})
	t.Logf("with %d replicas: %v", len(replicas), seen)
}

// eachSecondOnce reads the ledger: from its first second to its last, none is missing, and each ran.
func eachSecondOnce(t *testing.T, r *replica) {
	t.Helper()
	list, err := r.Triggers(t.Context(), wire.TriggerFilter{Job: "each-second", Page: wire.Page{Limit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for _, row := range list.Items { // latest first
		if !last.IsZero() && last.Sub(row.At) != time.Second {
			t.Errorf("between %v and %v there is no second", row.At, last)
		}
		if row.Outcome != "" && row.Outcome != jobs.Ran {
			t.Errorf("%v is %s: %s", row.At, row.Outcome, row.Reason)
		}
		last = row.At
	}
	if len(list.Items) < 5 || len(list.Items) == 500 {
		t.Errorf("the ledger shows %d seconds", len(list.Items))
	}
}

type step struct {
	AppliedAt string `json:"applied_at"`
	Newer     bool   `json:"newer"`
}

func migrations(t *testing.T, program, config string, counts func(step) bool) (n int) {
	t.Helper()
	cmd := exec.Command(program, "migrate", "status", "-c", config, "-o", "json")
	cmd.Dir = filepath.Dir(config)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	if err := json.Unmarshal(out, &steps); err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if counts(s) {
			n++
		}
	}
	return n
}

func pending(t *testing.T, program, config string) int {
	return migrations(t, program, config, func(s step) bool { return s.AppliedAt == "" })
}

func unknown(t *testing.T, program, config string) int {
	return migrations(t, program, config, func(s step) bool { return s.Newer })
}
