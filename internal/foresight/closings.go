package foresight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Closing is one closure of calendars with the jobs whose due times it leaves out.
type Closing struct {
	At        time.Time // UTC; the beginning of the range, if it has begun before
	Until     time.Time // when it ends; zero: it does not, as far as the calendars are known
	Calendars []string  // that leave due times out, sorted
	Skipped   int       // due times in the range that do not run
	Merged    int       // due times in the range that become Runs, at the end
	Runs      int
	Jobs      []JobCount // how many due times of each, those with the most first
	More      int        // jobs beside these
}

const (
	closuresMost = 10_000  // of one choice of calendars
	closingsMost = 100_000 // of all jobs, each one counted by arithmetic
)

// Closings are the closures in which calendars leave out due times that are from from on and before to, in the order of time, each with at most names of
// its jobs. Where there are more than can be counted, 100,000 of all jobs together, the list ends: then it is right before cut, which
// else is zero. calendars are those of a job.
func Closings(all []Simulated, calendars func(job string) jobs.JobCalendars, from, to time.Time, names int) (closings []Closing, cut time.Time) {
	type closure struct {
		jobs.Closure
		of   []int // jobs
		next bool
	}
	groups, order := map[string][]int{}, []string(nil)
	for i, j := range all {
		c := calendars(j.Name)
		if !c.Any() {
			continue
		}
		key := fmt.Sprintf("%q", c)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	var closures []closure
	for _, key := range order {
		of := groups[key]
		some, more := all[of[0]].Schedule.Closures(from, to, closuresMost)
		for _, c := range some {
			closures = append(closures, closure{c, of, calendars(all[of[0]].Name).Otherwise == jobs.OtherwiseNext})
		}
		if last := len(some) - 1; more && (cut.IsZero() || some[last].From.Before(cut)) {
			cut = some[last].From
		}
	}
	slices.SortStableFunc(closures, func(a, b closure) int { return a.From.Compare(b.From) })
	counted := 0
	for _, c := range closures {
		if counted += len(c.of); counted > closingsMost && counted > len(c.of) && (cut.IsZero() || c.From.Before(cut)) {
			cut = c.From
		}
		if !cut.IsZero() && !c.From.Before(cut) {
			break
		}
		end := to
		if !c.Until.IsZero() && c.Until.Before(end) {
			end = c.Until
		}
		byNames := map[string]*Closing{}
		for _, i := range c.of {
			count, merged, by := leftOut(all[i].Schedule, c.From, end)
			if count+merged == 0 {
				continue
			}
			key := strings.Join(by, "\n")
			one := byNames[key]
			if one == nil {
				one = &Closing{At: c.From, Until: c.Until, Calendars: by}
				byNames[key] = one
			}
			one.Jobs = append(one.Jobs, JobCount{all[i].Name, count + merged})
			if c.next && !c.Until.IsZero() {
				one.Merged, one.Runs = one.Merged+count+merged, one.Runs+1
			} else {
				one.Skipped += count
			}
		}
		for _, one := range byNames {
			closings = append(closings, *one)
		}
	}
	closings = joined(closings)
	for i := range closings {
		closings[i].Jobs, closings[i].More = first(closings[i].Jobs, names)
	}
	return closings, cut
}

// leftOut counts the due times of a closure that do not run, and the one that runs when it ends, if that is one of them. by are the calendars.
func leftOut(s *jobs.Schedule, from, end time.Time) (count, merged int, by []string) {
	stretches, _ := s.LeftOut(from.Add(-time.Nanosecond), end.Add(-time.Nanosecond), closuresMost)
	for _, o := range stretches {
		count, by = count+o.Count, append(by, o.Calendar)
	}
	for at := s.Next(from.Add(-time.Nanosecond)); !at.IsZero() && at.Before(end); at = s.Next(at) { // one at most
		merged, by = merged+1, append(by, s.Closed(at))
	}
	slices.Sort(by)
	return count, merged, slices.Compact(by)
}

// joined are the closings in order; those of one time and the same calendars, of jobs with different others, are one.
func joined(all []Closing) []Closing {
	slices.SortFunc(all, func(a, b Closing) int {
		return cmp.Or(a.At.Compare(b.At), a.Until.Compare(b.Until), slices.Compare(a.Calendars, b.Calendars))
	})
	kept := all[:0]
	for _, c := range all {
		if n := len(kept); n > 0 && kept[n-1].At.Equal(c.At) && kept[n-1].Until.Equal(c.Until) && slices.Equal(kept[n-1].Calendars, c.Calendars) {
			last := &kept[n-1]
			last.Skipped, last.Merged, last.Runs = last.Skipped+c.Skipped, last.Merged+c.Merged, last.Runs+c.Runs
			last.Jobs = append(last.Jobs, c.Jobs...)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}
