package foresight

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

func simulated(t testing.TB, name string, j jobs.Job, typical, long time.Duration) Simulated {
	times := compiled(t, j, name)
	return Simulated{Name: name, Schedule: times, Starts: j.Starts(times, name, ""), Concurrency: j.WithDefaults().Concurrency, Beside: j.Concurrency == jobs.Allow || j.MaxRunning > 1, Typical: typical, Long: long}
}

// at is a moment of the hour after start.
func at(minute, second int) time.Time {
	return start.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
}

// A job that takes 12 minutes and is due every 10: forbid skips each second due time, allow runs them side by side.
func TestRunsThatAreInTheWay(t *testing.T) {
	job := jobs.Job{Schedule: "*/10 * * * *"}
	beside := jobs.Job{Schedule: "*/10 * * * *", Concurrency: jobs.Allow}
	short := simulated(t, "short", job, time.Minute, 9*time.Minute)
	exact := simulated(t, "exact", job, 10*time.Minute, 10*time.Minute)
	all := []Simulated{simulated(t, "beside", beside, 12*time.Minute, 12*time.Minute), simulated(t, "a", job, time.Minute, 12*time.Minute), simulated(t, "b", job, 25*time.Minute, 25*time.Minute), short, exact}
	s := Simulate(all, start, start.Add(2*time.Hour), 1000)
	want := []Overlap{{"beside", jobs.Allow, 12 * time.Minute, 12, 11}, {"b", jobs.Forbid, 25 * time.Minute, 12, 8}, {"a", jobs.Forbid, 12 * time.Minute, 12, 6}}
	if !slices.Equal(s.Overlaps, want) {
		t.Errorf("overlaps are %+v, want %+v", s.Overlaps, want)
	}
	// b starts each third time by its typical duration, the others each time.
	if s.Due != 5*12 || s.Starts != 4*12+4 {
		t.Errorf("%d due times, %d starts", s.Due, s.Starts)
	}
}

// How much runs in a minute is the time of all runs in it by its length.
func TestRunningIsTheTimeOfRuns(t *testing.T) {
	all := []Simulated{
		simulated(t, "within", jobs.Job{Schedule: "10 5 12 * * *"}, 30*time.Second, 0),
		simulated(t, "across", jobs.Job{Schedule: "30 10 12 * * *"}, 2*time.Minute, 0),
		simulated(t, "to the end of one", jobs.Job{Schedule: "0 20 12 * * *"}, time.Minute, 0),
		simulated(t, "beyond the range", jobs.Job{Schedule: "0 58 12 * * *"}, time.Hour, 0),
		simulated(t, "unknown", jobs.Job{Schedule: "0 1 12 * * *"}, 0, 0),
	}
	s := Simulate(all, start, start.Add(time.Hour), 1000)
	want := map[int]float64{5: 0.5, 10: 0.5, 11: 1, 12: 0.5, 20: 1, 58: 1, 59: 1}
	for m, minute := range s.Minutes {
		if math.Abs(minute.Running-want[m]) > 1e-9 {
			t.Errorf("minute %d: %v run, want %v", m, minute.Running, want[m])
		}
	}
	if len(s.Minutes) != 60 || s.Minutes[1] != (Minute{Due: 1, Starts: 1}) {
		t.Errorf("%d minutes, %+v", len(s.Minutes), s.Minutes[1])
	}
}

