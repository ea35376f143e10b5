package foresight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// closedSet has jobs that start later than they are due, in all ways, and one of each other kind. start is a Saturday.
func closedSet() jobs.Set {
	return jobs.Set{
		Calendars: map[string]jobs.Calendar{"weekend": {Weekly: []string{"SAT,SUN"}}, "office": {Weekly: []string{"MON-FRI 09:00-17:00"}}, "never": {}},
		Jobs: map[string]jobs.Job{
			"often":   {Schedule: "*/7 * * * *"},
			"jittery": {Schedule: "0 */2 * * *", Jitter: time.Hour},
			"monday":  {Schedule: "30 */5 * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}, Otherwise: jobs.OtherwiseNext}},
			"both":    {Schedule: "15 */3 * * *", Jitter: 30 * time.Minute, Calendars: jobs.JobCalendars{Only: []string{"office"}, Otherwise: jobs.OtherwiseNext}},
			"skips":   {Schedule: "*/20 * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}}},
			"never":   {Schedule: "@hourly", Calendars: jobs.JobCalendars{Only: []string{"never"}}},
			"once":    {Schedule: "@at 2026-03-29T13:00:00Z"},
			"by-hand": {},
		},
	}
}

// Asked at any moments, each later than the last or not, it has the jobs that start first then.
func TestWhoStartsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := closedSet()
		d := Compile(set)
		at := start
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			at = at.Add(time.Duration(rapid.IntRange(-2*3600, 30*3600).Draw(t, "seconds")) * time.Second)
			var namespace *string
			if rapid.Bool().Draw(t, "known") {
				namespace = new(rapid.SampledFrom([]string{"", "a"}).Draw(t, "namespace"))
			}
			var want []Due
			for job := range set.Jobs {
				times := d.Schedule(job)
				if times == nil {
					continue
				}
				starts := d.Starts(job, namespace)
				for due := times.Next(at.Add(-4 * 24 * time.Hour)); !due.IsZero(); due = times.Next(due) { // a walk, past all that can wait
					if from := starts.Of(due); from.After(at) {
						want = append(want, Due{job, due, from})
						break
					}
				}
			}
			slices.SortFunc(want, func(a, b Due) int { return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.Job, b.Job)) })
			n := rapid.IntRange(1, 9).Draw(t, "n")
			want = want[:min(n, len(want))]
			var got []Due
			for _, c := range d.First(namespace, at, n) {
				got = append(got, c.Due)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after %s first are\n%v\nwant\n%v", at, got, want)
			}
		}
	})
}

// Of 100,000 jobs whose calendar is closed for days each is looked at once, and then none, until one starts.
func TestWhoStartsFirstLooksAtEachJobOnce(t *testing.T) {
	set := jobs.Set{Calendars: map[string]jobs.Calendar{"weekend": {Weekly: []string{"SAT,SUN"}}}, Jobs: map[string]jobs.Job{"open": {Schedule: "@hourly"}}}
	closed := jobs.Job{Schedule: "* * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}}}
	for i := range 100_000 {
		set.Jobs[fmt.Sprintf("job-%05d", i)] = closed
	}
	compiler := set.Compiler()
	once, err := compiler.Compile("", closed)
	if err != nil {
		t.Fatal(err)
	}
	open, looks := compiled(t, set.Jobs["open"], "open"), 0
	d := Define(set, func(job string) *jobs.Schedule {
		if looks++; job == "open" {
			return open
		}
		return once
	}, nil)
	for i := range 30 {
		got := d.First(nil, start.Add(time.Duration(i)*time.Minute), 3)
		if len(got) != 3 || got[0].Job != "open" || got[1].Job != "job-00000" || got[2].Start != time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC) {
			t.Fatalf("first are %v", got)
		}
	}
	if want := 2 * len(set.Jobs); looks > want {
		t.Errorf("%d looks at schedules, want %d at most", looks, want)
	}
}

// Those who ask at once get answers of one moment.
func TestManyAskAtOnce(t *testing.T) {
	d := Compile(closedSet())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				at := start.Add(time.Duration(j*10-i) * time.Millisecond)
				if got := d.First(nil, at, 2); len(got) != 2 || !got[0].Start.After(at) {
					t.Errorf("first are %v", got)
				}
			}
		})
	}
	all.Wait()
}
