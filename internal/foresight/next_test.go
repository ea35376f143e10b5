package foresight

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

var start = time.Date(2026, time.March, 28, 12, 0, 0, 0, time.UTC)

func compiled(t testing.TB, j jobs.Job, name string) *jobs.Schedule {
	t.Helper()
	s, err := j.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func take(n int, all []Coming) (due []Due) {
	for d := range Merge(all) {
		if due = append(due, d); len(due) == n {
			break
		}
	}
	return due
}

// The merged due times are those of all jobs, sorted.
func TestDueTimesAreMerged(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		var all []Coming
		var want []Due
		for i := range 1 + rnd.IntN(40) {
			name := fmt.Sprintf("job-%d", i)
			s := compiled(t, jobs.Job{Schedule: []string{"*/7 * * * *", "H * * * *", "@every 90s", "30 2 * * *", "@at 2026-03-28T13:00:00Z", "0 0 * * MON"}[rnd.IntN(6)]}, name)
			if c, ok := After(name, s, jobs.Job{}.Starts(s, name, ""), start); ok {
				all = append(all, c)
			}
			due, _ := s.Between(start, start.Add(48*time.Hour), 1<<30)
			for _, at := range due {
				want = append(want, Due{name, at, at})
			}
		}
		slices.SortFunc(want, func(a, b Due) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Job, b.Job)) })
		got := take(len(want), all)
		if len(got) != len(want) {
			t.Fatalf("%d due times, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("due time %d is %v, want %v", i, got[i], want[i])
			}
		}
	}
}

// A job without further due times leaves the others alone, and so does one without a schedule, which has its first one.
func TestWhatEndsLeavesTheOthers(t *testing.T) {
	once := compiled(t, jobs.Job{Schedule: "@at 2026-03-28T13:00:00Z"}, "once")
	plain := func(s *jobs.Schedule) jobs.Starts { return jobs.Job{}.Starts(s, "", "") }
	if _, ok := After("once", once, plain(once), start.Add(time.Hour)); ok {
		t.Error("a schedule that is over has a due time")
	}
	c, ok := After("once", once, plain(once), start)
	if !ok {
		t.Fatal("@at has no due time")
	}
	hour := func(h int) time.Time { return start.Add(time.Duration(h) * time.Hour) }
	due := func(job string, h int) Due { return Due{job, hour(h), hour(h)} }
	ended := compiled(t, jobs.Job{Schedule: "@hourly", EndsAt: hour(3)}, "ended")
	e, _ := After("ended", ended, plain(ended), start)
	want := []Due{due("unknown", 0), due("ended", 1), due("once", 1), due("ended", 2)}
	if got := take(100, []Coming{c, {Due: due("unknown", 0)}, e}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := take(1, nil); got != nil {
		t.Errorf("no jobs have %v", got)
	}
}

// The first of 100,000 jobs' due times do not cost a sort of all.
func TestManyJobsAreMergedLazily(t *testing.T) {
	every := compiled(t, jobs.Job{Schedule: "@hourly"}, "")
	all := make([]Coming, 100_000)
	for i := range all {
		at := start.Add(time.Duration(len(all)-i) * time.Second)
		all[i] = Coming{Due{fmt.Sprint(i), at, at}, every, jobs.Job{}.Starts(every, "", "")}
	}
	got := take(3, all)
	if len(got) != 3 || got[0].Job != "99999" || got[2].At != start.Add(3*time.Second) {
		t.Errorf("got %v", got)
	}
}

// The order is that of the starts: after jitter, and at the ends of closures.
func TestDueTimesAreInTheOrderOfStarts(t *testing.T) {
	set := closedSet()
	d, name := Compile(set), "cluster"
	var all []Coming
	for job := range set.Jobs {
		if d.Schedule(job) == nil {
			continue
		}
		if c, ok := After(job, d.Schedule(job), d.Starts(job, &name), start); ok {
			all = append(all, c)
		}
	}
	last, seen := Due{}, map[string]int{}
	for _, due := range take(500, all) {
		if due.Start.Before(last.Start) || !due.Start.Equal(d.Starts(due.Job, &name).Of(due.At)) {
			t.Errorf("%v comes after %v", due, last)
		}
		if due.Start.After(due.At) {
			seen[due.Job]++
		}
		last = due
	}
	if seen["jittery"] == 0 || seen["monday"] == 0 {
		t.Errorf("later than due are %v", seen)
	}
}
