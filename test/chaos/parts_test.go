package chaos

import (
	"flag"
	"fmt"
	"slices"
	"sync"
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

// mostWindows is how many windows one run has. In all pairs there are a thousand in a cell: its disks
// would be full, and nothing could be judged, before they are over.
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

// queue hands out parts, the longest first: so that in the end no lane is left alone with a long one.
type queue struct {
	mu   sync.Mutex
	rest []part
}

func newQueue(all []part) *queue {
	q := &queue{rest: slices.Clone(all)}
	slices.SortStableFunc(q.rest, func(a, b part) int { return len(b.faults) - len(a.faults) })
	return q
}

func (q *queue) next() (p part, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.rest) == 0 {
		return part{}, false
	}
	p, q.rest = q.rest[0], q.rest[1:]
	return p, true
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

func TestQueue(t *testing.T) {
	all := []part{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	for i, windows := range []int{1, 3, 2, 3} {
		all[i].faults = make([][]nemesis.Nemesis, windows)
	}
	q := newQueue(all)
	var order string
	for p, more := q.next(); more; p, more = q.next() {
		order += p.name
	}
	if order != "bdca" {
		t.Errorf("the order is %s", order)
	}
	if all[0].name != "a" {
		t.Error("the list was sorted in place: reports have its order")
	}
}
