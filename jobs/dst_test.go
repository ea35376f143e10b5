package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// oracle is a schedule as plain sets, read by nothing but the loop below. nil = every value.
type oracle struct {
	minutes, hours, days, weekdays []int
	running                        bool
}

// shows reports whether a clock reading is due; days and weekdays are never both restricted here.
func (o oracle) shows(t time.Time) bool {
	in := func(set []int, n int) bool { return set == nil || slices.Contains(set, n) }
	return in(o.minutes, t.Minute()) && in(o.hours, t.Hour()) && in(o.days, t.Day()) && in(o.weekdays, int(t.Weekday()))
}

// glance is one look at a wall clock.
type glance struct{ at, shows time.Time }

// watch looks at the wall clock of a zone once a minute, from two days before from.
func watch(zone *time.Location, from, until time.Time) (seen []glance) {
	for t := from.Add(-48 * time.Hour); t.Before(until); t = t.Add(time.Minute) {
		l := t.In(zone)
		seen = append(seen, glance{t, time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)})
	}
	return seen
}

// due says when the schedule is due after from, by what was seen.
func (o oracle) due(seen []glance, from time.Time) (due []time.Time) {
	latest := seen[0].shows // the latest minute that the clock has shown
	for _, now := range seen {
		hit := o.running && o.shows(now.shows)
		for ; latest.Before(now.shows); latest = latest.Add(time.Minute) {
			hit = hit || !o.running && o.shows(latest.Add(time.Minute))
		}
		if hit && now.at.After(from) {
			due = append(due, now.at)
		}
	}
	return due
}

var everyHour = oracle{minutes: []int{0}, running: true}

