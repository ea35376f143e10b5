package jobs

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
)

func schedule(t testing.TB, zone string, specs ...string) *Schedule {
	t.Helper()
	s, err := ParseSchedule(specs, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var monday = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func TestEveryIsAlignedToTheEpoch(t *testing.T) {
	s := schedule(t, "Asia/Kolkata", "@every  5m")
	for _, start := range []time.Duration{0, 7 * time.Second, 161 * time.Second, 299 * time.Second, 299*time.Second + 999*time.Millisecond} {
		if got, want := s.Next(monday.Add(start)), monday.Add(5*time.Minute); !got.Equal(want) {
			t.Errorf("started %v later: next is %v, want %v", start, got, want)
		}
	}
	week := schedule(t, "", "@every 7d")
	if got := week.Next(monday); got.Unix()%(7*86400) != 0 || got.Sub(monday) > 7*day {
		t.Errorf("@every 7d: %v is no multiple of 7 days", got)
	}
	before := time.Date(1969, 12, 31, 23, 59, 59, 5, time.UTC)
	if got := s.Next(before); !got.Equal(time.Unix(0, 0)) {
		t.Errorf("before 1970: next is %v, want the epoch", got)
	}
}

func TestSeveralDueTogetherAreOne(t *testing.T) {
	s := schedule(t, "", "0 */2 * * *", "0 */3 * * *", "@every 6h")
	due, more := s.Between(monday.Add(-time.Second), monday.Add(12*time.Hour), 100)
	var hours []int
	for _, at := range due {
		hours = append(hours, int(at.Sub(monday)/time.Hour))
	}
	if diff := cmp.Diff([]int{0, 2, 3, 4, 6, 8, 9, 10, 12}, hours); diff != "" || more {
		t.Errorf("more = %v, due hours (−want +got):\n%s", more, diff)
	}
}

func TestBetweenSaysWhetherThereAreMore(t *testing.T) {
	s := schedule(t, "", "@hourly")
	for _, c := range []struct {
		limit, want int
		more        bool
	}{{0, 0, true}, {2, 2, true}, {3, 3, false}, {4, 3, false}} {
		due, more := s.Between(monday, monday.Add(3*time.Hour), c.limit)
		if len(due) != c.want || more != c.more {
			t.Errorf("limit %d: %d due, more = %v, want %d, %v", c.limit, len(due), more, c.want, c.more)
		}
	}
	for _, zone := range []string{"UTC", "Europe/London"} {
		for _, spec := range []string{"* * * * * *", "* * 0-23 * * *", "@every 1s"} {
			s := schedule(t, zone, spec)
			due, more := s.Between(monday.Add(time.Hour), monday, 5)
			n, exact := s.CountBetween(monday.Add(time.Hour), monday)
			if len(due) != 0 || more || n != 0 || !exact || len(s.Latest(monday.Add(time.Hour), monday, 5)) != 0 {
				t.Errorf("%s in %s until before after: %v, more: %v, count %d, exact: %v", spec, zone, due, more, n, exact)
			}
		}
	}
}

func TestLatestIsTheEndOfBetween(t *testing.T) {
	for _, spec := range []string{"* * * * * *", "*/5 * * * *", "0 3 * * MON", "0 0 29 2 *", "0 0 0 1 1 *", "* * * 1 1 *"} {
		s := schedule(t, "Europe/London", spec)
		spans := []time.Duration{0, time.Second, time.Hour, 15 * day}
		if spec[:3] == "* *" {
			spans = spans[:3]
		}
		for _, span := range spans {
			all, _ := s.Between(monday.Add(-span), monday, 1<<22)
			for _, n := range []int{-1, 0, 1, 3, 10} {
				want := all[min(max(len(all)-n, 0), len(all)):]
				got := s.Latest(monday.Add(-span), monday, n)
				if len(want) != len(got) || len(got) > 0 && cmp.Diff(want, got) != "" {
					t.Errorf("%s over %v, latest %d: %d due, want %d", spec, span, n, len(got), len(want))
				}
			}
		}
	}
	yearly := schedule(t, "", "0 0 29 2 *").Latest(monday.Add(-20*duration.Max), monday, 2)
	if len(yearly) != 2 || yearly[0].Year() != 2020 || yearly[1].Year() != 2024 {
		t.Errorf("latest two leap days: %v", yearly)
	}
}

func TestCountAgreesWithEnumeration(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, spec := range []string{
		"* * * * * *", "*/7 */11 * * * *", "0 30 2 * * *", "0 0 0 13 * FRI", "5,10 0 22-2 */2 * MON", "@every 7s", "@every 1h",
		"0 0 1-7 * * *", "30 59 23 31 12 *", "10-50/13 * 1,2 * * SUN",
	} {
		for _, zone := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"} {
			s := schedule(t, zone, spec)
			span := 60 * time.Hour
			if spec == "* * * * * *" {
				span = 2 * time.Hour
			}
			for range 8 {
				from := time.Date(2011, 12, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rnd.Int64N(int64(2 * 365 * day))))
				until := from.Add(time.Duration(rnd.Int64N(int64(span))))
				due, _ := s.Between(from, until, 1<<22)
				if n, exact := s.CountBetween(from, until); n != len(due) || !exact {
					t.Errorf("%s in %s from %v until %v: count %d, enumerated %d", spec, zone, from, until, n, len(due))
				}
			}
		}
	}
}

