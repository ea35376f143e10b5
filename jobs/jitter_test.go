package jobs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// startsOf compiles a job, as each replica does for itself.
func startsOf(t interface{ Fatal(...any) }, job Job, name, namespace string) (*Schedule, Starts) {
	s, err := job.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s, job.Starts(s, name, namespace)
}

// These decide when people's jobs start, and stand in docs/schedules.md: they never change, or replicas of two versions disagree.
// Another program than this one has computed them.
func TestJitterStaysAsItIs(t *testing.T) {
	for _, c := range []struct {
		namespace, name, due string
		jitter               time.Duration
		want                 string
	}{
		{"prod", "nightly-backup", "2026-12-01T02:30:00Z", 30 * time.Second, "1.689s"},
		{"prod", "nightly-backup", "2026-12-02T02:30:00Z", 30 * time.Second, "14.923s"},
		{"prod", "nightly-backup", "2026-12-01T02:30:00Z", time.Hour, "52m31.689s"},
		{"prod", "hourly-mail", "2026-12-01T02:30:00Z", 30 * time.Second, "3.126s"},
		{"staging", "nightly-backup", "2026-12-01T02:30:00Z", 30 * time.Second, "21.643s"},
		{"6f1c2a9b0d3e4f58", "nightly-backup", "2026-12-01T02:30:00Z", 30 * time.Second, "18.749s"},
		{"", "nightly-backup", "2026-12-02T02:30:00Z", time.Second, "97ms"},
		{"prod", "nightly-backup", "2026-12-01T02:30:00Z", time.Millisecond, "0s"},
	} {
		due, err := time.Parse(time.RFC3339, c.due)
		if err != nil {
			t.Fatal(err)
		}
		_, starts := startsOf(t, Job{Schedule: "30 2 * * *", Jitter: c.jitter}, c.name, c.namespace)
		if got := starts.Of(due.In(time.FixedZone("", 3600))).Sub(due); got.String() != c.want {
			t.Errorf("%q, %s, %s, jitter %v: %v later, want %s", c.namespace, c.name, c.due, c.jitter, got, c.want)
		}
	}
}

// Starts are all over the jitter, each about as often, whatever they are drawn for.
func TestJitterIsEven(t *testing.T) {
	for what, draw := range map[string]func(n int) (namespace, name string, due time.Time){
		"due times": func(n int) (string, string, time.Time) {
			return "prod", "j", monday.Add(time.Duration(n) * time.Minute)
		},
		"jobs":       func(n int) (string, string, time.Time) { return "prod", fmt.Sprint("j", n), monday },
		"namespaces": func(n int) (string, string, time.Time) { return fmt.Sprint("n", n), "j", monday },
	} {
		counts := map[time.Duration]int{}
		for n := range 1000 {
			namespace, name, due := draw(n)
			_, starts := startsOf(t, Job{Schedule: "* * * * *", Jitter: 10 * time.Second}, name, namespace)
			later := starts.Of(due).Sub(due)
			if later < 0 || later >= 10*time.Second || later%time.Millisecond != 0 {
				t.Fatalf("%s: later by %v", what, later)
			}
			counts[later.Truncate(time.Second)]++
		}
		for second, n := range counts {
			if n < 60 || n > 150 || len(counts) != 10 {
				t.Errorf("%s: %d of 1000 start in second %v, of %d", what, n, second, len(counts))
			}
		}
	}
}

