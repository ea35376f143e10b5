package jobs

import (
	"testing"
	"time"
)

// From StartsAt on, and before EndsAt: two jobs of which one ends where the other starts have each due time once.
func TestStartsAtAndEndsAt(t *testing.T) {
	for _, spec := range []string{"0 0 * * *", "@daily", "@every 1d", "0 0 * * MON-SUN", "@at 2026-06-03T00:00:00Z"} {
		count := func(starts, ends time.Time) int {
			s, err := Job{Schedule: spec, StartsAt: starts, EndsAt: ends}.Compile("j")
			if err != nil {
				t.Fatal(err)
			}
			due, more := s.Between(monday.Add(-time.Second), monday.Add(4*day), 100)
			n, exact := s.CountBetween(monday.Add(-time.Second), monday.Add(4*day))
			latest := s.Latest(monday.Add(-time.Second), monday.Add(4*day), 100)
			if more || !exact || n != len(due) || len(latest) != n {
				t.Errorf("%s from %v before %v: Between %v, more: %v, CountBetween %d, %v, Latest %v", spec, starts, ends, due, more, n, exact, latest)
			}
			for at := s.Next(time.Time{}); !at.IsZero() && at.Before(monday.Add(5*day)); at = s.Next(at) {
				if at.Before(starts) || !ends.IsZero() && !at.Before(ends) {
					t.Errorf("%s from %v before %v: due at %v", spec, starts, ends, at)
				}
				if starts.IsZero() {
					break
				}
			}
			return n
		}
		middle := monday.Add(2 * day)
		all := 5
		if spec[:3] == "@at" {
			all = 1
		}
		before, after := count(time.Time{}, middle), count(middle, time.Time{})
		if whole := count(time.Time{}, time.Time{}); whole != all || before+after != all {
			t.Errorf("%s: %d due times, %d before and %d from %v on; want %d", spec, whole, before, after, middle, all)
		}
		if n := count(middle.Add(time.Nanosecond), middle.Add(day)); n != 0 {
			t.Errorf("%s: %d due times behind one and before the next", spec, n)
		}
		if n := count(middle, middle.Add(time.Nanosecond)); n != 1 {
			t.Errorf("%s: %d due times at one", spec, n)
		}
	}
}

// Of a schedule that starts at the end of a long time, or ended at its beginning, no more is looked at than that.
func TestBoundsAreCheap(t *testing.T) {
	for what, job := range map[string]Job{
		"starts late":  {Schedule: "* * * * * *", StartsAt: monday.Add(3650*day - time.Minute)},
		"ended early":  {Schedule: "* * * * * *", EndsAt: monday.Add(time.Minute + time.Second)},
		"with moments": {Schedule: "* * * * * *", Schedules: []string{"@at 2026-06-01T00:00:30Z", "@at 2020-01-01T00:00:00Z"}, EndsAt: monday.Add(time.Minute + time.Second)},
	} {
		s, err := job.Compile("j")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if n, exact := s.CountBetween(monday, monday.Add(3650*day)); n < 60 || n > 61 || !exact {
			t.Errorf("%s: %d due times, exact: %v", what, n, exact)
		}
		if due := s.Latest(monday, monday.Add(3650*day), 5); len(due) != 5 {
			t.Errorf("%s: latest %v", what, due)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
}

// A past moment is over, and no error. One beside an expression that is due then, too, is counted once.
func TestMoments(t *testing.T) {
	at := time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC)
	s := schedule(t, "Asia/Tokyo", "@at 2026-12-24T18:00:00+01:00", "@at  2026-12-24T17:00:00Z", "@at 2026-12-31T23:59:59-00:30")
	if due, more := s.Between(time.Time{}, latest, 9); len(due) != 2 || more || !due[0].Equal(at) || due[0].Location() != time.UTC || due[1].Format(time.RFC3339) != "2027-01-01T00:29:59Z" {
		t.Errorf("due at %v, more: %v", due, more)
	}
	if !s.Next(at.Add(-time.Nanosecond)).Equal(at) || s.Next(at).Equal(at) {
		t.Errorf("after it: %v", s.Next(at))
	}
	past := schedule(t, "", "@at 1970-01-01T00:00:00Z")
	if due := past.Next(monday); !due.IsZero() || len(past.Latest(time.Unix(0, 0), monday, 3)) != 0 {
		t.Errorf("long after it: %v", due)
	}
	if n, exact := past.CountBetween(time.Time{}, monday); n != 1 || !exact {
		t.Errorf("counted over it: %d, %v", n, exact)
	}
	beside := schedule(t, "", "0 17 * * *", "@at 2026-12-24T18:00:00+01:00", "@at 2026-12-24T17:00:01Z")
	if n, exact := beside.CountBetween(at.Add(-day), at.Add(day)); n != 3 || !exact { // of the 24th twice, and of the 25th
		t.Errorf("beside an expression: %d, %v", n, exact)
	}
	if n, exact := schedule(t, "", "* * * * * *", "@at 2026-12-24T17:00:01Z").CountBetween(at.Add(-3650*day), at.Add(day)); n != 3651*86400 || !exact {
		t.Errorf("over ten years: %d, %v", n, exact)
	}
}

// Special days cost no more than others over an outage of ten years, and nor does counting.
func TestSpecialDaysAreCheap(t *testing.T) {
	start := time.Now()
	for _, spec := range []string{"0 0 0 L,15W,LW * FRI#2,SUNL", "* * * LW * *", "0 0 */28 2 FRI#5", "0 0 0 1 1 MON#1"} {
		s := schedule(t, "Europe/London", spec)
		for range 2 {
			s.CountBetween(monday, monday.Add(3650*day))
			s.Latest(monday, monday.Add(3650*day), 10)
			s.Next(monday)
		}
	}
	every := schedule(t, "Europe/London", "* * * 1-31,L * *")
	if n, exact := every.CountBetween(monday, monday.Add(3650*day)); n != 3650*86400 || !exact {
		t.Errorf("ten years of seconds: %d, %v", n, exact)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v; a walk through the seconds takes minutes", took)
	}
}
