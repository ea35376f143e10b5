//go:build linux

package chaos

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
)

// part is some of the windows of a cell, in a run of their own.
type part struct {
	name   string // of its folder, and of its test
	cell   arena.Cell
	faults [][]nemesis.Nemesis
}

// mostWindows is how many windows one run has. All pairs of a cell are a thousand: its disks would be full
// before they are over, and nothing could be judged.
const mostWindows = 100

func parts(c arena.Cell, windows [][]nemesis.Nemesis) (all []part) {
	for faults := range slices.Chunk(windows, mostWindows) {
		name := c.String()
		if len(windows) > mostWindows {
			name = fmt.Sprintf("%s/%02d", c, len(all)+1)
		}
		all = append(all, part{name, c, faults})
	}
	return all
}

// lanes is how many parts run at a time: the flag -parallel of go test.
func lanes() int { return flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int) }

// length is about how long a part takes, in windows; it is opened and drained in the time of two.
func (p part) length() int { return len(p.faults) + 2 }

// packed deals parts out to n lanes that take about as long as each other, the longest part of each first.
func packed(all []part, n int) [][]part {
	dealt := make([][]part, n)
	for i := range dealt {
		total := 0
		for _, p := range all {
			total += p.length()
		}
		dealt[i], all = taken(all, total/(n-i))
		slices.SortStableFunc(dealt[i], func(a, b part) int { return b.length() - a.length() })
	}
	return dealt
}

// taken chooses parts whose length together comes closest to share: a subset sum.
func taken(all []part, share int) (chosen, rest []part) {
	choices := map[int][]bool{0: make([]bool, len(all))} // by their length together
	for i, p := range all {
		for sum, choice := range maps.Clone(choices) {
			if longer := sum + p.length(); choices[longer] == nil {
				choices[longer] = slices.Clone(choice)
				choices[longer][i] = true
			}
		}
	}
	sums := slices.Sorted(maps.Keys(choices))
	sums = sums[min(1, len(sums)-1):] // 0 only if there is nothing to choose from
	best := slices.MinFunc(sums, func(a, b int) int { return max(a-share, share-a) - max(b-share, share-b) })
	for i, p := range all {
		if choices[best][i] {
			chosen = append(chosen, p)
		} else {
			rest = append(rest, p)
		}
	}
	return chosen, rest
}

func TestParts(t *testing.T) {
	cell := arena.Cells[0]
	windows := func(n int) [][]nemesis.Nemesis { return make([][]nemesis.Nemesis, n) }
	if all := parts(cell, windows(mostWindows)); len(all) != 1 || all[0].name != cell.String() || len(all[0].faults) != mostWindows {
		t.Errorf("%d parts of what fits one", len(all))
	}
	all := parts(cell, windows(2*mostWindows+1))
	if len(all) != 3 || all[2].name != cell.String()+"/03" || len(all[2].faults) != 1 {
		t.Errorf("%d parts of %d windows", len(all), 2*mostWindows+1)
	}
}

func TestPacked(t *testing.T) {
	for _, try := range []struct {
		windows []int
		lanes   int
		want    string
	}{
		{[]int{62, 62, 62, 62, 48, 42, 28}, 2, "aefg bcd"},
		{[]int{1, 3, 2, 3}, 2, "ba dc"},
		{[]int{1, 3, 2, 3}, 1, "bdca"},
		{[]int{5, 1, 1}, 3, "b c a"},
		{[]int{5, 5}, 2, "a b"},
	} {
		var all []part
		for i, n := range try.windows {
			all = append(all, part{name: string(rune('a' + i)), faults: make([][]nemesis.Nemesis, n)})
		}
		var got []string
		for _, lane := range packed(all, try.lanes) {
			names := ""
			for _, p := range lane {
				names += p.name
			}
			got = append(got, names)
		}
		if strings.Join(got, " ") != try.want {
			t.Errorf("%v windows in %d lanes: %s, want %s", try.windows, try.lanes, got, try.want)
		}
		if all[0].name != "a" || all[len(all)-1].name != string(rune('a'+len(all)-1)) {
			t.Error("the list was sorted in place: reports have its order")
		}
	}
}

// However parts are chosen, each is run once.
func TestPackedLosesNothing(t *testing.T) {
	for n := range 40 {
		var all []part
		for i := range n + 1 {
			all = append(all, part{name: fmt.Sprint(i), faults: make([][]nemesis.Nemesis, (i*7+n)%mostWindows)})
		}
		for lanes := range min(n+1, 4) {
			seen := map[string]int{}
			for _, lane := range packed(all, lanes+1) {
				for _, p := range lane {
					seen[p.name]++
				}
			}
			for _, p := range all {
				if seen[p.name] != 1 {
					t.Fatalf("%d parts in %d lanes: %s is run %d times", len(all), lanes+1, p.name, seen[p.name])
				}
			}
		}
	}
}