// Due times that a jump makes one are counted once, at each of the jumps of several years.
func TestCountOverSeveralJumps(t *testing.T) {
	from := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, zone := range []string{"America/New_York", "Europe/London", "Australia/Lord_Howe", "Antarctica/Troll"} {
		for _, spec := range []string{"0,20,40 0-3 * * *", "10,50 1,2 * * SUN", "30 */2 * * *", "5 1/3 * * *", "0 * * * *"} {
			s := schedule(t, zone, spec)
			for years := range 4 {
				until := from.AddDate(years, 9, 0)
				due, _ := s.Between(from, until, 1<<22)
				if n, exact := s.CountBetween(from, until); n != len(due) || !exact {
					t.Errorf("%s in %s until %v: count %d, enumerated %d", spec, zone, until, n, len(due))
				}
			}
		}
	}
}

// Whole days and parts of them are counted alike, however many hours behind the first one the last one ends.
func TestCountOfDaysAndHours(t *testing.T) {
	s := schedule(t, "", "* * * * *")
	for hours := range 200 {
		span := time.Duration(hours)*time.Hour + 30*time.Minute
		if n, exact := s.CountBetween(monday, monday.Add(span)); n != hours*60+30 || !exact {
			t.Errorf("every minute of %v: %d, exact: %v", span, n, exact)
		}
	}
}

// Of a long time, the end alone is looked at.
func TestLatestIsCheap(t *testing.T) {
	s := schedule(t, "", "* * * * * *")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	due := s.Latest(monday.Add(-10*day), monday, 3)
	runtime.ReadMemStats(&after)
	if want := []time.Time{monday.Add(-2 * time.Second), monday.Add(-time.Second), monday}; cmp.Diff(want, due) != "" {
		t.Errorf("latest three: %v", due)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes for 3 of 864,000 due times", took)
	}
	// Nor of the time that has passed since the schedule ended.
	ended, err := Job{Schedule: "* * * * * *", EndsAt: monday.Add(-day)}.Compile("j")
	if err != nil {
		t.Fatal(err)
	}
	before = after
	runtime.ReadMemStats(&before)
	due = ended.Latest(monday.Add(-10*day), monday, 3)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<16 || len(due) != 3 {
		t.Errorf("%d bytes for %d due times of a schedule that has ended", took, len(due))
	}
}

func TestLongOutagesAreCheapToCount(t *testing.T) {
	s := schedule(t, "Europe/London", "* * * * * *")
	start := time.Now()
	if n, exact := s.CountBetween(monday, monday.Add(3650*day)); n != 3650*86400 || !exact {
		t.Errorf("ten years of seconds: %d, exact = %v", n, exact)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("counting took %v; one by one it takes minutes", took)
	}
	two := schedule(t, "Europe/London", "* * * * * *", "@hourly")
	if n, exact := two.CountBetween(monday, monday.Add(day)); n != 86400 || !exact {
		t.Errorf("a day of seconds, merged: %d, exact = %v", n, exact)
	}
	if n, exact := two.CountBetween(monday, monday.Add(365*day)); n != maxCounted || exact {
		t.Errorf("beyond the bound: %d, exact = %v", n, exact)
	}
}