func TestNextAgreesWithAWatchedWallClock(t *testing.T) {
	around := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	quarters := []int{0, 15, 30, 45}
	schedules := map[string]oracle{
		"30 2 * * *":         {minutes: []int{30}, hours: []int{2}},
		"30 1 * * *":         {minutes: []int{30}, hours: []int{1}},
		"0 0 * * *":          {minutes: []int{0}, hours: []int{0}},
		"45 1-2 * * *":       {minutes: []int{45}, hours: []int{1, 2}},
		"* 2 * * *":          {hours: []int{2}},
		"*/15 0-3,23 * * *":  {minutes: quarters, hours: []int{0, 1, 2, 3, 23}},
		"10,50 22-2 * * SUN": {minutes: []int{10, 50}, hours: []int{22, 23, 0, 1, 2}, weekdays: []int{0}},
		"30 3 30,31 * *":     {minutes: []int{30}, hours: []int{3}, days: []int{30, 31}},
		"@hourly":            everyHour,
		"0 * * * *":          everyHour,
		"*/15 * * * *":       {minutes: quarters, running: true},
		"20 */2 * * *":       {minutes: []int{20}, hours: []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, running: true},
		"5 1/3 * * *":        {minutes: []int{5}, hours: []int{1, 4, 7, 10, 13, 16, 19, 22}, running: true},
		"* * * * *":          {running: true},
	}
	for _, place := range []struct {
		zone string
		day  time.Time
		what string
	}{
		{"America/New_York", around(2026, 3, 8), "1 h gap"},
		{"America/New_York", around(2026, 11, 1), "1 h back"},
		{"Europe/London", around(2026, 3, 29), "gap at 01:00"},
		{"Europe/London", around(2026, 10, 25), "back at 02:00"},
		{"Australia/Lord_Howe", around(2026, 10, 4), "30 min gap"},
		{"Australia/Lord_Howe", around(2026, 4, 5), "30 min back"},
		{"America/Sao_Paulo", around(2018, 11, 4), "midnight gap"},
		{"America/Sao_Paulo", around(2018, 2, 18), "back over midnight"},
		{"Africa/Cairo", around(2026, 4, 24), "midnight gap"},
		{"Africa/Cairo", around(2026, 10, 30), "back over midnight"},
		{"America/Havana", around(2026, 3, 8), "midnight gap"},
		{"America/Havana", around(2026, 11, 1), "back at 01:00"},
		{"America/Santiago", around(2026, 9, 6), "midnight gap"},
		{"America/Santiago", around(2026, 4, 5), "back over midnight"},
		{"Pacific/Apia", around(2011, 12, 30), "a whole day skipped"},
		{"Pacific/Kwajalein", around(1993, 8, 21), "a whole day skipped"},
		{"Asia/Kolkata", around(2026, 5, 1), "no jump, half-hour offset"},
		{"Asia/Pyongyang", around(2018, 5, 4), "30 min ahead for good"},
		{"Africa/Casablanca", around(2026, 2, 15), "back for Ramadan"},
		{"Europe/Moscow", around(2014, 10, 26), "back for good"},
		{"Antarctica/Troll", around(2026, 3, 29), "2 h gap"},
		{"Antarctica/Troll", around(2026, 10, 25), "2 h back"},
		// Beyond 2037 zone files have a rule instead of a list.
		{"America/New_York", around(2040, 12, 31), "last day of a leap year"},
		{"Pacific/Auckland", around(2040, 12, 31), "last day of a leap year"},
		{"America/New_York", around(2041, 1, 1), "new year"},
		{"UTC", around(2026, 2, 28), "no jump"},
	} {
		t.Run(place.zone+" "+place.what, func(t *testing.T) {
			zone, err := zone.Load(place.zone)
			if err != nil {
				t.Fatal(err)
			}
			from, until := place.day.Add(-30*time.Hour), place.day.Add(60*time.Hour)
			seen := watch(zone, from, until.Add(time.Minute))
			for spec, o := range schedules {
				s := schedule(t, place.zone, spec)
				want := o.due(seen, from)
				got, _ := s.Between(from, until, 1<<20)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (−watched +Between):\n%s", spec, diff)
				}
				// From every minute on, not only from one due time to the next.
				for at, i := from, 0; at.Before(until) && i < len(want); at = at.Add(47 * time.Minute) {
					for i < len(want) && !want[i].After(at) {
						i++
					}
					if i < len(want) && !s.Next(at).Equal(want[i]) {
						t.Fatalf("%s: Next(%v) = %v, want %v", spec, at, s.Next(at), want[i])
					}
					if n, exact := s.CountBetween(at, until); n != len(want)-i || !exact {
						t.Fatalf("%s: CountBetween(%v, %v) = %d, want %d", spec, at, until, n, len(want)-i)
					}
				}
			}
		})
	}
}

// Where a clock never jumps again nobody looks for jumps.
func TestClocksThatStaySteady(t *testing.T) {
	for _, name := range []string{"UTC", "Asia/Kolkata", "Etc/GMT+5"} {
		zone, err := zone.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if p := steadyAt(monday, zone); !p.end.IsZero() || !p.reading(monday).Equal(monday.Add(p.offset)) {
			t.Errorf("%s is steady until %v, %v from UTC", name, p.end, p.offset)
		}
	}
}

func TestDueTimesAtJumps(t *testing.T) {
	for _, c := range []struct {
		spec, zone, after string
		want              []string
	}{
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"}},
		{"30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"}},
		{"@daily", "America/Sao_Paulo", "2018-11-03T12:00:00Z", []string{"2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"@daily", "Africa/Cairo", "2026-04-23T12:00:00Z", []string{"2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"}},
		{"15 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", []string{"2011-12-29T22:15:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:15:00Z"}},
		{"0 * * * *", "America/New_York", "2026-11-01T04:30:00Z", []string{"2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z", "2026-11-01T07:00:00Z"}},
		{"*/30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"}},
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z", "2108-02-29T00:00:00Z"}},
	} {
		s := schedule(t, c.zone, c.spec)
		at, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			at = s.Next(at)
			if got := at.Format(time.RFC3339); got != want {
				t.Errorf("%s in %s: got %s, want %s", c.spec, c.zone, got, want)
			}
		}
	}
}
