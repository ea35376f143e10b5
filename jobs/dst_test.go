package jobs

import (
	"flag"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

var everyHour = oracle{minutes: []int{0}, running: true}

// everyMinute walks all of 2018–2030, two minutes of work, and not only the days around jumps, as make untimed does:
// go test ./jobs -run TestTwelveZones -every-minute
var everyMinute = flag.Bool("every-minute", false, "walk each minute of 2018–2030 in twelve zones, not only those around jumps")

func TestNextAgreesWithAWatchedWallClock(t *testing.T) {
	around := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }
	quarters := []int{0, 15, 30, 45}
	schedules := map[string]oracle{
		"30 2 * * *":         {minutes: []int{30}, hours: []int{2}},
		"30 1 * * *":         {minutes: []int{30}, hours: []int{1}},
		"0 0 * * *":          {minutes: []int{0}, hours: []int{0}},
		"45 1-2 * * *":       {minutes: []int{45}, hours: []int{1, 2}},
		"* 2 * * *":          {hours: []int{2}, running: true},
		"0-59 2 * * *":       {hours: []int{2}},
		"*/15 0-3,23 * * *":  {minutes: quarters, hours: []int{0, 1, 2, 3, 23}, running: true},
		"0/15 0-3,23 * * *":  {minutes: quarters, hours: []int{0, 1, 2, 3, 23}},
		"10,50 22-2 * * SUN": {minutes: []int{10, 50}, hours: []int{22, 23, 0, 1, 2}, dow: onWeekdays(0), both: true},
		"30 3 30,31 * *":     {minutes: []int{30}, hours: []int{3}, dom: onDays(30, 31), both: true},
		"30 2 * * SUN#2":     {minutes: []int{30}, hours: []int{2}, dow: nth(0, 2), both: true},
		"30 1 LW * SUNL":     {minutes: []int{30}, hours: []int{1}, dom: nearest(func(last int) int { return last }), dow: lastOf(0)},
		"@hourly":            everyHour,
		"0 * * * *":          everyHour,
		"*/15 * * * *":       {minutes: quarters, running: true},
		"20 */2 * * *":       {minutes: []int{20}, hours: []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, running: true},
		"5 1/3 * * *":        {minutes: []int{5}, hours: []int{1, 4, 7, 10, 13, 16, 19, 22}},
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
			seen := watch(zone, from, until.Add(time.Minute), time.Minute)
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

// jumpsOf is when the clock of a zone jumps from 2018 to 2030, give or take an hour.
func jumpsOf(zone *time.Location) (jumps []time.Time) {
	offset := func(t time.Time) int { _, o := t.In(zone).Zone(); return o }
	for t := firstYear; t.Before(lastYear); t = t.Add(time.Hour) {
		if offset(t) != offset(t.Add(time.Hour)) {
			jumps = append(jumps, t)
		}
	}
	return jumps
}

var (
	firstYear = time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)
	lastYear  = time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Twelve zones and eight kinds of schedule, 2018–2030, beside a clock that is watched minute by minute: around
// each jump, and in a leap year, or all the time.
func TestTwelveZones(t *testing.T) {
	kinds := map[string]oracle{
		"30 2 * * *":                {minutes: []int{30}, hours: []int{2}},                                                                                                    // once a day
		"0 0 * * *":                 {minutes: []int{0}, hours: []int{0}},                                                                                                     // at midnight
		"0,20,40 22-3 * * *":        {minutes: []int{0, 20, 40}, hours: []int{22, 23, 0, 1, 2, 3}},                                                                            // several, fixed
		"*/15 0-2 * * *":            {minutes: []int{0, 15, 30, 45}, hours: []int{0, 1, 2}, running: true},                                                                    // minutes with *
		"10 */2 * * *":              {minutes: []int{10}, hours: []int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}, running: true},                                             // hours with *
		"15 0-2 L,LW,15W,L-3 * *":   {minutes: []int{15}, hours: []int{0, 1, 2}, dom: anyOf(beforeLast(0), nearest(whole), nearest(fixedDay(15)), beforeLast(3)), both: true}, // by the end of the month
		"30 0-3 * * SUN#1,SUN#2,0L": {minutes: []int{30}, hours: []int{0, 1, 2, 3}, dow: anyOf(nth(0, 1), nth(0, 2), lastOf(0)), both: true},                                  // n-th weekdays
		"0 1-3 */2 * SAT-MON":       {minutes: []int{0}, hours: []int{1, 2, 3}, dom: odd, dow: onWeekdays(6, 0, 1), both: true},                                               // both days
	}
	for _, name := range []string{
		"Africa/Cairo", "Africa/Casablanca", "America/Havana", "America/New_York", "America/Santiago", "America/Sao_Paulo",
		"Antarctica/Troll", "Asia/Kolkata", "Asia/Tehran", "Australia/Lord_Howe", "Europe/London", "Pacific/Auckland",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := zone.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			walk := func(from, until time.Time) {
				seen := watch(zone, from, until.Add(time.Minute), time.Minute)
				for spec, o := range kinds {
					agree(t, schedule(t, name, spec), name+": "+spec, o.due(seen, from), from, until)
				}
			}
			if *everyMinute {
				for from := firstYear; from.Before(lastYear); from = from.AddDate(0, 1, 0) {
					walk(from, from.AddDate(0, 1, 0))
				}
				return
			}
			for _, jump := range jumpsOf(zone) {
				walk(jump.Add(-30*time.Hour), jump.Add(30*time.Hour))
			}
			walk(time.Date(2024, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC))
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
		{"*/30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", []string{"2026-03-09T06:00:00Z", "2026-03-09T06:30:00Z"}},
		{"0,30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-03-09T06:00:00Z"}},
		{"30 2 * * SUN#2", "America/New_York", "2026-03-02T00:00:00Z", []string{"2026-03-08T07:00:00Z", "2026-04-12T06:30:00Z"}},
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