func TestScheduleWithoutExpressionsIsNeverDue(t *testing.T) {
	s := schedule(t, "")
	n, exact := s.CountBetween(time.Time{}, latest)
	if due := s.Next(monday); !due.IsZero() || n != 0 || !exact || s.Latest(time.Time{}, monday, 3) != nil {
		t.Errorf("next %v, count %d %v", due, n, exact)
	}
}

func TestEdgesOfTime(t *testing.T) {
	s := schedule(t, "America/New_York", "* * * * * *")
	for _, specs := range [][]string{{"@hourly"}, {"@hourly", "@every 1h"}, {"0 0-23 * * *"}} {
		s := schedule(t, "", specs...)
		if due := s.Next(time.Time{}); !due.Equal(earliest.Add(time.Hour)) {
			t.Errorf("%q after the zero time: %v", specs, due)
		}
		for _, c := range []struct {
			after, until time.Time
			want         int
		}{
			{time.Time{}, earliest.Add(150 * time.Minute), 2},
			{time.Time{}, earliest.Add(-time.Hour), 0},
			{latest.Add(-150 * time.Minute), latest.Add(400 * day), 2},
			{latest, latest.Add(400 * day), 0},
			{latest.Add(time.Hour), latest.Add(400 * day), 0},
		} {
			due, more := s.Between(c.after, c.until, 9)
			if n, exact := s.CountBetween(c.after, c.until); n != c.want || !exact || len(due) != c.want || more {
				t.Errorf("%q from %v until %v: count %d, enumerated %d, want %d", specs, c.after, c.until, n, len(due), c.want)
			}
		}
	}
	for _, end := range []time.Time{latest, latest.Add(400 * day), time.Unix(1<<40, 0)} {
		if due := s.Next(end); !due.IsZero() {
			t.Errorf("after %v: %v, want none", end, due)
		}
	}
	if due := schedule(t, "", "0 0 31 12 *").Next(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); !due.IsZero() {
		t.Errorf("on the last day that there is: %v, want none", due)
	}
	if due := s.Next(monday.Add(time.Nanosecond)); !due.Equal(monday.Add(time.Second)) {
		t.Errorf("just behind a second: %v", due)
	}
	if due := s.Next(monday.In(time.FixedZone("x", 3600))); due.Location() != time.UTC {
		t.Errorf("not UTC: %v", due)
	}
}

func TestParseScheduleNamesEveryBrokenExpression(t *testing.T) {
	_, err := ParseSchedule([]string{"60 * * * *", "@daily", "* * * * FUN"}, "")
	if !errors.Is(err, ErrInvalid) {
		t.Fatalf("got %v, want ErrInvalid", err)
	}
	for _, part := range []string{"minute: 60", "day of week: \"FUN\""} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in %v", part, err)
		}
	}
	many := strings.Split(strings.Repeat("@daily,", maxSpecs)+"@daily", ",")
	if _, err := ParseSchedule(many, ""); !errors.Is(err, ErrInvalid) || err.Error() != "invalid: 101 schedules, at most 100 are allowed" {
		t.Errorf("too many expressions: %v", err)
	}
	if _, err := ParseSchedule(many[1:], ""); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
}

func TestParseScheduleZone(t *testing.T) {
	for _, name := range []string{"Local", "Mars/X"} {
		if s, err := ParseSchedule(nil, name); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseSchedule(nil, %q) = %v, %v, want ErrInvalid", name, s, err)
		}
	}
}

func BenchmarkParseSchedule(b *testing.B) {
	for b.Loop() {
		schedule(b, "Europe/London", "*/15 8-18 * * MON-FRI")
	}
}

func BenchmarkNext(b *testing.B) {
	for _, spec := range []string{"* * * * * *", "*/15 * * * *", "30 2 * * *", "0 0 29 2 *"} {
		for _, zone := range []string{"UTC", "Europe/London"} {
			b.Run(spec+" "+zone, func(b *testing.B) {
				s, t := schedule(b, zone, spec), monday
				for b.Loop() {
					if t = s.Next(t); t.Year() > 2030 {
						t = monday
					}
				}
			})
		}
	}
}
