package work

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// A walk of a lookout passes the tasks that there are, and begins again lookAgain later, in turn with looks behind.
func TestALookoutWalksAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	type past = map[int]time.Time
	var l lookout
	step := func(want past, seen ledger.Seen, nothing bool) {
		t.Helper()
		got := l.ask(now)
		if len(got) != len(want) || !got[0].Equal(want[0]) || !got[3].Equal(want[3]) {
			t.Errorf("it asks with %v, not %v", got, want)
		}
		l.tell(now, seen)
		if l.nothing != nothing || l.work != seen.Work {
			t.Errorf("there is nothing: %t, work is %v", l.nothing, l.work)
		}
	}
	end, work := ledger.Seen{}, &ledger.Window{}
	step(nil, end, true)
	now = now.Add(time.Hour) // nothing was passed: there is nothing to walk
	step(nil, ledger.Seen{Past: past{3: at(1)}}, false)
	step(past{3: at(1)}, ledger.Seen{Past: past{0: at(2), 3: at(4)}}, false)
	step(past{0: at(2), 3: at(4)}, end, true)
	now = now.Add(lookAgain - 1)
	step(past{0: at(2), 3: at(4)}, ledger.Seen{Work: work}, false)
	now = now.Add(1)
	step(nil, ledger.Seen{Past: past{3: at(4)}}, false)                      // again
	step(past{0: at(2), 3: at(4)}, ledger.Seen{Past: past{0: at(5)}}, false) // behind
	step(past{3: at(4)}, ledger.Seen{Work: work}, false)                     // again
	step(past{0: at(5), 3: at(4)}, end, false)                               // behind
	step(past{3: at(4)}, end, true)                                          // again, to the end: what was passed of 0 is gone
	step(past{3: at(4)}, end, true)
	now = now.Add(lookAgain)
	step(nil, end, true)
	now = now.Add(lookAgain)
	step(nil, end, true)
}
