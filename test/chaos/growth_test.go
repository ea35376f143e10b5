//go:build linux

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
)

// growth lists what there was more of in the last third of a soak than in the middle one.
func growth(looks []arena.Inventory) (grown []string) {
	middle, end := thirds(looks)
	for _, what := range slices.Sorted(maps.Keys(end)) {
		if end[what] > middle[what]+breath(what) {
			grown = append(grown, fmt.Sprintf("%s grew from %d to %d", what, middle[what], end[what]))
		}
	}
	return grown
}

// thirds are the minima in the middle and in the last third: a leak is never freed, so the minimum grows as
// well.
func thirds(looks []arena.Inventory) (middle, end arena.Inventory) {
	third := len(looks) / 3
	return least(looks[third : 2*third]), least(looks[2*third:])
}

// breath is by how much the minima of two periods of ten minutes may differ.
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

// What leaks is found, a thing at each look; what comes and goes is not.
func TestGrowth(t *testing.T) {
	for what, limit := range map[string]int{
		"fds of r1": 4, "goroutines of r1": 10, "MB of r1": 20, "live MB of r1": 4, "connections of replicas": 4,
		"redis keys": 8, "znodes": 8, "temp files": 4, "commands": 4, "rows past their retention": 0,
	} {
		const looks = 60
		var breathes, leaks []arena.Inventory
		for i := range looks {
			breathes = append(breathes, arena.Inventory{what: 50 + i%3*100})
			leaks = append(leaks, arena.Inventory{what: 50 + i*(limit+1)*3/looks + i%3*100 + i/(looks-looks/3)})
		}
		if grown := growth(breathes); grown != nil {
			t.Errorf("breathes: %q", grown)
		}
		if grown := growth(leaks); len(grown) != 1 || !strings.HasPrefix(grown[0], what) {
			t.Errorf("%s leaks: %q", what, grown)
		}
	}
}
