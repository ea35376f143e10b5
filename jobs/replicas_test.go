package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// decided is a due time as a replica decides it.
type decided struct{ at, fires, starts time.Time }

// mostDecided is how many due times a replica of these tests walks through.
const mostDecided = 200

// walk is what a replica makes of a job, that starts so long after another one, and finds all decided up to its cursor: it reads the set for itself, and goes
// from one due time to the next.
func walk(t *testing.T, later time.Duration, set Set, cursor, until time.Time) (all []decided, err error) {
	synctest.Test(t, func(*testing.T) {
		time.Sleep(later)
		var s *Schedule
		if s, err = set.Compiler().Compile("j", set.Jobs["j"]); err != nil {
			return
		}
		starts := set.Jobs["j"].Starts(s, "j", "prod")
		for at := s.Next(cursor); !at.IsZero() && !at.After(until) && len(all) < mostDecided; at = s.Next(at) {
			all = append(all, decided{at, s.Fires(at), starts.Of(at)})
		}
	})
	return all, err
}

// drawHashed draws an expression with H for a job at a place among its expressions, and when it is due after p.from, up to and including p.until.
func drawHashed(t *rapid.T, p place, n int) (string, []time.Time) {
	name := "j"
	var text, plain []string
	for i := minute; i < len(fields); i++ {
		f := &fields[i]
		word := "*"
		low, high := f.min, f.max
		switch kind := rapid.SampledFrom([]string{"H", "H", "H(a-b)", "H/n", "*"}).Draw(t, f.name); {
		case i == 4, kind == "*":
		case kind == "H(a-b)":
			low = rapid.IntRange(f.min, f.min+5).Draw(t, "from")
			high = rapid.IntRange(low, low+1).Draw(t, "to")
			word = fmt.Sprintf("H(%d-%d)", low, high)
		case kind == "H/n":
			word = fmt.Sprintf("H/%d", rapid.IntRange(2, 3).Draw(t, "step"))
		default:
			word = "H"
		}
		c, err := f.read(word, seed{&name, n})
		if err != nil {
			t.Fatal(err)
		}
		number := f.canonical(c)
		if strings.HasPrefix(word, "H") && !strings.Contains(word, "/") {
			var is int
			if _, err := fmt.Sscan(number, &is); err != nil || is < low || is > high {
				t.Fatalf("%s of %s is %s", word, f.name, number)
			}
		}
		text, plain = append(text, word), append(plain, number)
	}
	s, err := ParseSchedule([]string{strings.Join(plain, " ")}, p.zone)
	if err != nil {
		t.Fatal(err)
	}
	due, _ := s.Between(p.from, p.until, 1<<20)
	return strings.Join(text, " "), due
}

