package foresight

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Busy is one of the busiest minutes.
type Busy struct {
	At time.Time
	Minute
	Jobs []JobCount // with due times in it, those with the most first
	More int        // jobs beside these
}

// JobCount is a number of due times of a job.
type JobCount struct {
	Job   string
	Count int
}

// Busiest are the n minutes of a simulation with the most starts, the earlier one first of equals, each with its jobs, at most names of them.
// Minutes without a start are not among them.
func (s Simulation) Busiest(all []Simulated, n, names int) []Busy {
	order := make([]int, 0, n+1)
	less := func(a, b int) int { return cmp.Or(s.Minutes[b].Starts-s.Minutes[a].Starts, a-b) }
	for m := range s.Minutes {
		if s.Minutes[m].Starts == 0 || len(order) == n && (n == 0 || less(m, order[n-1]) > 0) {
			continue
		}
		i, _ := slices.BinarySearchFunc(order, m, less)
		order = slices.Insert(order, i, m)
		order = order[:min(len(order), n)]
	}
	busiest := make([]Busy, 0, len(order))
	for _, m := range order {
		b := Busy{At: s.From.Add(time.Duration(m) * time.Minute), Minute: s.Minutes[m]}
		end := b.At.Add(time.Minute)
		if end.After(s.To) {
			end = s.To
		}
		for _, j := range all {
			due := 0
			for at, starts := j.first(b.At); !at.IsZero() && starts.Before(end); at, starts = j.after(at) {
				due++
			}
			if due > 0 {
				b.Jobs = append(b.Jobs, JobCount{j.Name, due})
			}
		}
		b.Jobs, b.More = first(b.Jobs, names)
		busiest = append(busiest, b)
	}
	return busiest
}

// first are the n jobs with the largest counts, and how many there are beside them.
func first(all []JobCount, n int) (some []JobCount, more int) {
	slices.SortFunc(all, func(a, b JobCount) int { return cmp.Or(b.Count-a.Count, compareNames(a.Job, b.Job)) })
	kept := min(n, len(all))
	return slices.Clone(all[:kept]), len(all) - kept
}

func compareNames(a, b string) int { return strings.Compare(a, b) }

// Step is a part of a simulation in steps.
type Step struct {
	At      time.Time
	Due     int
	Starts  int
	Peak    int     // the most starts in one of its minutes
	Running float64 // the most that run at once, on average over one of its minutes
}

// Steps adds up the minutes of each step, which is a number of whole minutes and begins with From. The last one may be shorter.
func (s Simulation) Steps(step time.Duration) []Step {
	each := max(int(step/time.Minute), 1)
	steps := make([]Step, 0, len(s.Minutes)/each+1)
	for i := 0; i < len(s.Minutes); i += each {
		one := Step{At: s.From.Add(time.Duration(i) * time.Minute)}
		for _, m := range s.Minutes[i:min(i+each, len(s.Minutes))] {
			one.Due, one.Starts = one.Due+m.Due, one.Starts+m.Starts
			one.Peak, one.Running = max(one.Peak, m.Starts), max(one.Running, m.Running)
		}
		steps = append(steps, one)
	}
	return steps
}
