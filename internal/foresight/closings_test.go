package foresight

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The calendars of these tests, by what they are in words of a clock in UTC.
var (
	walked = map[string]func(t time.Time) bool{
		"weekend": func(t time.Time) bool { return t.Weekday() == time.Saturday || t.Weekday() == time.Sunday },
		"office":  func(t time.Time) bool { return t.Weekday()%6 != 0 && t.Hour() >= 9 && t.Hour() < 17 },
		"noon":    func(t time.Time) bool { return t.Hour() == 12 || t.Hour() == 13 && t.Minute() < 20 },
	}
	walkedSet = map[string]jobs.Calendar{"weekend": {Weekly: []string{"SAT,SUN"}}, "office": {Weekly: []string{"MON-FRI 09:00-17:00"}}, "noon": {Weekly: []string{"* 12:00-13:20"}}}
)

// allowed is what the definition of a job's calendars says of a moment.
func allowed(c jobs.JobCalendars, t time.Time) bool {
	for _, name := range c.Exclude {
		if walked[name](t) {
			return false
		}
	}
	for _, name := range c.Only {
		if !walked[name](t) {
			return false
		}
	}
	return true
}

// run is a due time that runs.
type run struct{ at, fires time.Time }

// walk finds what runs, and what is left out, minute by minute: due times from four days before to four days after a range are enough.
func walk(t *rapid.T, j jobs.Job, name string, from, to time.Time) (runs []run, closed map[jobs.Closure][]time.Time) {
	plain := j
	plain.Calendars = jobs.JobCalendars{}
	s, err := plain.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	dues, _ := s.Between(from.AddDate(0, 0, -4), to.AddDate(0, 0, 4), 1<<30)
	closed = map[jobs.Closure][]time.Time{}
	for i := 0; i < len(dues); i++ {
		if allowed(j.Calendars, dues[i]) {
			runs = append(runs, run{dues[i], dues[i]})
			continue
		}
		begin, end := dues[i].Truncate(time.Minute), dues[i].Truncate(time.Minute).Add(time.Minute)
		for begin.After(from) && !allowed(j.Calendars, begin.Add(-time.Minute)) {
			begin = begin.Add(-time.Minute)
		}
		for !allowed(j.Calendars, end) {
			end = end.Add(time.Minute)
		}
		last := i
		for last+1 < len(dues) && dues[last+1].Before(end) {
			last++
		}
		if last+1 == len(dues) { // it is not known what comes next
			break
		}
		if begin.Before(from) { // what is before the range does not count
			begin = from
		}
		closed[jobs.Closure{From: begin, Until: end}] = slices.DeleteFunc(slices.Clone(dues[i:last+1]), func(at time.Time) bool { return at.Before(from) || !at.Before(to) })
		if j.Calendars.Otherwise == jobs.OtherwiseNext && !dues[last+1].Equal(end) {
			runs = append(runs, run{dues[last], end})
		}
		i = last
	}
	return runs, closed
}

