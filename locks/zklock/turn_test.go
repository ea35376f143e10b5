package zklock

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
)

// Where others wait, giving a key back and taking the next place is one request, and the rest of the call reads.
func TestATurnIsOneRequest(t *testing.T) {
	t.Parallel()
	a, b, _, way := between(t, "turn")
	held := lockstest.Grant(t, b, "k")
	mine, theirs := queuesUp(t, a, driver.Want{Key: "k"}), driver.Place{}
	theirs = queuesUp(t, b, driver.Want{Key: "k"})
	results, err := a.Look(t.Context(), []driver.Place{mine}) // it sees who is behind
	if err != nil || !results[0].Queued {
		t.Fatalf("%+v, %v", results, err)
	}
	lets(t, b, held)
	held = isGranted(t, a, mine)
	sent := noted(way)
	next := driver.Place{Acquisition: rand.Text(), Key: "k"}
	r, err := a.Acquire(t.Context(), next.Acquisition, []driver.Held{held}, lockstest.Wants("k"))
	if err != nil || !r[0].Queued {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := sent.take(); len(got) == 0 || got[0] != multi || strings.Contains(fmt.Sprint(got[1:]), fmt.Sprint(multi)) {
		t.Errorf("requests %v, want one that changes something", got)
	}
	way.hold(nil)
	last := held
	held = isGranted(t, b, theirs)
	lets(t, a, last) // late
	lockstest.Holds(t, b, held, true)
	lets(t, b, held)
	isGranted(t, a, next)
}

// Nobody waits any more when the key is given back: the one that gives it back and asks for it is granted at once.
func TestATurnWithNobodyElse(t *testing.T) {
	t.Parallel()
	a, b, _, _ := between(t, "turn-alone")
	held := lockstest.Grant(t, b, "k")
	mine := queuesUp(t, a, driver.Want{Key: "k"})
	theirs := queuesUp(t, b, driver.Want{Key: "k"})
	if _, err := a.Look(t.Context(), []driver.Place{mine}); err != nil {
		t.Fatal(err)
	}
	lets(t, b, held)
	held = isGranted(t, a, mine)
	abandons(t, b, theirs)
	r, err := a.Acquire(t.Context(), rand.Text(), []driver.Held{held}, lockstest.Wants("k"))
	if err != nil || r[0].Token <= held.Token {
		t.Errorf("%+v, %v: want it granted after %d", r, err, held.Token)
	}
}