// What is counted in windows is what a plain walk through each job's due times counts, for any bound of them up to where counting ended.
func TestSimulationIsAWalk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	specs := []string{"*/7 * * * *", "H * * * *", "@every 90s", "30 2 * * *", "* * * * *", "*/13 * * * * *", "0 0 * * MON", "30 1 29 3 *"}
	cuts := 0
	for round := range 30 {
		var all []Simulated
		for i := range 1 + rnd.IntN(12) {
			j := jobs.Job{Schedule: specs[rnd.IntN(len(specs))], Timezone: []string{"UTC", "Europe/London"}[rnd.IntN(2)]}
			if rnd.IntN(2) == 0 {
				j.Concurrency = jobs.Allow
			}
			d := time.Duration(rnd.IntN(1200)) * time.Second
			all = append(all, simulated(t, fmt.Sprint("j", i), j, d/2, d))
		}
		to := start.Add(time.Duration(1+rnd.IntN(20*60)) * time.Minute)
		most := []int{1 << 40, 1 + rnd.IntN(5_000)}[round%2]
		got := Simulate(all, start, to, most)
		if got.Cut != got.To.Before(to) || got.Cut && got.To.Sub(start)%time.Minute != 0 || most > 1<<30 && got.Cut {
			t.Fatalf("round %d: it ends at %s of %s, cut %v", round, got.To, to, got.Cut)
		}
		if got.Cut {
			cuts++
		}
		due, starts, running := make([]int, len(got.Minutes)), make([]int, len(got.Minutes)), make([]time.Duration, len(got.Minutes))
		var overlaps []Overlap
		for _, j := range all {
			times, _ := j.Schedule.Between(start.Add(-time.Nanosecond), got.To.Add(-time.Nanosecond), 1<<30)
			o := Overlap{j.Name, j.Concurrency, j.Long, len(times), 0}
			var free, long time.Time
			for _, at := range times {
				m := int(at.Sub(start) / time.Minute)
				due[m]++
				if at.Before(long) {
					o.Found++
				}
				if j.Concurrency == jobs.Allow || !at.Before(long) {
					long = at.Add(j.Long)
				}
				if j.Concurrency == jobs.Forbid && at.Before(free) {
					continue
				}
				free = at.Add(j.Typical)
				starts[m]++
				for s := at; s.Before(free) && s.Before(got.To); s = s.Add(time.Second) {
					running[int(s.Sub(start)/time.Minute)] += min(time.Second, free.Sub(s))
				}
			}
			if o.Found > 0 {
				overlaps = append(overlaps, o)
			}
		}
		slices.SortStableFunc(overlaps, func(a, b Overlap) int {
			if a.Found != b.Found {
				return b.Found - a.Found
			}
			return compareNames(a.Job, b.Job)
		})
		if !slices.Equal(got.Overlaps, overlaps) {
			t.Errorf("round %d: overlaps are %+v, want %+v", round, got.Overlaps, overlaps)
		}
		for m, minute := range got.Minutes {
			if minute.Due != due[m] || minute.Starts != starts[m] || math.Abs(minute.Running-running[m].Seconds()/60) > 0.02 {
				t.Fatalf("round %d, minute %d: %+v, want %d due, %d starts, %s", round, m, minute, due[m], starts[m], running[m])
			}
		}
	}
	if cuts < 2 {
		t.Errorf("%d rounds were cut", cuts)
	}
}

// A year of 10,000 jobs, each due every second, ends: it is cut after the first minute.
func TestTooMuchIsCut(t *testing.T) {
	every := compiled(t, jobs.Job{Schedule: "@every 1s"}, "")
	all := slices.Repeat([]Simulated{{Schedule: every, Starts: jobs.Job{}.Starts(every, "", "")}}, 10_000)
	s := Simulate(all, start, start.AddDate(1, 0, 0), 100_000)
	if !s.Cut || s.To != start.Add(time.Minute) || s.Due != 600_000 || len(s.Minutes) != 1 {
		t.Errorf("it ends at %s with %d due times in %d minutes", s.To, s.Due, len(s.Minutes))
	}
	// Windows that have grown are cut as well, at their beginning.
	late := compiled(t, jobs.Job{Schedule: "@every 1s", StartsAt: start.AddDate(0, 6, 0)}, "")
	s = Simulate(slices.Repeat([]Simulated{{Schedule: late, Starts: jobs.Job{}.Starts(late, "", "")}}, 1000), start, start.AddDate(1, 0, 0), 10_000)
	if !s.Cut || s.Due != 0 || s.To.Before(start.AddDate(0, 5, 25)) || s.To.After(start.AddDate(0, 6, 0)) {
		t.Errorf("it ends at %s with %d due times", s.To, s.Due)
	}
	if s = Simulate(nil, start, start.AddDate(3, 0, 0), 1); s.To != start.Add(MaxRange) || s.Cut {
		t.Errorf("three years end at %s", s.To)
	}
}

func TestBusiestMinutes(t *testing.T) {
	all := []Simulated{
		simulated(t, "a", jobs.Job{Schedule: "5 * * * *"}, 0, 0),
		simulated(t, "b", jobs.Job{Schedule: "5,30 * * * *"}, 0, 0),
		simulated(t, "often", jobs.Job{Schedule: "*/20 30 * * * *"}, 0, 0),
	}
	s := Simulate(all, start, start.Add(time.Hour), 1000)
	want := []Busy{
		{at(30, 0), s.Minutes[30], []JobCount{{"often", 3}}, 1},
		{at(5, 0), s.Minutes[5], []JobCount{{"a", 1}}, 1},
	}
	if got := s.Busiest(all, 5, 1); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("busiest are %+v, want %+v", got, want)
	}
	if got := s.Busiest(all, 1, 9); len(got) != 1 || fmt.Sprint(got[0].Jobs) != "[{often 3} {b 1}]" || got[0].Starts != 4 {
		t.Errorf("the busiest is %+v", got)
	}
	if got := s.Busiest(all, 0, 9); len(got) != 0 {
		t.Errorf("none are %+v", got)
	}
}