// Whatever the schedule, with jumps of clocks, spread and bounds: starts have the order of due times and are before the next one, at or after
// their own, and Begun is exactly the due times that start by a moment. Replicas that read the job at different moments agree on each.
func TestStartsKeepTheOrderOfDueTimes(t *testing.T) {
	all := places(t)
	rapid.Check(t, func(t *rapid.T) {
		p := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")]
		job := Job{Timezone: p.zone, Jitter: time.Duration(rapid.Int64Range(1, 40*3600_000).Draw(t, "jitter")) * time.Millisecond}
		if rapid.IntRange(0, 2).Draw(t, "spread") == 0 {
			job.Spread = time.Duration(rapid.IntRange(1, 86400).Draw(t, "by")) * time.Second
		}
		for range rapid.IntRange(1, 3).Draw(t, "expressions") {
			spec, _ := drawExpression(t, p)
			if _, err := ParseSchedule([]string{spec}, p.zone); err == nil {
				job.Schedules = append(job.Schedules, spec)
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
			job.EndsAt = p.until.Add(-time.Hour)
		}
		s, starts := startsOf(t, job, "j", "prod")
		_, again := startsOf(t, job, "j", "prod")
		due, _ := s.Between(p.from, p.until, 300)
		var last time.Time
		var begins []time.Time
		for i, at := range due {
			start := starts.Of(at)
			switch {
			case !start.Equal(again.Of(at)):
				t.Fatalf("%+q: two replicas start %v at %v and %v", job.Schedules, at, start, again.Of(at))
			case start.Before(at), start.Sub(at) >= job.Jitter, !start.After(last), !start.Before(starts.By(at)), starts.By(at).Sub(at) > job.Jitter:
				t.Fatalf("%+q, jitter %v: due %v, starts %v, before %v; the last one %v", job.Schedules, job.Jitter, at, start, starts.By(at), last)
			case i > 0 && !begins[i-1].Before(at):
				t.Fatalf("%+q: what is due before %v starts at %v", job.Schedules, at, begins[i-1])
			}
			last, begins = start, append(begins, start)
		}
		if len(due) == 0 {
			return
		}
		moment := rapid.SampledFrom(begins).Draw(t, "start").Add(time.Duration(rapid.SampledFrom([]int64{-1, 0, 1, int64(time.Second), -int64(time.Second), int64(time.Hour)}).Draw(t, "beside")))
		begun := starts.Begun(moment)
		for i, at := range due {
			if at.After(begun) != begins[i].After(moment) {
				t.Fatalf("%+q, jitter %v: at %v has begun what is due up to %v, and what is due at %v starts at %v", job.Schedules, job.Jitter, moment, begun, at, begins[i])
			}
		}
		if begun.After(moment) {
			t.Fatalf("at %v has begun what is due until %v", moment, begun)
		}
	})
}

// With calendars the jitter counts from when a due time fires. What is left out is decided at its time, but not before what still waits for its start.
func TestJitterWithCalendars(t *testing.T) {
	office := Calendar{Weekly: []string{"MON-FRI 09:00-17:00"}}
	for _, otherwise := range []Otherwise{OtherwiseSkip, OtherwiseNext} {
		job := Job{Schedule: "*/20 * * * *", Jitter: 19 * time.Minute, Calendars: JobCalendars{Only: []string{"office"}, Otherwise: otherwise}, Handler: says("h")}
		set := Set{Calendars: map[string]Calendar{"office": office}, Jobs: map[string]Job{"j": job}}
		if err := set.Validate(); err != nil {
			t.Fatal(err)
		}
		s, err := set.Compiler().Compile("j", job)
		if err != nil {
			t.Fatal(err)
		}
		starts := job.Starts(s, "j", "prod")
		due, _ := s.Between(monday, monday.Add(3*day), 1000)
		if len(due) < 60 {
			t.Fatalf("%d due times", len(due))
		}
		var last time.Time
		for i, at := range due {
			start, fires := starts.Of(at), s.Fires(at)
			if start.Before(fires) || start.Sub(fires) >= job.Jitter || !start.After(last) || i+1 < len(due) && !start.Before(s.Fires(due[i+1])) {
				t.Errorf("%s: due %v, fires %v, starts %v after %v", otherwise, at, fires, start, last)
			}
			last = start
			if begun := starts.Begun(start); begun.Before(at) || i+1 < len(due) && !begun.Before(due[i+1]) {
				t.Errorf("%s: at %v, when %v starts, has begun what is due up to %v", otherwise, start, at, begun)
			}
			if begun := starts.Begun(start.Add(-1)); !begun.Before(at) {
				t.Errorf("%s: before %v starts has begun what is due up to %v", otherwise, at, begun)
			}
			if woken, next := starts.Wakes(at.Add(-time.Nanosecond)); !woken.Equal(at) || !next.Equal(start) {
				t.Errorf("%s: before %v it wakes at %v for %v", otherwise, at, next, woken)
			}
		}
		end := monday.Add(17 * time.Hour) // the first due time that is left out
		if woken, next := starts.Wakes(end.Add(-20 * time.Minute)); !woken.IsZero() || !next.Equal(s.Wakes(end.Add(-20*time.Minute))) {
			t.Errorf("%s: at the end of the day it wakes at %v for %v", otherwise, next, woken)
		}
		for _, out := range []time.Time{end, end.Add(20 * time.Minute)} { // the last one of the night runs for them, when it ends
			if start, fires := starts.Of(out), s.Fires(out); otherwise == OtherwiseNext && !start.Equal(fires) || start.Before(fires) || !start.Before(fires.Add(job.Jitter)) {
				t.Errorf("%s: %v, which is left out, starts at %v", otherwise, out, start)
			}
		}
	}
}

// Nothing depends on when a job was read.
func TestJitterOfReplicasThatStartLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := Job{Schedules: []string{"*/15 8-18 * * MON-FRI", "H H LW * *"}, Timezone: "Europe/London", Jitter: 10 * time.Minute, Spread: time.Hour}
		s, one := startsOf(t, job, "report", "prod")
		time.Sleep(1009 * time.Second)
		_, other := startsOf(t, job, "report", "prod")
		due, _ := s.Between(monday, monday.Add(60*day), 1000)
		if len(due) < 100 || !slices.ContainsFunc(due, func(at time.Time) bool { return !one.Of(at).Equal(at) }) {
			t.Fatalf("%d due times, without jitter", len(due))
		}
		for _, at := range due {
			if !one.Of(at).Equal(other.Of(at)) {
				t.Errorf("due %v: %v, and %v when read later", at, one.Of(at), other.Of(at))
			}
		}
	})
}

