//go:build chaos

package chaos

import (
	"flag"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
)

var soak = flag.Duration("soak", 30*time.Minute, "how long the soak lasts")

// A long time under faults leaves nothing behind: descriptors, goroutines, memory, keys and files are
// as many as at the beginning, and what is older than its retention is gone. Nor does anything grow
// on the way: faults that end replicas come in the first third only, so that the others have time.
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
			third := len(looks) / 3
			middle, end := least(looks[third:2*third]), least(looks[2*third:])
			for _, what := range slices.Sorted(maps.Keys(end)) {
				t.Logf("%s: %d in the middle third, %d in the last", what, middle[what], end[what])
				if end[what] > middle[what]+breath(what) {
					t.Errorf("%s grew from %d to %d", what, middle[what], end[what])
				}
			}
		})
	}
}

// breath is by how much the least of two stretches of ten minutes may differ: what leaks is never given
// back, so the least grows as well.
func breath(what string) int {
	switch kind, _, _ := strings.Cut(what, " of "); kind {
	case "goroutines": // of calls that are under way
		return 10
	case "fds", "connections", "live MB", "helpers", "commands", "temp files":
		return 4
	case "MB":
		return 20
	case "rows past their retention":
		return 0
	}
	return 8
}

// least is the fewest that was seen of each thing.
func least(looks []arena.Inventory) arena.Inventory {
	all := arena.Inventory{}
	for _, n := range looks {
		for what, count := range n {
			if seen, there := all[what]; !there || count < seen {
				all[what] = count
			}
		}
	}
	return all
}
