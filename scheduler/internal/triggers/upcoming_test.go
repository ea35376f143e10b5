package triggers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func TestUpcomingIsInOrder(t *testing.T) {
	u := newUpcoming()
	start := time.Unix(0, 0)
	model := map[string]time.Time{}
	for range 5000 {
		name := fmt.Sprint("job", rand.IntN(300))
		at := start.Add(time.Duration(1+rand.IntN(1000)) * time.Second)
		if rand.IntN(5) == 0 {
			at = time.Time{}
			delete(model, name)
		} else {
			model[name] = at
		}
		u.set(name, at, false)
	}
	all := func(string) bool { return true }
	for now := start; len(model) > 0; now = now.Add(50 * time.Second) {
		got := u.take(now, 1000, all)
		if !slices.IsSortedFunc(got, func(a, b string) int { return model[a].Compare(model[b]) }) {
			t.Fatal("not by time")
		}
		for _, name := range got {
			if model[name].After(now) {
				t.Fatalf("%s was taken early", name)
			}
			delete(model, name)
		}
		for name, at := range model {
			if !at.After(now) {
				t.Fatalf("%s was due at %v and not taken at %v", name, at, now)
			}
		}
	}
	if _, ok := u.next(); ok {
		t.Error("something is left")
	}
}

func TestUpcomingForgetsWhatIsNotWanted(t *testing.T) {
	u := newUpcoming()
	u.set("a", time.Unix(1, 0), false)
	u.set("b", time.Unix(2, 0), false)
	got := u.take(time.Unix(5, 0), 10, func(job string) bool { return job == "b" })
	if !slices.Equal(got, []string{"b"}) {
		t.Errorf("took %v", got)
	}
	if _, ok := u.next(); ok {
		t.Error("the unwanted one is still there")
	}
}

// A job with a due time that waits for the slot is looked at once that is free, and no other job is.
func TestOnlyWhatWaitsForASlotIsLookedAtWhenItIsFree(t *testing.T) {
	now, second := replicatest.Time("12:00:05"), time.Second
	for what, c := range map[string]struct {
		at    time.Time // zero: nothing of the job is due
		waits bool
		freed bool
		next  time.Time
	}{
		"a due time waits":           {now.Add(second / 2), true, true, now},
		"it is looked at right now":  {now.Add(-second / 2), true, true, now.Add(-second / 2)},
		"the next due time is later": {now.Add(second), false, false, now.Add(second)},
		"nothing will be due":        {time.Time{}, false, false, time.Time{}},
	} {
		u := newUpcoming()
		u.set("j", c.at, c.waits)
		u.set("other", now.Add(second/4), false)
		if u.free("j", now) != c.freed {
			t.Errorf("%s: freed: %v", what, !c.freed)
		}
		if at, _ := u.next(); c.freed && !at.Equal(c.next) {
			t.Errorf("%s: the first look is at %v, want %v", what, at, c.next)
		}
		u.set("other", time.Time{}, false)
		if at, _ := u.next(); !at.Equal(c.next) {
			t.Errorf("%s: the job is looked at at %v, want %v", what, at, c.next)
		}
	}
}

// If the slot is freed while the job is decided, a due time that waits then is looked at once more, and at once.
func TestASlotThatIsFreedMeanwhile(t *testing.T) {
	start, second := replicatest.Time("12:00:05"), time.Second
	for what, c := range map[string]struct {
		freed bool
		at    time.Time // set by the decision
		waits bool
		next  time.Time
	}{
		"a due time waits":                   {true, start.Add(2 * second), true, start.Add(second)},
		"it would be looked at sooner":       {true, start.Add(second / 2), true, start.Add(second / 2)},
		"the next due time is later":         {true, start.Add(2 * second), false, start.Add(2 * second)},
		"nothing will be due":                {true, time.Time{}, false, time.Time{}},
		"a due time waits, and still has to": {false, start.Add(2 * second), true, start.Add(2 * second)},
	} {
		u := newUpcoming()
		decided := u.begin()
		if c.freed && u.free("j", start.Add(second)) {
			t.Errorf("%s: there is something to look at before it is known", what)
		}
		u.set("j", c.at, c.waits)
		decided()
		if at, _ := u.next(); !at.Equal(c.next) {
			t.Errorf("%s: the next look is at %v, want %v", what, at, c.next)
		}
		u.set("j", start.Add(9*second), true) // that was for one look
		u.begin()()
		if at, _ := u.next(); !at.Equal(start.Add(9 * second)) {
			t.Errorf("%s: the look after it is at %v", what, at)
		}
		if !u.free("j", start) {
			t.Errorf("%s: it is taken for being decided still", what)
		}
	}
}