// Where the clock jumps, two due times are closer to each other than usual: the first one starts before the second is due.
func TestJitterAtAJump(t *testing.T) {
	job := Job{Schedules: []string{"30 2 * * *", "1 3 * * *"}, Timezone: "America/New_York", Jitter: 30 * time.Minute, Handler: says("h")}
	if err := (Set{Jobs: map[string]Job{"j": job}}).Validate(); err != nil {
		t.Fatal(err)
	}
	jump := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC) // 2:00 EST, which is 3:00 EDT
	for n := range 20 {
		s, starts := startsOf(t, job, "j", fmt.Sprint(n))
		due, _ := s.Between(jump.Add(-time.Second), jump.Add(time.Hour), 9)
		if len(due) != 2 || !due[0].Equal(jump) || !due[1].Equal(jump.Add(time.Minute)) {
			t.Fatalf("due at %v", due)
		}
		if start := starts.Of(jump); start.Before(jump) || !start.Before(due[1]) || !starts.By(jump).Equal(due[1]) {
			t.Errorf("due at %v and at %v, and starts at %v", jump, due[1], start)
		}
		if end := starts.By(due[1]); !end.Equal(due[1].Add(job.Jitter)) {
			t.Errorf("due at %v, starts before %v", due[1], end)
		}
	}
}

// Without jitter all is as it is due.
func TestWithoutJitter(t *testing.T) {
	_, none := startsOf(t, Job{Schedule: "@hourly"}, "j", "prod")
	at := monday.Add(time.Nanosecond)
	if !none.Of(at).Equal(at) || !none.Begun(at).Equal(at) || !none.By(at).Equal(at) {
		t.Errorf("of %v, begun %v", none.Of(at), none.Begun(at))
	}
	if due, next := none.Wakes(at); !due.IsZero() || !next.Equal(monday.Add(time.Hour)) {
		t.Errorf("wakes at %v for %v", next, due)
	}
	if start := (Job{Jitter: time.Second}).Starts(nil, "j", "prod").Of(at); !start.Equal(at) {
		t.Errorf("without a schedule: %v", start)
	}
}

