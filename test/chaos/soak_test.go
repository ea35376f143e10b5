//go:build chaos

package chaos

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
)

var soak = flag.Duration("soak", 30*time.Minute, "how long the soak lasts")

// A long time under faults leaves nothing behind: descriptors, goroutines, memory, keys and files are
// as many as at the beginning, and what is older than its retention is gone.
func TestSoak(t *testing.T) {
	const period = 30 * time.Second // of faults
	choose(t)
	for _, c := range chosenCells(t) {
		t.Run(c.String(), func(t *testing.T) {
			all := slices.DeleteFunc(nemesis.Fitting(c), func(n nemesis.Nemesis) bool { return n.Clocks })
			r := rand.New(rand.NewPCG(*seed, 2))
			p := Plan{
				Cell: c, Seed: *seed, Dir: filepath.Join(folder(t), c.String()), Healthy: 18 * time.Second, Window: 10 * time.Second, Slack: *slack,
				Minimum: history.Minimum{Triggers: int(*soak / time.Second), Tasks: int(*soak / time.Second)},
				Arena:   arena.Options{Retention: max(*soak/6, time.Minute), WhenDown: *whenDown},
			}
			for range *soak / period {
				p.Faults = append(p.Faults, []nemesis.Nemesis{all[r.IntN(len(all))]})
			}
			carryOut(t, p)
		})
	}
}
