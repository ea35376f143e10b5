//go:build linux

package nemesis

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// Steps of the database's clock come after all else, and those that leave nothing due for an hour
// after the others, alone and in pairs.
func TestOrder(t *testing.T) {
	for _, c := range arena.Cells {
		var windows [][]Nemesis
		for _, p := range AllPairs(c) {
			windows = append(windows, p[:])
		}
		for _, n := range Fitting(c) {
			windows = append(windows, []Nemesis{n})
		}
		slices.SortStableFunc(windows, func(a, b []Nemesis) int { return Order(a) - Order(b) })
		var steps []string // of each window: none, some, far
		for _, w := range windows {
			step := "none"
			for _, n := range w {
				switch {
				case n.Name == "mariadb-clock+1h", n.Name == "machine-clock+1h":
					step = "far"
				case step == "none" && (strings.HasPrefix(n.Name, "mariadb-clock") || strings.HasPrefix(n.Name, "machine-clock")):
					step = "some"
				}
			}
			steps = append(steps, step)
		}
		if got := slices.Compact(steps); !slices.Equal(got, []string{"none", "some", "far"}) {
			t.Errorf("%s: %v", c, got)
		}
	}
}
