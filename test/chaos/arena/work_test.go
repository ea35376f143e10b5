//go:build linux

package arena

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Due times in the words of the configuration are those that the judge counts.
func TestSchedules(t *testing.T) {
	begin := time.Date(2026, 3, 1, 11, 59, 30, 0, time.UTC)
	for _, j := range jobsOfRun() {
		want := map[time.Time]bool{}
		for _, due := range j.Due {
			for at := time.Unix(0, begin.UnixNano()/int64(due.Period)*int64(due.Period)).UTC().Add(due.Offset); at.Before(begin.Add(2 * time.Minute)); at = at.Add(due.Period) {
				if at.After(begin) {
					want[at] = true
				}
			}
			s, err := jobs.ParseSchedule([]string{schedule(due)}, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for at := s.Next(begin); at.Before(begin.Add(2 * time.Minute)); at = s.Next(at) {
				n++
				if !want[at.UTC()] {
					t.Errorf("%s: %q is due at %v", j.Name, schedule(due), at)
				}
			}
			if least := int(2*time.Minute/due.Period) - 1; n < least {
				t.Errorf("%s: %q is due %d times in two minutes", j.Name, schedule(due), n)
			}
		}
	}
}

// Calendars in the words of the configuration are those that the judge has, also around midnight.
func TestCalendars(t *testing.T) {
	for _, begin := range []time.Time{time.Date(2026, 3, 1, 11, 59, 30, 0, time.UTC), time.Date(2026, 3, 1, 23, 10, 1, 0, time.UTC)} {
		all := calendarsOfRun(begin)
		set := jobs.Set{Calendars: map[string]jobs.Calendar{}}
		for _, c := range all {
			set.Calendars[c.Name] = jobs.Calendar{Weekly: hours(c)}
		}
		for _, c := range all {
			s, err := set.Compiler().Compile("j", jobs.Job{Schedule: "@every 20s", Calendars: jobs.JobCalendars{Only: []string{c.Name}}})
			if err != nil {
				t.Fatal(err)
			}
			for at := begin.Truncate(time.Minute).Add(-time.Hour); at.Before(begin.Add(2 * time.Hour)); at = at.Add(20 * time.Second) {
				in := slices.ContainsFunc(c.Spans, func(s history.Span) bool { return !at.Before(s.From) && at.Before(s.Until) })
				if runs := s.Next(at.Add(-1)).Equal(at); runs != in {
					t.Fatalf("%s has %v: %t, and the product says %t", c.Name, at, in, runs)
				}
			}
		}
	}
}
