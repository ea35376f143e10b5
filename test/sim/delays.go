package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// drawDelays gives a share of the jobs spread, and a share jitter. Another configuration may have others.
func (p *plan) drawDelays() {
	for version, set := range p.versions() {
		for name, j := range set {
			n := 0
			if keyed(p.Seed, "other delays of "+name, 0).chance(0.3) {
				n = version
			}
			d := keyed(p.Seed, "delays of "+name, n)
			if d.chance(0.2) && j.Times.recur() {
				j.Spread = pick(d, 2*time.Second, 5*time.Second, 30*time.Second, 10*time.Minute)
			}
			if d.chance(0.3) {
				j.Jitter = min(d.between(300*time.Millisecond, 15*time.Second).Truncate(time.Millisecond), j.Times.gap()-time.Millisecond)
			}
			j.Times = j.Times.spread(name, j.Spread)
			set[name] = j
		}
	}
}

// spread is the times of a job with that name, moved.
func (ts times) spread(name string, by time.Duration) times {
	if by == 0 {
		return ts
	}
	moved := slices.Clone(ts)
	for i := range moved {
		moved[i] = moved[i].moved(time.Duration(chosen(name+"\nspread", by/time.Second)) * time.Second)
	}
	return moved
}

// gap is the shortest time between two due times, as far as a definition is refused: two of several schedules may be closer, later.
// Those of one expression of fields are 20 seconds apart, and all are at whole seconds.
func (ts times) gap() time.Duration {
	if !ts.regular() && len(ts) > 1 {
		return time.Second
	} else if !ts.regular() {
		return 20 * time.Second
	}
	at := ts.next(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second))
	least := 24 * time.Hour
	for range 200 {
		next := ts.next(at)
		least, at = min(least, next.Sub(at)), next
	}
	return least
}

// chosen is a number below n that the documents say a text chooses.
func chosen[N ~int64](text string, n N) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:8]) % uint64(n)
}

// start is when the trigger of a due time of the job with that name starts: when its calendars let it run, or later by its jitter, and before the next one runs.
func (j job) start(name string, due time.Time) time.Time {
	at, runs := j.Closed.runsAt(j.Times, due)
	if !runs {
		return due // it does not
	}
	if j.Jitter == 0 {
		return at
	}
	within := j.Jitter
	for next := j.Times.next(due); next.Before(at.Add(j.Jitter)); next = j.Times.next(next) {
		if then, runs := j.Closed.runsAt(j.Times, next); runs {
			within = min(within, then.Sub(at))
			break
		}
	}
	// The namespace of the store in memory is empty.
	return at.Add(time.Duration(chosen("\n"+name+"\n"+due.UTC().Format(time.RFC3339), within/time.Millisecond)) * time.Millisecond)
}

// startOf is when a due time starts, as far as is known: where there are several configurations it is the due time. With w.mu held.
func (w *world) startOf(name string, at time.Time) time.Time {
	if specs := w.specs[name]; len(specs) == 1 {
		return specs[0].start(name, at)
	}
	return at
}

// countDelays counts the starts of jobs that had a delay. With w.mu held.
func (w *world) countDelays(name string) {
	for _, j := range w.specs[name] {
		if j.Jitter > 0 {
			w.counted["starts with jitter"]++
			if j.Closed != nil {
				w.counted["starts with jitter and a calendar"]++
			}
		}
		if j.Spread > 0 {
			w.counted["starts with spread"]++
		}
	}
}

// judgeStart: nothing of a schedule is decided, and no attempt starts, before the due time does. With w.mu held.
func (w *world) judgeStart(what, name string, at time.Time) {
	if start := w.startOf(name, at); w.latest().Before(start) {
		w.violate(name, "%s: what is due at %v starts at %v, and it is %v", what, at, start, w.latest())
	}
}