// Replicas that start at different moments, with different cursors, agree on each due time and each start of a job, whatever it has: expressions, also with H
// and @at, spread, jitter, bounds and calendars. Next is monotonic, leaves nothing out, and returns no time that does not match.
func TestReplicasAgreeWheneverTheyStart(t *testing.T) {
	all := places(t)
	rapid.Check(t, func(r *rapid.T) {
		p := all[rapid.IntRange(0, len(all)-1).Draw(r, "place")]
		job := Job{Timezone: p.zone}
		if rapid.Bool().Draw(r, "jitter") {
			job.Jitter = time.Duration(rapid.Int64Range(1, 3600_000).Draw(r, "by")) * time.Millisecond
		}
		if rapid.Bool().Draw(r, "spread") {
			job.Spread = time.Duration(rapid.IntRange(1, 86400).Draw(r, "by")) * time.Second
		}
		offset := job.offset("j")
		var due []time.Time
		for range rapid.IntRange(1, 3).Draw(r, "expressions") {
			var spec string
			var at []time.Time
			if rapid.Bool().Draw(r, "hashed") {
				spec, at = drawHashed(r, p, len(job.Schedules))
			} else if spec, at = drawExpression(r, p); !compiles(spec, p.zone) {
				continue
			}
			job.Schedules = append(job.Schedules, spec)
			for _, at := range at {
				if !strings.HasPrefix(spec, "@at") {
					at = at.Add(offset)
				}
				due = append(due, at)
			}
		}
		moment := func(what string) time.Time {
			return p.from.Add(time.Duration(rapid.Int64Range(0, int64(p.until.Sub(p.from))).Draw(r, what)))
		}
		if rapid.IntRange(0, 3).Draw(r, "starts") == 0 {
			job.StartsAt = moment("starts at")
		}
		if rapid.IntRange(0, 3).Draw(r, "ends") == 0 {
			job.EndsAt = moment("ends at")
		}
		set := Set{Calendars: map[string]Calendar{}}
		var exclude, only []watched
		for i := range rapid.IntRange(0, 2).Draw(r, "calendars") {
			name := fmt.Sprintf("c%d", i)
			c, is := drawCalendar(r, p, name)
			set.Calendars[name] = c
			if rapid.Bool().Draw(r, "only") {
				job.Calendars.Only, only = append(job.Calendars.Only, name), append(only, is)
			} else {
				job.Calendars.Exclude, exclude = append(job.Calendars.Exclude, name), append(exclude, is)
			}
		}
		if len(set.Calendars) > 0 {
			job.Calendars.Otherwise = rapid.SampledFrom([]Otherwise{OtherwiseSkip, OtherwiseNext}).Draw(r, "otherwise")
		}
		set.Jobs = map[string]Job{"j": job}

		a, b := moment("a cursor"), moment("another cursor")
		if b.Before(a) {
			a, b = b, a
		}
		later := func(what string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(40*365*day)).Draw(r, what))
		}
		until := p.until.Add(-time.Nanosecond)
		one, err := walk(t, later("one starts"), set, a, until)
		if err != nil {
			r.Fatal(err)
		}
		other, err := walk(t, later("another starts"), set, b, until)
		if err != nil {
			r.Fatal(err)
		}
		what := fmt.Sprintf("%+v with %+v", job, set.Calendars)
		full := len(one) == mostDecided
		common := slices.DeleteFunc(slices.Clone(one), func(d decided) bool { return !d.at.After(b) })
		if full {
			other = other[:min(len(other), len(common))]
		}
		if !slices.Equal(common, other) {
			r.Fatalf("%s: from %v a replica decides %v, from %v another one %v", what, a, common, b, other)
		}
		last := a
		for _, d := range one {
			if !d.at.After(last) || d.fires.Before(d.at) || d.starts.Before(d.fires) || job.Jitter == 0 && d.starts != d.fires || job.Jitter > 0 && d.starts.Sub(d.fires) >= job.Jitter {
				r.Fatalf("%s: after %v it decides %+v", what, last, d)
			}
			last = d.at
		}
		s, err := set.Compiler().Compile("j", job)
		if err != nil {
			r.Fatal(err)
		}
		switch first, second := s.Next(a), s.Next(b); {
		case first.IsZero() && !second.IsZero(), !second.IsZero() && second.Before(first):
			r.Fatalf("%s: Next is not monotonic: %v after %v, %v after %v", what, first, a, second, b)
		case first.After(b) && !first.Equal(second):
			r.Fatalf("%s: Next leaves %v out after %v", what, first, b)
		}
		if job.Calendars.Otherwise == OtherwiseNext {
			return // TestCalendarsAgreeWithAWatchedClock knows which run
		}
		known := p.from.Add(offset) // before it a due time may be one that was moved from before p.from
		if known.Before(a) {
			known = a
		}
		end := until
		if full {
			end = last
		}
		due = slices.DeleteFunc(due, func(at time.Time) bool {
			in := func(c watched) bool { return c.in(glance{at: at}) }
			return !at.After(known) || at.After(end) || at.Before(job.StartsAt) || !job.EndsAt.IsZero() && !at.Before(job.EndsAt) ||
				slices.ContainsFunc(exclude, in) || slices.ContainsFunc(only, func(c watched) bool { return !in(c) })
		})
		slices.SortFunc(due, time.Time.Compare)
		due = slices.CompactFunc(due, time.Time.Equal)
		var got []time.Time
		for _, d := range one {
			if d.at.After(known) {
				got = append(got, d.at)
			}
		}
		if !slices.EqualFunc(got, due, time.Time.Equal) {
			r.Fatalf("%s: from %v up to %v it decides %v, want %v", what, known, end, got, due)
		}
	})
}

func compiles(spec, zone string) bool {
	_, err := ParseSchedule([]string{spec}, zone)
	return err == nil
}
