package judge

import (
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

const (
	// stopGrace is the grace period of commands after the drain timeout, and what the product adds to it.
	stopGrace = 10*time.Second + 5*time.Second
	// lastClaims is how long after SIGTERM a replica may still claim.
	lastClaims = time.Second
)

// drains is I11: a replica that gets SIGTERM claims nothing more, ends with exit code 0 within the drain
// timeout and the grace period of commands, and its tasks are done, pending again, or, if they took longer than
// that, lost with the reason "drained".
//
// Excused are a replica that another fault strikes while it stops, and work whose deadline had passed, see
// degraded.
func (t *trial) drains() {
	for _, p := range t.h.Processes {
		if p.How != "drained" || p.Told.IsZero() {
			continue
		}
		limit := t.run.DrainTimeout + stopGrace + t.run.Slack
		if t.excused(p.Told, minTime(p.Ended, p.Told.Add(limit)), p.Replica, history.StoreDown, history.StoreSlow, history.StoreFar, history.StoreClock, history.ReplicaDown, history.ReplicaFrozen, history.HelperFrozen) {
			continue
		}
		if p.Exit != 0 {
			t.violate(Drains, p.Replica, p.Ended, "exit code %d after SIGTERM", p.Exit)
		}
		if took := p.Ended.Sub(p.Told); took > limit {
			t.violate(Drains, p.Replica, p.Ended, "took %v to stop, and %v are allowed", ms(took), limit)
		}
		for _, c := range t.ordered {
			if c.row.Replica == p.Replica && t.sameClock(c.seq) && c.from.After(p.Told.Add(lastClaims+t.run.Slack)) && c.from.Before(p.Ended) {
				t.violate(Drains, p.Replica, c.from, "claimed task %s %v after SIGTERM", c.row.ID, ms(c.from.Sub(p.Told)))
			}
		}
		for _, l := range t.losses() {
			c := t.claims[claimKey{l.task, l.token}]
			if l.replica != p.Replica || c == nil || !t.sameClock(l.seq) || c.from.Before(p.Started) || c.from.After(p.Ended) || l.at.Before(p.Told) {
				continue
			}
			if t.timeWasOver(l) {
				continue
			}
			if !strings.HasPrefix(l.reason, "drained") || l.at.Sub(p.Told) < t.run.DrainTimeout {
				t.violate(Drains, p.Replica, l.at, "task %s was lost %v after SIGTERM: %s", l.task, ms(l.at.Sub(p.Told)), l.reason)
			}
		}
	}
}