// A jitter that is not shorter than the distance of due times is an error that says so; a shorter one is none.
func TestJitterIsShorterThanTheGap(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		specs []string
		gap   time.Duration // the longest jitter that is too long; 0: none is
		says  string
	}{
		{[]string{"@every 30s"}, 30 * time.Second, "the due times of \"@every 30s\" are 30s apart"},
		{[]string{"* * * * * *"}, time.Second, "1s apart"},
		{[]string{"* * * * *"}, time.Minute, "1m0s apart"},
		{[]string{"0 * * * *"}, hour, "1h0m0s apart"},
		{[]string{"5,50 * * * *"}, 15 * time.Minute, "15m0s apart"},
		{[]string{"5,20,50 * * * *"}, 15 * time.Minute, ""},
		{[]string{"0,59 9 * * *"}, 59 * time.Minute, ""},
		{[]string{"0,59 9,10 * * *"}, time.Minute, ""},
		{[]string{"10,50 30 9,11 * * *"}, 40 * time.Second, ""},
		{[]string{"10 30 9,11 * * *"}, 2 * hour, ""},
		{[]string{"0,30 0 * * * *"}, 30 * time.Second, ""},
		{[]string{"0 0 * * *"}, day, ""},
		{[]string{"0 0,23 * * *"}, hour, ""},
		{[]string{"0 0 * * MON"}, 7 * day, ""},
		{[]string{"0 0 * * MON,TUE"}, day, ""},
		{[]string{"0 0 * * MON,WED"}, 2 * day, ""},
		{[]string{"0 9,17 * * MON"}, 8 * hour, ""},
		{[]string{"0 9,17 * * *"}, 8 * hour, ""},
		{[]string{"0 1,23 * * *"}, 2 * hour, ""},
		{[]string{"0 0 1 * *"}, 28 * day, ""},
		{[]string{"0 0 L * *"}, 28 * day, ""},
		{[]string{"0 0 1,L * *"}, day, ""},
		{[]string{"0 0 * * FRI#2"}, 28 * day, ""},
		{[]string{"0 0 1 1 *"}, 365 * day, ""},
		{[]string{"0 0 29 2 *"}, 0, ""}, // four years: longer than any jitter
		{[]string{"@at 2026-12-24T18:00:00Z", "@at 2026-12-24T18:00:01Z"}, 0, ""},
		{[]string{"0 * * * *", "@at 2026-12-24T18:00:01Z"}, hour, ""},
		{[]string{"0 * * * *", "1 * * * *"}, time.Minute, "its schedules are due 1m0s apart, as on Monday 1 January 2024 at 00:00:00 and at 00:01:00"},
		{[]string{"0 9 * * *", "5 9 * * SAT"}, 5 * time.Minute, "as on Saturday 6 January 2024 at 09:00:00 and at 09:05:00"},
		{[]string{"@every 1h", "30 0 * * * *"}, 30 * time.Second, ""},
		{[]string{"0 * * * *", "0 0 * * *"}, hour, ""}, // one moment is one due time
	} {
		valid := func(d time.Duration) string {
			job := Job{Schedules: c.specs, Jitter: d, Timezone: "Europe/London", Handler: says("h")}
			if job.Recurs() {
				job.Spread = 7 * time.Second
			}
			return text(Set{Jobs: map[string]Job{"j": job}}.Validate())
		}
		if c.gap == 0 {
			c.gap = 366*day + 1
		} else if said := valid(c.gap); !strings.Contains(said, "jobs.j.jitter: "+c.gap.String()+" is too long, as ") || !strings.Contains(said, cmp.Or(c.says, c.gap.String()+" apart")) {
			t.Errorf("%q, jitter %v: %q", c.specs, c.gap, said)
		}
		if said := valid((c.gap - 1).Truncate(time.Millisecond)); said != "" {
			t.Errorf("%q, jitter %v: %q", c.specs, c.gap-1, said)
		}
	}
}

// The shortest time of an expression is that between some of its due times, and there is no shorter one.
func TestShortestIsTheGapOfAnExpression(t *testing.T) {
	p := places(t)[0] // UTC, 45 days by the minute
	rapid.Check(t, func(t *rapid.T) {
		spec, _ := drawExpression(t, p)
		due, err := parseSpec(spec, time.UTC, seed{})
		if err != nil || due.rule == nil {
			return
		}
		d := time.Duration(rapid.Int64Range(1, int64(60*day)).Draw(t, "d"))
		got, least := shortest(due.rule, d), time.Duration(math.MaxInt64)
		s := &Schedule{rules: []rule{due.rule}}
		last := s.Next(gapsSince)
		for range 3000 {
			next := s.Next(last)
			if next.IsZero() {
				break
			}
			least, last = min(least, next.Sub(last)), next
		}
		if got <= d && least < got || least <= d && got > least {
			t.Fatalf("%s: %v, and due times are %v apart; asked for %v", spec, got, least, d)
		}
	})
}
