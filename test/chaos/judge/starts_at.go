package judge

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// spread moves all due times of a job by one offset, as docs/schedules.md says: SHA-256 of the name, a line feed and the word spread.
func spread(j history.Job) (moved []history.Every) {
	seconds := uint64(j.Spread / time.Second)
	if seconds == 0 {
		return j.Due
	}
	offset := time.Duration(chosen(j.Name+"\nspread", seconds)) * time.Second
	for _, e := range j.Due {
		moved = append(moved, history.Every{Period: e.Period, Offset: e.Offset + offset})
	}
	return moved
}

// chosen is a number below n that a hash chooses: its first eight bytes, big-endian, modulo n.
func chosen(text string, n uint64) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8]) % n
}

// startOf is when the run of a due time starts: later by its jitter than when it is due or, with calendars, than when they let it run. False: they leave
// it out. The jitter is SHA-256 of the namespace, the job and the due time, with line feeds between, in milliseconds.
func (t *trial) startOf(j history.Job, due time.Time) (start time.Time, runs bool) {
	start, runs = t.runsAt(j, due)
	if !runs || j.Jitter == 0 {
		return start, runs
	}
	delay := j.Jitter
	if next := dueNext(j.Due, due); next.Sub(due) < delay {
		delay = next.Sub(due)
	}
	n := chosen(t.run.Namespace+"\n"+j.Name+"\n"+due.UTC().Format(time.RFC3339Nano), uint64(delay/time.Millisecond))
	return start.Add(time.Duration(n) * time.Millisecond), true
}

// runsAt is when the calendars of a job let a due time run: at once where it is allowed; else, with Next, at the end of the closure if it is the last one of that, and
// none is due at that moment.
func (t *trial) runsAt(j history.Job, due time.Time) (at time.Time, runs bool) {
	if t.allowed(j, due) {
		return due, true
	}
	end := t.reopens(j, due)
	if !j.Next || end.IsZero() || !dueNext(j.Due, due).After(end) {
		return time.Time{}, false
	}
	return end, true
}

// allowed reports whether a moment is in all calendars that a job keeps to, and in none that it leaves out.
func (t *trial) allowed(j history.Job, at time.Time) bool {
	in := func(name string) bool { return t.inCalendar(name, at) }
	return !slices.ContainsFunc(j.Exclude, in) && !slices.ContainsFunc(j.Only, func(name string) bool { return !in(name) })
}

// inCalendar reports whether a moment is in a calendar.
func (t *trial) inCalendar(name string, at time.Time) bool {
	return slices.ContainsFunc(t.run.Calendars, func(c history.Calendar) bool {
		return c.Name == name && slices.ContainsFunc(c.Spans, func(s history.Span) bool { return !at.Before(s.From) && at.Before(s.Until) })
	})
}

// reopens is the first moment after one that is not allowed at which a job may run; zero: there is none.
func (t *trial) reopens(j history.Job, closed time.Time) (first time.Time) {
	for _, c := range t.run.Calendars {
		for _, s := range c.Spans {
			for _, edge := range []time.Time{s.From, s.Until} {
				if edge.After(closed) && (first.IsZero() || edge.Before(first)) && t.allowed(j, edge) {
					first = edge
				}
			}
		}
	}
	return first
}

// owed is the first due time from one on that must have a row by a moment, as it has started by then; zero: there is none. Those that calendars leave out may get
// theirs with the next one that runs.
func (t *trial) owed(j history.Job, from, by time.Time) time.Time {
	for due := from; !due.IsZero() && !due.After(by); due = dueNext(j.Due, due) {
		if start, runs := t.startOf(j, due); runs && !start.After(by) {
			return due
		}
	}
	return time.Time{}
}