func TestSteps(t *testing.T) {
	s := Simulation{From: start, Minutes: []Minute{{1, 1, 0.5}, {4, 3, 2}, {0, 0, 1}, {2, 2, 3}, {5, 5, 0}}}
	want := []Step{{start, 5, 4, 3, 2}, {at(2, 0), 2, 2, 2, 3}, {at(4, 0), 5, 5, 5, 0}}
	if got := s.Steps(2 * time.Minute); !slices.Equal(got, want) {
		t.Errorf("steps are %+v, want %+v", got, want)
	}
	if got := s.Steps(0); len(got) != 5 {
		t.Errorf("steps of no length are %+v", got)
	}
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		runs          []time.Duration
		typical, long time.Duration
	}{
		{nil, 0, 0}, {[]time.Duration{7}, 7, 7}, {[]time.Duration{9, 1}, 1, 9}, {[]time.Duration{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 9}, {[]time.Duration{3, 1, 2}, 2, 3},
	} {
		if typical, long := Lengths(slices.Clone(c.runs)); typical != c.typical || long != c.long {
			t.Errorf("of %v: %d and %d", c.runs, typical, long)
		}
	}
}

// Jumps are told apart by what they change, and by zone.
func TestShifts(t *testing.T) {
	in := map[string]string{"nightly": "Europe/London", "often": "Europe/London", "berlin": "Europe/Berlin", "utc": "UTC", "twice": "Europe/London"}
	var all []Simulated
	for name, spec := range map[string]string{"nightly": "30 1 * * *", "twice": "15,45 1 * * *", "often": "*/20 * * * *", "berlin": "30 2 * * *", "utc": "30 1 * * *"} {
		all = append(all, simulated(t, name, jobs.Job{Schedule: spec, Timezone: in[name]}, 0, 0))
	}
	zone := func(job string) string { return in[job] }
	from, to := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)
	show := func(all []Shift) (text string) {
		for _, s := range all {
			text += fmt.Sprintln(s.At.Format("01-02T15:04"), s.Zone, s.By, s.Change, s.First.Format("15:04"), s.Jobs, s.More)
		}
		return text
	}
	want := "03-29T01:00 Europe/Berlin 1h0m0s moved 02:30 [{berlin 1}] 0\n" +
		"03-29T01:00 Europe/London 1h0m0s moved 01:15 [{twice 2}] 1\n" +
		"03-29T01:00 Europe/London 1h0m0s skipped 01:00 [{often 3}] 0\n"
	if got := show(Shifts(all, zone, from, to, 1)); got != want {
		t.Errorf("shifts are\n%swant\n%s", got, want)
	}
	if got := show(Shifts(all, zone, from.Add(time.Second), to.Add(time.Second), 1)); got != "10-25T01:00 Europe/London -1h0m0s repeated 01:00 [{often 3}] 0\n" {
		t.Errorf("shifts are\n%s", got)
	}
}

// Only forbid with one slot skips what finds a run: with other policies, and with room for several, each due time starts one.
func TestWhatFindsARun(t *testing.T) {
	for name, c := range map[string]struct {
		job    jobs.Job
		starts int
	}{
		"forbid":  {jobs.Job{}, 6},
		"several": {jobs.Job{MaxRunning: 3}, 12},
		"queue":   {jobs.Job{Concurrency: jobs.Queue}, 12},
		"replace": {jobs.Job{Concurrency: jobs.Replace}, 12},
		"allow":   {jobs.Job{Concurrency: jobs.Allow}, 12},
	} {
		c.job.Schedule = "*/10 * * * *"
		s := Simulate([]Simulated{simulated(t, name, c.job, 12*time.Minute, 12*time.Minute)}, start, start.Add(2*time.Hour), 1000)
		if s.Starts != c.starts || len(s.Overlaps) != 1 || s.Overlaps[0].Found < 6 {
			t.Errorf("%s: %d starts, %+v", name, s.Starts, s.Overlaps)
		}
	}
}
