package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// rates is the part of I3 about pools with a rate: over any stretch of time no more of their tasks start than the burst, and what the
// rate gives in it.
//
// A start took its token from the bucket after its transaction had begun, which is its started_at, and before its row was written. So the
// time from one start to another one was no longer than from the first one's started_at until the other one's row. A step of the store's
// clock begins another stretch.
func (t *trial) rates() {
	starts := map[string][]history.Change{} // by pool
	for _, c := range t.h.Audit {
		if c.Table != "tasks" || c.After == nil || c.After.State != running || c.Before != nil && c.Before.State == running {
			continue
		}
		p := t.pools[c.After.Pool]
		if p.Rate == 0 {
			continue
		}
		if !t.sameClock(c.Seq) {
			starts[p.Name] = nil
			continue
		}
		all := append(starts[p.Name], c)
		starts[p.Name] = all
		interval := time.Second / time.Duration(p.Rate)
		for i, from := range all {
			within := time.Duration(c.At-from.After.StartedAt) * time.Microsecond
			if n, most := len(all)-i, p.Burst+int(within/interval); n > most {
				t.violate(Slots, "pool "+p.Name, dbTime(c.At), "%d tasks started in %v, and %d may, from %s to %s", n, within, most, from.After.ID, c.After.ID)
				break
			}
		}
	}
}