// What a simulation counts with jitter and calendars, and the closures that it lists, are those of a walk through all minutes.
func TestSimulationWithJitterAndCalendarsIsAWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := jobs.Set{Calendars: walkedSet, Jobs: map[string]jobs.Job{}}
		for i := range rapid.IntRange(1, 5).Draw(t, "jobs") {
			j := jobs.Job{
				Schedule: rapid.SampledFrom([]string{"*/20 * * * *", "0 * * * *", "30 */5 * * *", "0 9,13 * * *", "20 13 * * *", "@every 37m"}).Draw(t, "schedule"),
				Jitter:   rapid.SampledFrom([]time.Duration{0, 0, time.Second, 19 * time.Minute}).Draw(t, "jitter"),
				Calendars: rapid.SampledFrom([]jobs.JobCalendars{
					{}, {Exclude: []string{"weekend"}}, {Only: []string{"office"}}, {Exclude: []string{"noon"}}, {Exclude: []string{"noon"}, Only: []string{"office"}},
				}).Draw(t, "calendars"),
			}
			if j.Calendars.Any() && rapid.Bool().Draw(t, "next") {
				j.Calendars.Otherwise = jobs.OtherwiseNext
			}
			set.Jobs[fmt.Sprint("j", i)] = j
		}
		d, namespace := Compile(set), "a"
		from := start.Add(time.Duration(rapid.IntRange(0, 5*1440).Draw(t, "from")) * time.Minute)
		to := from.Add(time.Duration(rapid.IntRange(1, 3*1440).Draw(t, "minutes")) * time.Minute)
		var all []Simulated
		due, running := make([]int, int(to.Sub(from)/time.Minute)), make([]time.Duration, int(to.Sub(from)/time.Minute))
		type effect struct{ skipped, merged, runs int }
		want := map[jobs.Closure]effect{}
		const takes = 90 * time.Second
		for _, name := range slices.Sorted(maps.Keys(set.Jobs)) {
			j := set.Jobs[name]
			all = append(all, Simulated{Name: name, Schedule: d.Schedule(name), Starts: d.Starts(name, &namespace), Beside: true, Typical: takes})
			runs, closed := walk(t, j, name, from, to)
			for i, r := range runs {
				begin := d.Starts(name, &namespace).Of(r.at)
				latest := r.fires.Add(j.Jitter)
				if i+1 < len(runs) && runs[i+1].fires.Before(latest) {
					latest = runs[i+1].fires
				}
				if begin.Before(r.fires) || j.Jitter == 0 && begin.After(r.fires) || j.Jitter > 0 && !begin.Before(latest) {
					t.Fatalf("%s of %s starts at %s, fires at %s", name, r.at, begin, r.fires)
				}
				if begin.Before(from) || !begin.Before(to) {
					continue
				}
				due[int(begin.Sub(from)/time.Minute)]++
				for s := begin; s.Before(begin.Add(takes)) && s.Before(to); s = s.Add(time.Second / 2) {
					running[int(s.Sub(from)/time.Minute)] += time.Second / 2
				}
			}
			for c, dues := range closed {
				e := want[c]
				if n := len(dues); n > 0 && j.Calendars.Otherwise == jobs.OtherwiseNext {
					e.merged, e.runs = e.merged+n, e.runs+1
				} else {
					e.skipped += n
				}
				if want[c] = e; e == (effect{}) {
					delete(want, c)
				}
			}
		}
		s := Simulate(all, from, to, 1<<40)
		for m, minute := range s.Minutes {
			if minute.Due != due[m] || minute.Starts != due[m] || math.Abs(minute.Running-running[m].Seconds()/60) > 0.1 {
				t.Fatalf("minute %s: %+v, want %d due, %s run", from.Add(time.Duration(m)*time.Minute), minute, due[m], running[m])
			}
		}
		closings, cut := Closings(all, func(job string) jobs.JobCalendars { return set.Jobs[job].Calendars }, from, to, 9)
		got := map[jobs.Closure]effect{}
		for _, c := range closings {
			e := got[jobs.Closure{From: c.At, Until: c.Until}]
			got[jobs.Closure{From: c.At, Until: c.Until}] = effect{e.skipped + c.Skipped, e.merged + c.Merged, e.runs + c.Runs}
			sum := 0
			for _, j := range c.Jobs {
				sum += j.Count
			}
			if sum != c.Skipped+c.Merged || len(c.Calendars) == 0 {
				t.Fatalf("closure %+v", c)
			}
		}
		if !cut.IsZero() || !maps.Equal(got, want) {
			t.Fatalf("closures are\n%v\nwant\n%v", got, want)
		}
	})
}

// A closure names its calendars, and how many due times of which jobs it leaves out; of too many the list ends at a time, before which it is whole.
func TestClosings(t *testing.T) {
	set := jobs.Set{Calendars: walkedSet, Jobs: map[string]jobs.Job{
		"a": {Schedule: "0 * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}}},
		"b": {Schedule: "30 */6 * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}, Otherwise: jobs.OtherwiseNext}},
		"c": {Schedule: "20 3 * * *", Calendars: jobs.JobCalendars{Exclude: []string{"weekend"}, Otherwise: jobs.OtherwiseNext}},
		"d": {Schedule: "0 * * * *"},
	}}
	d := Compile(set)
	var all []Simulated
	for _, name := range slices.Sorted(maps.Keys(set.Jobs)) {
		all = append(all, Simulated{Name: name, Schedule: d.Schedule(name), Starts: d.Starts(name, nil)})
	}
	of := func(job string) jobs.JobCalendars { return set.Jobs[job].Calendars }
	got, cut := Closings(all, of, start, start.AddDate(0, 0, 5), 2)
	want := []Closing{{start, time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC), []string{"weekend"}, 36, 7, 2, []JobCount{{"a", 36}, {"b", 6}}, 1}}
	if fmt.Sprint(got) != fmt.Sprint(want) || !cut.IsZero() {
		t.Errorf("closures are %+v, cut %s, want %+v", got, cut, want)
	}
	minute := jobs.Set{Calendars: map[string]jobs.Calendar{"night": {Weekly: []string{"* 00:00-06:00"}}}}
	minute.Jobs = map[string]jobs.Job{"m": {Schedule: "0 * * * *", Calendars: jobs.JobCalendars{Exclude: []string{"night"}}}}
	one := Simulated{Name: "m", Schedule: Compile(minute).Schedule("m")}
	many := slices.Repeat([]Simulated{one}, closingsMost/10)
	got, cut = Closings(many, func(string) jobs.JobCalendars { return minute.Jobs["m"].Calendars }, start, start.AddDate(0, 0, 30), 1)
	if first := time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC); len(got) != 10 || !cut.Equal(first.AddDate(0, 0, 10)) || got[0].At != first || got[9].Skipped != 6*len(many) {
		t.Errorf("%d closures, cut at %s", len(got), cut)
	}
}
