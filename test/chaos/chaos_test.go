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

func TestSmoke(t *testing.T) {
	for _, cell := range []arena.Cell{{Store: arena.SQLite, Lock: arena.SQLite}, {Store: arena.MariaDB, Lock: arena.Redis}} {
		t.Run(cell.String(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(os.Getenv("CHAOS_DIR"), cell.String())
			if os.Getenv("CHAOS_DIR") == "" {
				dir = t.TempDir()
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			report := Run(t, Plan{Cell: cell, Seed: 1, Dir: dir, Faults: [][]nemesis.Nemesis{{kill}, {kill}}, Window: 6 * time.Second,
				Slack: 3 * time.Second, Minimum: history.Minimum{Triggers: 50, Tasks: 200}})
			t.Log(report)
			if !report.OK() {
				t.Error("violations")
			}
		})
	}
}
