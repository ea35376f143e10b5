//go:build linux && chaos

package nemesis

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

var (
	cells = flag.String("cells", "", "only these, separated by commas")
	names = flag.String("nemeses", "", "only these, separated by commas")
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// Every nemesis that fits a cell is seen to strike, and leaves nothing broken.
func TestStrikes(t *testing.T) {
	for _, c := range arena.Cells {
		if *cells != "" && !strings.Contains(","+*cells+",", ","+c.String()+",") {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			a := arena.Open(t, c, t.TempDir(), arena.Options{Clocks: true})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			worked := make(chan error, 2)
			go func() { worked <- a.Work(ctx, 1) }()
			go func() { worked <- a.Serve(ctx) }()
			r := rand.New(rand.NewPCG(1, 1))
			for _, n := range Fitting(c) {
				if *names == "" || strings.Contains(","+*names+",", ","+n.Name+",") {
					strikeOnce(t, a, n, r)
				}
			}
			cancel()
			for range cap(worked) {
				if err := <-worked; err != nil {
					t.Error(err)
				}
			}
			if t.Failed() {
				keep(t, a.Dir)
			}
		})
	}
}

const brief = 4 * time.Second

func strikeOnce(t *testing.T, a *arena.Arena, n Nemesis, r *rand.Rand) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	struck, err := n.Strike(ctx, a, r)
	if err != nil {
		t.Errorf("%s: strike: %v", n.Name, err)
		return
	}
	hold := brief
	if n.Name == "zk-session-expired" || n.Name == "twin" {
		hold = n.Hold
	}
	time.Sleep(hold)
	healing := time.Now()
	applied, evidence, err := struck.Heal(ctx)
	if !applied || err != nil {
		t.Errorf("%s: applied %t, %v: %s", n.Name, applied, err, evidence)
	}
	healed := time.Now()
	if err := a.WaitReady(ctx); err != nil {
		t.Errorf("%s: %v", n.Name, err)
	}
	t.Logf("%s %-22s strike %5dms, heal %5dms, ready %5dms: %s", began.UTC().Format("15:04:05"), n.Name, healing.Sub(began).Milliseconds()-hold.Milliseconds(),
		healed.Sub(healing).Milliseconds(), time.Since(healed).Milliseconds(), evidence)
}

// keep copies the logs to where they stay.
func keep(t *testing.T, dir string) {
	to, err := os.MkdirTemp("", "lockstep-strikes-")
	if err != nil {
		t.Error(err)
		return
	}
	if err := os.CopyFS(filepath.Join(to, "run"), os.DirFS(dir)); err != nil {
		t.Error(err)
	}
	t.Logf("artifacts: %s", to)
}
