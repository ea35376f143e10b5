package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// These offsets decide when people's jobs are due, and stand in docs/schedules.md: they never change. Another program than
// this one has computed them.
func TestSpreadsStayAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		name   string
		spread time.Duration
		want   string
	}{
		{"nightly-backup", time.Minute, "22s"},
		{"nightly-backup", 10 * time.Minute, "2m22s"},
		{"nightly-backup", time.Hour, "42m22s"},
		{"nightly-backup", day, "23h42m22s"},
		{"Nightly-Backup", 10 * time.Minute, "3m15s"},
		{"Nightly-Backup", day, "6h23m15s"},
		{"hourly-mail", 10 * time.Minute, "8m38s"},
		{"hourly-mail", time.Hour, "18m38s"},
		{"a", day, "19h30m7s"},
		{"a", time.Second, "0s"},
		{"a", 0, "0s"},
	} {
		if got := (Job{Spread: c.spread}).offset(c.name); got.String() != c.want {
			t.Errorf("%s, spread %v: %v, want %s", c.name, c.spread, got, c.want)
		}
	}
}

// A thousand jobs are due all over the spread, and each about as often.
func TestSpreadSpreadsJobs(t *testing.T) {
	counts := map[time.Duration]int{}
	for n := range 1000 {
		counts[Job{Spread: 10 * time.Minute}.offset(fmt.Sprint("job-", n)).Truncate(time.Minute)]++
	}
	for minute, n := range counts {
		if n < 60 || n > 150 || minute < 0 || minute >= 10*time.Minute || len(counts) != 10 {
			t.Errorf("%d of 1000 jobs are due in minute %v, of %d minutes", n, minute, len(counts))
		}
	}
}

// All methods know the moved due times and nothing else, as the watched clock says: those without spread, later by one offset.
// Next is monotonic, and the job's bounds are those of the moved ones.
func TestSpreadMovesDueTimes(t *testing.T) {
	all := places(t)
	rapid.Check(t, func(t *rapid.T) {
		p := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")]
		job := Job{Timezone: p.zone, Spread: time.Duration(rapid.Int64Range(1, int64(min(p.until.Sub(p.from)/2, day)/time.Second)).Draw(t, "spread")) * time.Second}
		name := rapid.SampledFrom([]string{"a", "nightly-backup", "hourly-mail"}).Draw(t, "name")
		by := job.offset(name)
		if by < 0 || by >= job.Spread || by%time.Second != 0 {
			t.Fatalf("the offset is %v of %v", by, job.Spread)
		}
		var want []time.Time
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			spec, due := drawExpression(t, p)
			if _, err := ParseSchedule([]string{spec}, p.zone); err != nil {
				continue
			}
			job.Schedules = append(job.Schedules, spec)
			for _, at := range due {
				if !strings.HasPrefix(spec, "@at") {
					at = at.Add(by)
				}
				want = append(want, at)
			}
		}
		slices.SortFunc(want, time.Time.Compare)
		want = slices.CompactFunc(want, time.Time.Equal)
		from, until := p.from.Add(by), p.until // before that may come what was due, unmoved, before p.from
		moment := func(what string) time.Time {
			if len(want) > 0 && rapid.Bool().Draw(t, what+" is due") {
				return rapid.SampledFrom(want).Draw(t, what).Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "ns")))
			}
			return from.Add(time.Duration(rapid.Int64Range(0, int64(max(until.Sub(from), 0))).Draw(t, what)))
		}
		if rapid.IntRange(0, 2).Draw(t, "starts") == 0 {
			job.StartsAt = moment("starts at")
			want = slices.DeleteFunc(want, func(at time.Time) bool { return at.Before(job.StartsAt) })
		}
		if rapid.IntRange(0, 2).Draw(t, "ends") == 0 {
			job.EndsAt = moment("ends at")
			want = slices.DeleteFunc(want, func(at time.Time) bool { return !at.Before(job.EndsAt) })
		}
		if until.Before(from) {
			return
		}
		s, err := job.Compile(name)
		if err != nil {
			t.Fatal(err)
		}
		a, b := moment("a"), moment("b")
		if b.Before(a) {
			a, b = b, a
		}
		if a.Before(from) || b.After(until) {
			return
		}
		inside := slices.DeleteFunc(slices.Clone(want), func(at time.Time) bool { return !at.After(a) || at.After(b) })
		agree(t, s, fmt.Sprintf("%+q in %s, later by %v, from %v before %v", job.Schedules, p.zone, by, job.StartsAt, job.EndsAt), inside, a, b)
		if one, other := s.Next(a), s.Next(b); !one.IsZero() && !one.After(a) || one.IsZero() && !other.IsZero() || other.Before(one) && !other.IsZero() {
			t.Fatalf("Next is not monotonic: %v after %v, %v after %v", one, a, other, b)
		}
	})
}

// The ends of time are those of schedules without spread, later by the offset; nothing comes twice, and nothing is counted before them.
func TestSpreadAtTheEndsOfTime(t *testing.T) {
	for _, spec := range []string{"0 0 * * *", "* * * * *", "@every 7h"} {
		job := Job{Schedule: spec, Timezone: "America/New_York", Spread: day}
		s, err := job.Compile("nightly-backup")
		if err != nil {
			t.Fatal(err)
		}
		first := s.Next(time.Time{})
		if first.Before(earliest) || first.After(earliest.Add(3*day)) {
			t.Errorf("%s is due first at %v", spec, first)
		}
		last := s.Latest(time.Time{}, latest.Add(day), 1)
		if len(last) != 1 || !last[0].Before(latest) || last[0].Before(latest.Add(-2*day)) || !s.Next(last[0]).IsZero() {
			t.Errorf("%s is due last at %v, and then at %v", spec, last, s.Next(last[0]))
		}
		if n, exact := s.CountBetween(time.Time{}, first.Add(-time.Nanosecond)); n != 0 || !exact {
			t.Errorf("%s: %d due times before the first one", spec, n)
		}
		if n, exact := s.CountBetween(time.Time{}, first); n != 1 || !exact {
			t.Errorf("%s: %d due times up to the first one", spec, n)
		}
	}
}
