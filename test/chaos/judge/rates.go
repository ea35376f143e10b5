package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// rates is the part of I3 about pools with a rate, as a whole, by kind or by key: over any stretch of time no more of their tasks start than the
// burst, and what the rate gives in it. Where clients change them, it is the largest burst and rate that may have held in it, see limits.go.
//
// A start took its token from the bucket after its transaction had begun, which is its started_at, and before its row was written. So the
// time from one start to another one was no longer than from the first one's started_at until the other one's row. A step of the store's
// clock begins another stretch.
func (t *trial) rates() {
	starts := map[string][]start{} // by pool, and by pool and key
	for _, c := range t.h.Audit {
		if !starting(c) {
			continue
		}
		p := t.pools[c.After.Pool]
		if p.Rate > 0 {
			of := "pool " + p.Name
			since := dbTime(c.After.StartedAt)
			if n := len(starts[of]); n > 0 { // what held in between has filled the bucket
				since = minTime(since, dbTime(starts[of][n-1].After.StartedAt))
			}
			l := t.limitsOf(p.Name, since, dbTime(c.At), t.sameClock(c.Seq))
			t.rate(starts, of, c, l.Rate, l.Burst)
		}
		if l := p.PerKind[c.After.Kind]; l.Rate > 0 && c.After.Job == "" {
			t.rate(starts, "pool "+p.Name+", kind "+c.After.Kind, c, l.Rate, l.Burst)
		}
		if p.KeyRate > 0 && c.After.Key != "" {
			t.rate(starts, "pool "+p.Name+", key "+c.After.Key, c, p.KeyRate, p.KeyBurst)
		}
	}
}

// start is one, with the limits that may have held since the one before.
type start struct {
	history.Change
	rate, burst int
}

// starting reports whether a change makes a task running.
func starting(c history.Change) bool {
	return c.Table == "tasks" && c.After != nil && c.After.State == running && (c.Before == nil || c.Before.State != running)
}

// rate adds a start to those of which a rate is the limit.
func (t *trial) rate(starts map[string][]start, of string, c history.Change, rate, burst int) {
	if !t.sameClock(c.Seq) {
		starts[of] = nil
		return
	}
	all := append(starts[of], start{c, rate, burst})
	starts[of] = all
	for i := len(all) - 1; i >= 0; i-- {
		from := all[i]
		rate, burst = max(rate, from.rate), max(burst, from.burst)
		within := time.Duration(c.At-from.After.StartedAt) * time.Microsecond
		if n, most := len(all)-i, burst+int(within/(time.Second/time.Duration(rate))); n > most {
			t.violate(Slots, of, dbTime(c.At), "%d tasks started in %v, and %d may, from %s to %s", n, within, most, from.After.ID, c.After.ID)
			return
		}
	}
}
