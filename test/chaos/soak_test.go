//go:build linux && chaos

package chaos

import (
	"flag"
	"maps"
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

// A long time under faults leaves nothing behind: descriptors, goroutines, memory, keys and files are as many
// as at the beginning, and rows older than their retention are gone. Nor does anything grow meanwhile: faults
// that end replicas come in the first third only.
func TestSoak(t *testing.T) {
	const period = 30 * time.Second // of faults
	choose(t)
	cells, err := cellsNamed(*onlyCells)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		t.Run(c.String(), func(t *testing.T) {
			all := slices.DeleteFunc(nemesis.Fitting(c), func(n nemesis.Nemesis) bool { return n.Clocks })
			lasting := slices.DeleteFunc(slices.Clone(all), func(n nemesis.Nemesis) bool {
				return slices.Contains(n.Kinds, history.ReplicaDown) || slices.Contains(n.Kinds, history.Restarts)
			})
			r := rand.New(rand.NewPCG(*seed, 2))
			var looks []arena.Inventory
			p := plan{
				cell: c, seed: *seed, dir: filepath.Join(folder(t), c.String()), healthy: 18 * time.Second, window: 10 * time.Second, slack: *slack,
				minimum: history.Minimum{Triggers: int(*soak / time.Second), Tasks: int(*soak / time.Second)},
				arena:   arena.Options{Binary: arena.Plain, Retention: max(*soak/6, time.Minute), WhenDown: *whenDown},
				look:    func(n arena.Inventory) { looks = append(looks, n) },
			}
			for n := range *soak / period {
				from := all
				if n >= *soak/period/3 {
					from = lasting
				}
				p.faults = append(p.faults, []nemesis.Nemesis{from[r.IntN(len(from))]})
			}
			run(t, p)
			held(t, p.dir)
			middle, end := thirds(looks)
			for _, what := range slices.Sorted(maps.Keys(end)) {
				t.Logf("%s: %d in the middle third, %d in the last", what, middle[what], end[what])
			}
			for _, more := range growth(looks) {
				t.Error(more)
			}
		})
	}
}
