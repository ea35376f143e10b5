//go:build linux

package chaos

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

func TestMain(m *testing.M) {
	flag.Usage = func() {} // what is wrong with a flag is one line, not the last but a hundred
	os.Exit(program.Main(m))
}

// Two cells hold under the most likely faults. The smoke run allows for a machine that builds and tests other
// things at the same time: make chaos checks the times. The replicas of one cell have the race detector: those on SQLite, whose transactions run in them,
// would answer too few calls in the time that there is.
func TestSmoke(t *testing.T) {
	dir := folder(t)
	for _, smoke := range []struct {
		cell   arena.Cell
		faults string // windows, with commas
		binary func(testing.TB) string
	}{
		{arena.Cell{Store: arena.SQLite, Lock: arena.SQLite}, "kill-parent/worker-killed,sigstop-parent,reload,kill-group/worker-frozen", arena.Plain},
		{arena.Cell{Store: arena.MariaDB, Lock: arena.Redis}, "kill-parent/worker-frozen,sigstop-group/worker-cut,redis-restarted-empty,cut-store", arena.Race},
	} {
		t.Run(smoke.cell.String(), func(t *testing.T) { // one after the other: replicas with the race detector are many for two processors
			p := plan{
				cell: smoke.cell, seed: 1, dir: filepath.Join(dir, smoke.cell.String()), healthy: 2 * time.Second, window: 6 * time.Second,
				slack: 15 * time.Second, minimum: history.Minimum{Triggers: 50, Tasks: 100},
				arena: arena.Options{Binary: smoke.binary},
			}
			windows, err := windowsNamed(smoke.faults, []arena.Cell{smoke.cell})
			if err != nil {
				t.Fatal(err)
			}
			p.faults = windows[smoke.cell]
			run(t, p)
			report := judged(t, p.dir)
			t.Log(report)
			if r := report.Run; r.Files[history.AuditFile] == 0 || r.Files[history.FinalFile] == 0 || r.Cores == 0 || r.Load == 0 {
				t.Errorf("%s does not say what the run left, or how busy the machine was: %v, load %v of %d processors", history.RunFile, r.Files, r.Load, r.Cores)
			}
			if !report.OK() {
				t.Errorf("%d violations of %v", len(report.Violations), report.Broken())
			}
		})
	}
}

// folder is the folder of the artifacts: CHAOS_DIR, else a new folder that stays only if the test fails, and
// has something in it. The last lines of a failed test name it.
func folder(t testing.TB) string {
	t.Helper()
	dir, stays := os.Getenv("CHAOS_DIR"), true
	var err error
	if dir == "" {
		stays = false
		dir, err = os.MkdirTemp("", "lockstep-chaos-")
	} else {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		found, _ := os.ReadDir(dir)
		switch {
		case t.Failed() && len(found) > 0:
			t.Logf("artifacts: %s; go run ./test/chaos/cmd/chaos check %s judges them again", dir, filepath.Join(dir, "*")+"/")
		case stays:
		default:
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
	})
	return dir
}
