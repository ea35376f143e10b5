package foresight

import (
	"slices"
	"time"
)

// Change is what a jump of a clock does to due times.
type Change string

const (
	Moved    Change = "moved"    // they are due at the jump, as the clock jumps over what they name
	Skipped  Change = "skipped"  // they are not due at all
	Repeated Change = "repeated" // they are due twice, as the clock shows what they name twice
)

// Shift is one jump of a zone's clock with the jobs whose due times it changes in one way.
type Shift struct {
	At     time.Time // UTC
	Zone   string
	By     time.Duration // how far the clock jumps ahead; negative: it is set back
	Change Change
	First  time.Time  // the first reading of the clock that this is about: a UTC time with the fields that the clock shows
	Jobs   []JobCount // how many due times of each, those with the most first
	More   int        // jobs beside these
}

// Shifts are the jumps of clocks from from on and before to that change due times, in the order of time, each with at most names of its jobs. zone
// is that of a job.
func Shifts(all []Simulated, zone func(job string) string, from, to time.Time, names int) []Shift {
	type key struct {
		at     int64
		zone   string
		change Change
	}
	found := map[key]*Shift{}
	for _, j := range all {
		for _, jump := range j.Schedule.Jumps(from.Add(-time.Nanosecond), to.Add(-time.Nanosecond)) {
			for _, part := range []struct {
				change Change
				count  int
			}{{Moved, jump.Moved}, {Skipped, jump.Skipped}, {Repeated, jump.Repeated}} {
				if part.count == 0 {
					continue
				}
				k := key{jump.At.UnixNano(), zone(j.Name), part.change}
				s := found[k]
				if s == nil {
					s = &Shift{At: jump.At, Zone: k.zone, By: jump.By, Change: part.change, First: jump.First}
					found[k] = s
				}
				if jump.First.Before(s.First) {
					s.First = jump.First
				}
				s.Jobs = append(s.Jobs, JobCount{j.Name, part.count})
			}
		}
	}
	shifts := make([]Shift, 0, len(found))
	for _, s := range found {
		s.Jobs, s.More = first(s.Jobs, names)
		shifts = append(shifts, *s)
	}
	slices.SortFunc(shifts, func(a, b Shift) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		if c := compareNames(a.Zone, b.Zone); c != 0 {
			return c
		}
		return compareNames(string(a.Change), string(b.Change))
	})
	return shifts
}
