package compat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	steps "github.com/lockstep-scheduler/lockstep/migrations"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// endsCompatibility reports whether the newest migration excludes the program before it.
func endsCompatibility(t *testing.T) bool {
	t.Helper()
	all, err := steps.For("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	newest := all[len(all)-1]
	return newest.MinCompatible == newest.Version
}

// Where the newest migration ends the compatibility: a replica of this program does not start beside one of the program before, nor is
// anything migrated; once that one has ended it does, with all that the tables hold; and the one before does not start any more.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	if !endsCompatibility(t) {
		t.Log("tables serve the program before, too: TestOneByOneAndBack has replicas of both")
		return
	}
	before, genuine := buildPrevious(t)
	if !genuine {
		t.Log("without the program before, this one with its newest migration hidden would need the tables that it hides: nothing to try")
		return
	}
	now := build(t, root, "now")
	for driver, dsn := range map[string]string{"sqlite": "lockstep.db", "mysql": servers.MySQL(t)} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			config := filepath.Join(t.TempDir(), "lockstep.yaml")
			if err := os.WriteFile(config, fmt.Appendf(nil, `version: 1
store: {driver: %s, dsn: %q}
replica: {session_ttl: 3s}
pools:
  work: {workers: 2, max_running: 2, retries: {limit: 0}, command: [sh, "-c", "exit 3"]}
jobs:
  each-second: {schedule: "* * * * * *", concurrency: allow, command: ["true"]}
`, driver, dsn), 0o600); err != nil {
				t.Fatal(err)
			}
			old := start(t, before, config, "old-1")
			left, err := old.Enqueue(t.Context(), jobs.NewTask{Pool: "work"}, jobs.NewTask{Pool: "work", RunAt: time.Now().Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			failed, open := left[0].ID, left[1].ID
			program.Within(t, 30*time.Second, "the task fails and due times are run", func() bool {
				h, err := old.Task(t.Context(), failed)
				return err == nil && h.Task.State == jobs.StateFailed && len(triggers(t, old, "each-second")) > 2
			})

			ended := refuses(t, now, config)
			if !strings.Contains(ended, "Stop all replicas first") || !strings.Contains(ended, "at work: old-1 ") {
				t.Errorf("beside a replica of the program before: %s", ended)
			}
			if n := unknown(t, before, config); n != 0 {
				t.Errorf("%d migrations were applied beside it", n)
			}
			old.drain(t)

			locked := filepath.Join(filepath.Dir(config), "locked.yaml") // what only this program knows
			text, err := os.ReadFile(config)
			if err == nil {
				err = os.WriteFile(locked, append(text, `  locked: {command: ["true"], locks: [orders-db]}`+"\n"...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			new1 := start(t, now, locked, "new-1")
			if n := pending(t, now, config) + unknown(t, now, config); n != 0 {
				t.Errorf("after the new program's start %d migrations are pending or unknown to it", n)
			}
			h, err := new1.Task(t.Context(), failed)
			if err != nil || h.Task.State != jobs.StateFailed || h.Task.Error == "" || h.Task.ReasonCode != "exit_code" {
				t.Errorf("what failed before: %+v, %v", h.Task, err)
			}
			if h, err = new1.Task(t.Context(), open); err != nil || h.Task.State != jobs.StatePending {
				t.Errorf("what was open before: %+v, %v", h.Task, err)
			}
			if _, err := new1.RunJob(t.Context(), "locked"); err != nil {
				t.Fatal(err)
			}
			program.Within(t, 30*time.Second, "a job with a lock runs", func() bool {
				rows := triggers(t, new1, "locked")
				return len(rows) > 0 && rows[0].Outcome == jobs.Ran && rows[0].Result == "succeeded"
			})
			program.Within(t, 30*time.Second, "due times are run", func() bool { return len(triggers(t, new1, "each-second")) > 5 })
			eachSecondOnce(t, new1)

			if ended := refuses(t, before, config); !strings.Contains(ended, "needs a program that knows version") {
				t.Errorf("the program before, on the new tables: %s", ended)
			}
			new1.drain(t)
		})
	}
}

func triggers(t *testing.T, r *replica, job string) []jobs.Trigger {
	t.Helper()
	list, err := r.Triggers(t.Context(), wire.TriggerFilter{Job: job, Page: wire.Page{Limit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// refuses runs a replica that must end by itself, and returns its error.
func refuses(t *testing.T, binary, config string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "serve", "-c", config, "--listen", "127.0.0.1:0", "--id", "refused")
	cmd.Dir = filepath.Dir(config)
	cmd.WaitDelay = 5 * time.Second
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%s ended with %v", filepath.Base(binary), err)
	}
	return string(out)
}
