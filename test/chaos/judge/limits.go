package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// limited is a stay of limits that a client has set for a pool, or of those of the file.
type limited struct {
	history.Limits
	stay
	settled time.Time // when it surely has taken effect, if it does
}

// readLimits notes which limits of each pool may hold when, as far as clients know: from the call that sets them until the answer to a later
// one, which was made when they had surely taken effect, if they did. A call without an answer may take effect later, see effective.
func (t *trial) readLimits() {
	t.limits = map[string][]limited{}
	for name, p := range t.pools {
		t.limits[name] = []limited{{Limits: history.Limits{MaxRunning: p.MaxRunning, Rate: p.Rate, Burst: p.Burst}, stay: stay{to: t.run.Ended.Add(time.Hour)}}}
	}
	for _, a := range t.h.Asks {
		all := t.limits[a.Target]
		if a.What != "limit" || a.Limits == nil || a.Answer == "refused" || len(all) == 0 {
			continue
		}
		s := limited{*a.Limits, stay{a.Called, t.run.Ended.Add(time.Hour)}, a.Returned}
		if s.Limits == (history.Limits{}) {
			s.Limits = all[0].Limits
		}
		if a.Answer != "ok" {
			s.settled = t.effective(a)
		} else {
			for i, earlier := range all {
				if !a.Called.Before(earlier.settled) {
					all[i].to = minTime(earlier.to, a.Returned)
				}
			}
		}
		t.limits[a.Target] = append(all, s)
	}
}

// limitsOf are the limits of a pool between two moments, each the largest that may have held then. Where the moments are of another clock than
// the clients', it is the largest there ever was.
func (t *trial) limitsOf(pool string, from, to time.Time, timed bool) (most history.Limits) {
	for _, s := range t.limits[pool] {
		if !timed || !s.to.Before(from.Add(-clockError)) && !s.from.After(to.Add(clockError)) {
			most.MaxRunning, most.Rate, most.Burst = max(most.MaxRunning, s.MaxRunning), max(most.Rate, s.Rate), max(most.Burst, s.Burst)
		}
	}
	return most
}
