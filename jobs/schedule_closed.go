package jobs

import (
	"iter"
	"sync/atomic"
	"time"
)

// What calendars make of due times. Those that run are the allowed ones and, with OtherwiseNext, the last one of each closure, which runs
// when the closure ends. Each method hops from closure to closure, and never walks through the due times of one.

// barren is a time after which a search has found nothing, so that the next one need not go so far again.
type barren struct{ since atomic.Int64 } // Unix time in seconds; 0: there is none

func (b *barren) note(t time.Time) { b.since.Store(t.Unix() + 1) }

func (b *barren) has(t time.Time) bool {
	since := b.since.Load()
	return since != 0 && t.Unix() >= since
}

// nextRun is the first due time after t that runs.
func (s *Schedule) nextRun(t time.Time) time.Time {
	if s.barren.has(t) {
		return time.Time{}
	}
	next := s.seekRun(t)
	if next.IsZero() {
		s.barren.note(t)
	}
	return next
}

func (s *Schedule) seekRun(t time.Time) time.Time {
	horizon := s.closed.horizon(t)
	for range mostHops {
		due := s.nextDue(t)
		if due.IsZero() || due.After(horizon) || s.barren.has(due) {
			return time.Time{}
		}
		if by, _ := s.closed.at(due); by == "" {
			return due
		}
		reopens := s.closed.reopens(due)
		switch {
		case reopens.IsZero():
			return time.Time{}
		case s.closed.next:
			return s.standsFor(due, reopens)
		}
		t = reopens.Add(-time.Nanosecond)
	}
	return time.Time{}
}

// standsFor is the due time that runs for a closure, which due lies in: the one at its end, or else the last one.
func (s *Schedule) standsFor(due, reopens time.Time) time.Time {
	before := reopens.Add(-time.Nanosecond)
	if s.nextDue(before).Equal(reopens) {
		return reopens
	}
	return s.latestDue(due.Add(-time.Nanosecond), before, 1)[0]
}

// Fires returns when a due time that runs does so: at itself or, with OtherwiseNext, when its closure ends. It keeps the order of due times.
func (s *Schedule) Fires(at time.Time) time.Time {
	if by, _ := s.closed.at(at); by == "" || at.IsZero() {
		return at
	}
	if reopens := s.closed.reopens(at); !reopens.IsZero() {
		return reopens
	}
	return at
}

// Fired returns a time up to which all due times have fired by t, and no later one has: t itself or, where one waits for the end of a
// closure, the moment before it.
func (s *Schedule) Fired(t time.Time) time.Time {
	if by, _ := s.closed.at(t); by == "" || !s.closed.next {
		return t
	}
	reopens := s.closed.reopens(t)
	if next := s.nextDue(t); reopens.IsZero() || !next.IsZero() && !next.After(reopens) {
		return t
	}
	last := s.latestDue(earliest, t, 1)
	if len(last) == 0 || !s.Fires(last[0]).Equal(reopens) {
		return t
	}
	return last[0].Add(-time.Nanosecond)
}

// NextFire returns the first moment after t at which a due time fires; zero if there is none.
func (s *Schedule) NextFire(t time.Time) time.Time {
	return s.Fires(s.Next(s.Fired(t)))
}

// LeftOut is a stretch of due times, with nothing that runs in between, that one calendar leaves out.
type LeftOut struct {
	First, Last time.Time
	Count       int
	Calendar    string    // by its name in the set
	Outside     bool      // the job has it in Only
	Instead     time.Time // the due time that runs for them, with OtherwiseNext; zero: none
}

