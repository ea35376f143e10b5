package jobs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// What a jump of the clock does to due times, at the edges of what it goes over.
func TestJumpsThatChangeDueTimes(t *testing.T) {
	from, until := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)
	ahead, back := time.Date(2026, time.March, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, time.October, 25, 1, 0, 0, 0, time.UTC)
	read := func(at time.Time, h, m int) time.Time {
		return time.Date(at.Year(), at.Month(), at.Day(), h, m, 0, 0, time.UTC)
	}
	for name, c := range map[string]struct {
		specs []string
		zone  string
		want  []Jump
	}{
		"moved":                    {[]string{"30 1 * * *"}, "Europe/London", []Jump{{At: ahead, By: time.Hour, First: read(ahead, 1, 30), Moved: 1}}},
		"the first that is missed": {[]string{"0 1 * * *"}, "Europe/London", []Jump{{At: ahead, By: time.Hour, First: read(ahead, 1, 0), Moved: 1}}},
		"before it":                {[]string{"59 0 * * *"}, "Europe/London", nil},
		"after it":                 {[]string{"0 2 * * *"}, "Europe/London", nil},
		"skipped, repeated": {[]string{"*/20 * * * *"}, "Europe/London", []Jump{
			{At: ahead, By: time.Hour, First: read(ahead, 1, 0), Skipped: 3}, {At: back, By: -time.Hour, First: read(back, 1, 0), Repeated: 3}}},
		"both kinds": {[]string{"*/20 * * * *", "50 1 * * *", "10 1 * * *"}, "Europe/London", []Jump{
			{At: ahead, By: time.Hour, First: read(ahead, 1, 0), Moved: 2, Skipped: 3}, {At: back, By: -time.Hour, First: read(back, 1, 0), Repeated: 3}}},
		"half an hour": {[]string{"* 1 * * *"}, "Australia/Lord_Howe", []Jump{
			{At: time.Date(2026, time.April, 4, 15, 0, 0, 0, time.UTC), By: -30 * time.Minute, First: time.Date(2026, time.April, 5, 1, 30, 0, 0, time.UTC), Repeated: 30}}},
		"another day":     {[]string{"30 1 * * MON"}, "Europe/London", nil},
		"no zone's clock": {[]string{"@every 20m", "@at 2026-03-29T01:30:00+01:00"}, "Europe/London", nil},
		"UTC":             {[]string{"*/20 * * * *"}, "UTC", nil},
		"steady":          {[]string{"*/20 * * * *"}, "Asia/Tokyo", nil},
	} {
		s := parsed(t, c.specs, c.zone)
		if got := s.Jumps(from, until); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if got := s.Jumps(ahead, back.Add(-time.Second)); c.zone == "Europe/London" && len(got) > 0 {
			t.Errorf("%s: between the jumps there is %+v", name, got)
		}
	}
	bounded, err := Job{Schedule: "*/20 * * * *", Timezone: "Europe/London", StartsAt: ahead.Add(time.Second)}.Compile("j")
	if err != nil {
		t.Fatal(err)
	}
	if got := bounded.Jumps(from, until); len(got) != 1 || !got[0].At.Equal(back) {
		t.Errorf("from a start after the first jump on: %+v", got)
	}
}

// Due times in a zone are those in UTC by the readings, but for what the jumps change.
func TestJumpsAccountForTheDifference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	zones := []string{"Europe/London", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "America/Sao_Paulo", "Asia/Gaza", "America/St_Johns"}
	specs := []string{"*/7 * * * *", "%d %d * * *", "%d 0-5 * * *", "*/10 %d * * *", "%d */2 * * *", "0 %d,%d * * *", "%d 1 * * SUN", "* * * * *"}
	jumps := 0
	for range 400 {
		spec := specs[rnd.IntN(len(specs))]
		switch countVerbs(spec) {
		case 1:
			spec = fmt.Sprintf(spec, rnd.IntN(6))
		case 2:
			spec = fmt.Sprintf(spec, rnd.IntN(4), rnd.IntN(4))
		}
		name := zones[rnd.IntN(len(zones))]
		zoned, plain := parsed(t, []string{spec}, name), parsed(t, []string{spec}, "UTC")
		zone := location(t, name)
		from := time.Date(2005+rnd.IntN(25), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(28), 12, 0, 0, 0, time.UTC)
		until := from.Add(time.Duration(1+rnd.IntN(700)) * 24 * time.Hour)
		want, exact := plain.CountBetween(steadyAt(from, zone).reading(from), steadyAt(until, zone).reading(until))
		for _, j := range zoned.Jumps(from, until) {
			jumps++
			want += j.Repeated - j.Skipped
			if j.Moved > 0 {
				at := steadyAt(j.At, zone).reading(j.At)
				landing, _ := plain.CountBetween(at.Add(-time.Second), at)
				want -= j.Moved + landing - 1
			}
		}
		got, exact2 := zoned.CountBetween(from, until)
		if got != want || !exact || !exact2 {
			t.Errorf("%s in %s from %s to %s: %d due times, want %d", spec, name, from, until, got, want)
		}
	}
	if jumps < 300 {
		t.Errorf("%d jumps were looked at", jumps)
	}
}

func countVerbs(spec string) (n int) {
	for _, c := range spec {
		if c == '%' {
			n++
		}
	}
	return n
}

func parsed(t *testing.T, specs []string, zone string) *Schedule {
	t.Helper()
	s, err := ParseSchedule(specs, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := zone.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// Spread moves due times, and not what the clock shows of the expression: its jumps stay.
func TestJumpsWithSpread(t *testing.T) {
	from, until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	jumps := func(spread time.Duration) []Jump {
		s, err := Job{Schedule: "30 1 * * *", Timezone: "Europe/London", Spread: spread}.Compile("nightly")
		if err != nil {
			t.Fatal(err)
		}
		return s.Jumps(from, until)
	}
	if all, plain := jumps(10*time.Minute), jumps(0); len(plain) == 0 || !slices.Equal(all, plain) {
		t.Errorf("%+v, without spread %+v", all, plain)
	}
}
