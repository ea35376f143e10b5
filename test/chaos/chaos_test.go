package chaos

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// Two cells stand up to what most likely happens to them. The smoke allows for a machine that builds
// and tests other things at the same time: how long things take is for make chaos to judge.
func TestSmoke(t *testing.T) {
	dir := folder(t)
	for _, smoke := range []struct {
		cell   arena.Cell
		faults []string
	}{
		{arena.Cell{Store: arena.SQLite, Lock: arena.SQLite}, []string{"kill-parent", "sigstop-parent", "kill-group"}},
		{arena.Cell{Store: arena.MariaDB, Lock: arena.Redis}, []string{"kill-parent", "sigstop-group", "redis-restarted-empty", "cut-store"}},
	} {
		t.Run(smoke.cell.String(), func(t *testing.T) {
			t.Parallel()
			p := Plan{
				Cell: smoke.cell, Seed: 1, Dir: filepath.Join(dir, smoke.cell.String()), Healthy: 2 * time.Second, Window: 6 * time.Second,
				Slack: 15 * time.Second, Minimum: history.Minimum{Triggers: 50, Tasks: 100},
			}
			for _, name := range smoke.faults {
				n, err := nemesis.Named(name)
				if err != nil {
					t.Fatal(err)
				}
				p.Faults = append(p.Faults, []nemesis.Nemesis{n})
			}
			if err := os.MkdirAll(p.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
			Run(t, p)
			report := Judged(t, p.Dir)
			t.Log(report)
			if !report.OK() {
				t.Errorf("%d violations of %v", len(report.Violations), report.Broken())
			}
		})
	}
}

// folder is where artifacts go: what CHAOS_DIR names, else a new folder that stays only if the test
// fails.
func folder(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("CHAOS_DIR"); dir != "" {
		return dir
	}
	dir, err := os.MkdirTemp("", "lockstep-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("artifacts: %s; go run ./test/chaos/cmd/chaos check %s judges them again", dir, filepath.Join(dir, "*"))
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
