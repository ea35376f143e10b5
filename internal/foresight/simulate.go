package foresight

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// MaxRange is the longest range of a simulation.
	MaxRange = 366 * 24 * time.Hour
	// longestWindow is how much of the range is counted for one job before it is the turn of the next one.
	longestWindow = 24 * time.Hour
)

// Simulated is a job of a simulation.
type Simulated struct {
	Name        string
	Schedule    *jobs.Schedule
	Starts      jobs.Starts // of Schedule
	Concurrency jobs.Concurrency
	// Beside says that runs of the job do not hinder the next one: concurrency allow, or room for several.
	Beside bool
	// Typical and Long say how long a run of the job takes: half of the past ones took Typical at most, nine of ten Long. Zero: unknown, no run
	// is expected to be in the way of the next one.
	Typical, Long time.Duration
}

// Minute is what is expected of one minute.
type Minute struct {
	Due     int     // due times that are to start in it: with jitter, and at the ends of closures, later than they are due
	Starts  int     // of these, those that start a run, if runs take as long as is typical
	Running float64 // runs at once, on average over the minute; only of jobs with a known duration
}

// Overlap is a job with due times that find an earlier run, if runs take Long.
type Overlap struct {
	Job         string
	Concurrency jobs.Concurrency
	Long        time.Duration
	Due         int // due times of the job
	Found       int // of these, those that find an earlier run: what becomes of them is for the concurrency
}

// Simulation is what a range of time has to come. Runs that began before it are not in it.
type Simulation struct {
	From, To time.Time // To is where counting ended: a whole minute before the end of the range if there was too much
	Cut      bool
	Due      int
	Starts   int
	Minutes  []Minute  // from From on
	Overlaps []Overlap // by the number of due times that find a run, the largest first
}

// Simulate counts the due times of jobs that are to start from from on and before to, minute by minute. Its memory is that of the minutes and one entry for each
// job, whatever the number of due times. It ends once it has counted most due times or somewhat more: then Cut is true, and what it
// says is right up to To. From is on a whole minute; longer than MaxRange, the range ends there.
func Simulate(all []Simulated, from, to time.Time, most int) Simulation {
	if to.Sub(from) > MaxRange {
		to = from.Add(MaxRange)
	}
	c := newCount(all, from, to)
	counted := 0
	for begin, window := from, time.Minute; begin.Before(to); {
		end := begin.Add(window)
		if end.After(to) {
			end = to
		}
		c.keep()
		within, whole := c.through(all, end, most-counted, window > time.Minute)
		if !whole {
			c.undo()
			return c.result(all, begin, true)
		}
		counted, begin = counted+within, end
		if counted >= most && begin.Before(to) {
			return c.result(all, begin, true)
		}
		switch {
		case within > most/64:
			window = max(window/2, time.Minute)
		case within < most/256:
			window = min(window*2, longestWindow)
		}
	}
	return c.result(all, to, false)
}

// count is a simulation that goes on. Each job has a forecast, and each minute three sums.
type count struct {
	from    time.Time
	jobs    []forecast
	kept    []forecast // as they were at the beginning of a window
	due     []uint32   // by minute
	starts  []uint32
	partial []time.Duration // of the runs that begin or end within the minute, how long they run in it
	whole   []int32         // the change of how many run from the minute's beginning to its end
}

// forecast is what is known of a job so far.
type forecast struct {
	next       time.Time // due time; zero: none
	start      time.Time // of that
	free, long time.Time // when its last run ends, if it takes as long as is typical, or Long
	due, found int
}

func newCount(all []Simulated, from, to time.Time) *count {
	minutes := int((to.Sub(from) + time.Minute - 1) / time.Minute)
	c := &count{
		from: from, jobs: make([]forecast, len(all)),
		due: make([]uint32, minutes), starts: make([]uint32, minutes), partial: make([]time.Duration, minutes), whole: make([]int32, minutes+1),
	}
	for i, j := range all {
		c.jobs[i].next, c.jobs[i].start = j.first(from)
	}
	return c
}

func (c *count) keep() { c.kept = append(c.kept[:0], c.jobs...) }
func (c *count) undo() { c.jobs = c.kept }

// first is the first due time that starts from a moment on, with its start; zero if there is none.
func (j *Simulated) first(from time.Time) (due, start time.Time) {
	return j.after(j.Starts.Begun(from.Add(-time.Nanosecond)))
}

// after is the due time after another, with its start; zero if there is none.
func (j *Simulated) after(due time.Time) (next, start time.Time) {
	if next = j.Schedule.Next(due); next.IsZero() {
		return next, next
	}
	return next, j.Starts.Of(next)
}

// through counts the due times that start before end. If limited, it gives up when there are more than most; then whole is false.
func (c *count) through(all []Simulated, end time.Time, most int, limited bool) (counted int, whole bool) {
	for i := range c.jobs {
		f, j := &c.jobs[i], &all[i]
		for !f.next.IsZero() && f.start.Before(end) {
			if counted++; limited && counted > most {
				return counted, false
			}
			c.add(f, j)
			f.next, f.start = j.after(f.next)
		}
	}
	return counted, true
}

// add counts one due time of a job.
func (c *count) add(f *forecast, j *Simulated) {
	at := f.start
	minute := int(at.Sub(c.from) / time.Minute)
	c.due[minute]++
	f.due++
	if f.long.After(at) {
		f.found++
	}
	skips := !j.Beside && j.Concurrency == jobs.Forbid
	if !skips || !f.long.After(at) {
		f.long = later(f.long, at.Add(j.Long))
	}
	if skips && f.free.After(at) {
		return
	}
	f.free = later(f.free, at.Add(j.Typical))
	c.starts[minute]++
	c.run(minute, at, at.Add(j.Typical))
}

// run adds a run from start, which is in minute, to end.
func (c *count) run(minute int, start, end time.Time) {
	last := int(end.Sub(c.from) / time.Minute)
	if last == minute {
		c.partial[minute] += end.Sub(start)
		return
	}
	beginning := func(m int) time.Time { return c.from.Add(time.Duration(m) * time.Minute) }
	c.partial[minute] += beginning(minute + 1).Sub(start)
	c.whole[minute+1]++
	if last < len(c.partial) {
		c.partial[last] += end.Sub(beginning(last))
		c.whole[last]--
	}
}

// result is what was counted up to end.
func (c *count) result(all []Simulated, end time.Time, cut bool) Simulation {
	s := Simulation{From: c.from, To: end, Cut: cut, Minutes: make([]Minute, int((end.Sub(c.from)+time.Minute-1)/time.Minute))}
	running := 0
	for m := range s.Minutes {
		running += int(c.whole[m])
		s.Minutes[m] = Minute{int(c.due[m]), int(c.starts[m]), float64(running) + c.partial[m].Seconds()/60}
		s.Due += int(c.due[m])
		s.Starts += int(c.starts[m])
	}
	for i, f := range c.jobs {
		if f.found > 0 {
			s.Overlaps = append(s.Overlaps, Overlap{all[i].Name, all[i].Concurrency, all[i].Long, f.due, f.found})
		}
	}
	slices.SortFunc(s.Overlaps, func(a, b Overlap) int {
		if a.Found != b.Found {
			return b.Found - a.Found
		}
		return compareNames(a.Job, b.Job)
	})
	return s
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
