package ledger_test

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

func TestADueTimeThatWaits(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := at.Add(3 * time.Minute)
	d := ledger.Decision{Job: "j", NextAt: at.Add(time.Hour), Due: at.Add(time.Hour)}
	d.Wait(at, now)
	if !d.Waiting.Equal(at) || !d.Cursor.Before(at) || !d.NextAt.Equal(now.Add(time.Second)) || !d.Due.IsZero() {
		t.Errorf("%+v", d)
	}
}

// A row knows the due time that waits for its slot, or the one that starts at next; what a program left there that knows no jitter does not count.
func TestUndecided(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	for what, c := range map[string]struct{ cursor, due, next, waiting, at, start time.Time }{
		"nothing":                     {cursor: at(1)},
		"the next one":                {cursor: at(1), next: at(2), at: at(2)},
		"one that starts later":       {cursor: at(1), due: at(2), next: at(3), at: at(2), start: at(3)},
		"one that starts at once":     {cursor: at(1), due: at(2), next: at(2), at: at(2), start: at(2)},
		"one that waits":              {cursor: at(1), next: at(9), waiting: at(2), at: at(2)},
		"one that waits, with jitter": {cursor: at(1), due: at(8), next: at(9), waiting: at(2), at: at(2)},
		"a due time of the past":      {cursor: at(2), due: at(2), next: at(3), at: at(3)},
		"a due time after the start":  {cursor: at(1), due: at(4), next: at(3), at: at(3)},
		"of a retired job":            {cursor: at(1), due: at(2)},
	} {
		if got, start := ledger.Undecided(c.cursor, c.due, c.next, c.waiting); !got.Equal(c.at) || !start.Equal(c.start) {
			t.Errorf("%s: at %v, starts %v; want %v and %v", what, got, start, c.at, c.start)
		}
	}
}

// What a row has of the first due time after a cursor: without starts of its own the due time alone.
func TestComing(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d := ledger.JobDef{Next: func(t time.Time) time.Time { return t.Add(time.Minute) }}
	if due, next := d.Coming(at); !due.IsZero() || !next.Equal(at.Add(time.Minute)) {
		t.Errorf("without starts: %v, %v", due, next)
	}
	d.Due, d.Next = d.Next, func(t time.Time) time.Time { return t.Add(61 * time.Second) }
	if due, next := d.Coming(at); !due.Equal(at.Add(time.Minute)) || !next.Equal(at.Add(61*time.Second)) {
		t.Errorf("with starts: %v, %v", due, next)
	}
	d.Next = func(time.Time) time.Time { return time.Time{} }
	d.Due = d.Next
	if due, next := d.Coming(at); !due.IsZero() || !next.IsZero() {
		t.Errorf("after the last one: %v, %v", due, next)
	}
}
