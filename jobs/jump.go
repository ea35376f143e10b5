package jobs

import (
	"slices"
	"time"
)

// Jump is what one jump of a zone's clock does to the due times of a schedule.
type Jump struct {
	At    time.Time     // UTC
	By    time.Duration // how far the clock jumps ahead; negative: it is set back
	First time.Time     // the first reading of the clock that this is about: a UTC time with the fields that the clock shows

	Moved    int // readings that the clock jumps over: they are due at the jump, together
	Skipped  int // those that are not due at all
	Repeated int // readings that the clock shows twice, and that are due both times
}

// Jumps returns the jumps of the zone's clock after after, up to and including until, that change due times of the schedule, in the order of
// time. A reading that is shown twice and due the first time only is no change. Each year between costs a few µs for each expression.
func (s *Schedule) Jumps(after, until time.Time) (all []Jump) {
	after, until = s.within(after, until)
	if after.Before(earliest) {
		after = earliest
	}
	if until.After(latest) {
		until = latest
	}
	for _, r := range s.rules {
		if m, is := r.(moved); is { // the readings are those of the expression, before it is moved
			r = m.rule
		}
		switch r := r.(type) {
		case fixed:
			all = r.jumps(all, r.zone, after, until, false)
		case running:
			all = r.jumps(all, r.zone, after, until, true)
		}
	}
	slices.SortStableFunc(all, func(a, b Jump) int { return a.At.Compare(b.At) })
	merged := all[:0]
	for _, j := range all {
		if n := len(merged); n > 0 && merged[n-1].At.Equal(j.At) {
			last := &merged[n-1]
			last.Moved, last.Skipped, last.Repeated = last.Moved+j.Moved, last.Skipped+j.Skipped, last.Repeated+j.Repeated
			if j.First.Before(last.First) {
				last.First = j.First
			}
			continue
		}
		merged = append(merged, j)
	}
	return merged
}

// jumps adds those of one expression, whose due times follow real time or stay with what the clock shows.
func (c wallClock) jumps(all []Jump, zone *time.Location, after, until time.Time, real bool) []Jump {
	if zone == time.UTC {
		return all
	}
	for p := steadyAt(after, zone); p.endsBy(until); {
		at := p.end
		last := p.reading(at.Add(-time.Second))
		p = steadyAt(at, zone)
		from := p.reading(at).Add(-time.Second)
		j := Jump{At: at, By: from.Sub(last)}
		switch {
		case j.By > 0 && real:
			j.Skipped, j.First = c.between(last, from), c.next(last)
		case j.By > 0:
			shown := latestReading(at.Add(-time.Second), zone)
			j.Moved, j.First = max(c.between(shown, from), 0), c.next(shown)
		case j.By < 0 && real:
			j.Repeated, j.First = c.between(from, last), c.next(from)
		}
		if j.Moved+j.Skipped+j.Repeated > 0 {
			all = append(all, j)
		}
	}
	return all
}