// If the slot is freed while rows are read, what a row says of it may be older: the job is looked at when the slot was freed,
// however many read.
func TestASlotThatIsFreedWhileRowsAreRead(t *testing.T) {
	start := replicatest.Time("12:00:05")
	for others := range 2 {
		u := newUpcoming()
		u.set("j", start.Add(time.Second), true)
		read := u.begin()
		for range others {
			u.begin()()
		}
		u.free("j", start)
		u.set("j", start.Add(time.Second), true) // as the row was
		read()
		if at, _ := u.next(); !at.Equal(start) {
			t.Errorf("beside %d others: the next look is at %v", others, at)
		}
		u.set("j", start.Add(time.Second), true)
		u.begin()()
		if at, _ := u.next(); !at.Equal(start.Add(time.Second)) {
			t.Errorf("what was freed before is looked at once more, at %v", at)
		}
	}
}

// A slot that was freed before rows are read, and that no decision has looked at since, is not forgotten for what a row says.
func TestASlotThatIsFreedBeforeRowsAreRead(t *testing.T) {
	start := replicatest.Time("12:00:05")
	for what, c := range map[string]struct {
		freed bool
		row   time.Time
		next  time.Time
	}{
		"freed":                   {true, start.Add(time.Second), start},
		"not freed":               {false, start.Add(time.Second), start.Add(time.Second)},
		"the row says sooner":     {true, start.Add(-time.Second), start.Add(-time.Second)},
		"nothing is due any more": {true, time.Time{}, time.Time{}},
	} {
		u := newUpcoming()
		u.set("j", start.Add(time.Second), true)
		if c.freed {
			u.free("j", start)
		}
		read := u.begin()
		u.learn("j", c.row, true)
		read()
		if at, _ := u.next(); !at.Equal(c.next) {
			t.Errorf("%s: the next look is at %v, want %v", what, at, c.next)
		}
	}
}

// What is freed in one of two decisions that go on side by side is looked at after each of them that began before.
func TestASlotThatIsFreedInTwoDecisions(t *testing.T) {
	start := replicatest.Time("12:00:05")
	u := newUpcoming()
	first, second := u.begin(), u.begin()
	u.free("j", start)
	third := u.begin()
	u.set("j", start.Add(time.Second), false)
	first()
	u.set("j", start.Add(time.Second), true)
	third()
	if at, _ := u.next(); !at.Equal(start.Add(time.Second)) {
		t.Errorf("a decision that began later knows of it: the next look is at %v", at)
	}
	second()
	if at, _ := u.next(); !at.Equal(start) {
		t.Errorf("the next look is at %v", at)
	}
}

// At most so many are taken, the earliest ones; the others stay, and so do those that are not due.
func TestUpcomingTakesNoMoreThanItIsAskedFor(t *testing.T) {
	u := newUpcoming()
	for name, at := range map[string]int64{"a": 1, "b": 2, "c": 3, "d": 4, "later": 9} {
		u.set(name, time.Unix(at, 0), false)
	}
	for _, want := range [][]string{{"a", "b"}, {"c", "d"}, nil} {
		if got := u.take(time.Unix(5, 0), 2, func(string) bool { return true }); !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	}
	if at, left := u.next(); !left || at.Unix() != 9 {
		t.Errorf("next is %v, %t", at, left)
	}
}

// The end of a run wakes fire if a due time waits for the job's slot, and not if the task will be tried again.
func TestWhatARecordedResultWakes(t *testing.T) {
	for _, c := range []struct {
		job   string
		state jobs.State
		wakes bool
	}{
		{"j", jobs.StateSucceeded, true}, {"j", jobs.StateFailed, true}, {"j", jobs.StateLost, true}, {"j", jobs.StateCancelled, true},
		{"j", jobs.StatePending, false}, {"k", jobs.StateSucceeded, false}, {"", jobs.StateSucceeded, false},
	} {
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		s.triggers.upcoming.set("j", time.Now().Add(time.Hour), true) // a due time waits for the slot
		s.triggers.upcoming.set("k", time.Now().Add(time.Hour), false)
		s.triggers.Recorded(c.job, c.state)
		if wakes := len(s.triggers.wakeFire) > 0; wakes != c.wakes {
			t.Errorf("job %q is %s: fire is woken: %t", c.job, c.state, wakes)
		}
	}
}