// LeftOut returns the due times after after, up to and including until, that do not run because of calendars, oldest first, in at most
// limit stretches; more says that there are others.
func (s *Schedule) LeftOut(after, until time.Time, limit int) (all []LeftOut, more bool) {
	if s.closed.none() {
		return nil, false
	}
	for t := after; ; {
		due := s.nextDue(t)
		if due.IsZero() || due.After(until) {
			return all, false
		}
		by, ends := s.closed.at(due)
		if by == "" {
			if t = s.closed.closes(due, until); t.IsZero() {
				return all, false
			}
			t = t.Add(-time.Nanosecond)
			continue
		}
		stop := until
		if !ends.IsZero() && !ends.After(stop) {
			stop = ends.Add(-time.Nanosecond)
		}
		instead := s.instead(due)
		if due.Equal(instead) {
			t = due
			continue
		}
		if !instead.IsZero() && !instead.After(stop) {
			stop = instead.Add(-time.Nanosecond)
		}
		from := due.Add(-time.Nanosecond)
		count, _ := s.countDue(from, stop)
		t = s.latestDue(from, stop, 1)[0]
		if n := len(all); n > 0 && all[n-1].Calendar == by && all[n-1].Instead.Equal(instead) && s.nextDue(all[n-1].Last).Equal(due) {
			all[n-1].Last = t
			all[n-1].Count += count
			continue
		}
		if len(all) == limit {
			return all, true
		}
		all = append(all, LeftOut{First: due, Last: t, Count: count, Calendar: by, Outside: s.closed.outside(by), Instead: instead})
	}
}

// instead is the due time that runs for the closure that due lies in; zero: none.
func (s *Schedule) instead(due time.Time) time.Time {
	if !s.closed.next {
		return time.Time{}
	}
	reopens := s.closed.reopens(due)
	if reopens.IsZero() {
		return time.Time{}
	}
	return s.standsFor(due, reopens)
}

// leftOutEvery is how long the due times of a closure are left undecided: so many become one row of the ledger.
const leftOutEvery = time.Hour

// Wakes returns when to decide what is due after cursor, up to which all due times are decided: when the next one fires or, before that, at one that is
// left out: the first one of a closure, then each hour, and at the last one of a schedule that ends. Zero: there is nothing to decide.
func (s *Schedule) Wakes(cursor time.Time) time.Time {
	next := s.Next(cursor)
	fires := s.Fires(next)
	if s.closed.none() {
		return fires
	}
	due := s.nextDue(cursor)
	if due.Equal(next) {
		return fires
	}
	if by, _ := s.closed.at(cursor); by != "" && s.nextDue(cursor.Add(-time.Nanosecond)).Equal(cursor) {
		hour := cursor.Add(leftOutEvery - time.Nanosecond)
		if due = s.nextDue(hour); due.IsZero() { // the schedule ends before that
			for _, last := range s.latestDue(cursor, hour, 1) {
				due = last
			}
		}
	}
	return sooner(due, fires)
}

// stretch is due times that run: those from the first on, up to and including stop.
type stretch struct{ first, stop time.Time }

// runs are the stretches of the due times after after, up to and including until, that run.
func (s *Schedule) runs(after, until time.Time) iter.Seq[stretch] {
	return func(yield func(stretch) bool) {
		for t := after; ; {
			due := s.nextDue(t)
			if due.IsZero() || due.After(until) {
				return
			}
			if by, _ := s.closed.at(due); by == "" {
				t = until
				if closes := s.closed.closes(due, until); !closes.IsZero() {
					t = closes.Add(-time.Nanosecond)
				}
				if !yield(stretch{due, t}) {
					return
				}
				continue
			}
			reopens := s.closed.reopens(due)
			if reopens.IsZero() {
				return
			}
			if s.closed.next {
				at := s.standsFor(due, reopens)
				if at.Before(reopens) && !at.After(until) && !yield(stretch{at, at}) {
					return
				}
			}
			t = reopens.Add(-time.Nanosecond)
		}
	}
}

// countRuns counts the due times that run after after, up to and including until.
func (s *Schedule) countRuns(after, until time.Time) (n int, exact bool) {
	exact = true
	for r := range s.runs(after, until) {
		some, all := s.countDue(r.first.Add(-time.Nanosecond), r.stop)
		n, exact = n+some, exact && all
		if len(s.rules) > 1 && n >= maxCounted {
			return maxCounted, false
		}
	}
	return n, exact
}

// latestRuns is the end of the due times that run after after, up to and including until: n of them if there are so many.
func (s *Schedule) latestRuns(after, until time.Time, n int) (latest []time.Time) {
	for r := range s.runs(after, until) {
		latest = append(latest, s.latestDue(r.first.Add(-time.Nanosecond), r.stop, n)...)
		if len(latest) > 4*n {
			latest = latest[len(latest)-n:]
		}
	}
	return latest
}
