package judge

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// cancelled is the part of I7 about tasks that clients cancelled, one by one or many in one call: after the answer that it was cancelled, or is
// asked to stop, no attempt of a task starts. And of many, each that was changed is of the pool that was named.
//
// No excuses.
func (t *trial) cancelled() {
	cancelled := map[string]time.Time{} // task → when the first answer was there
	pools := map[string]string{}
	note := func(id string, a history.Ask) {
		if at, before := cancelled[id]; !before || a.Returned.Before(at) {
			cancelled[id] = a.Returned
		}
	}
	for _, a := range t.h.Asks {
		switch {
		case a.Answer != "ok":
		case a.What == "cancel":
			note(a.Target, a)
		case a.What == "cancel many", a.What == "retry many":
			for _, id := range a.TaskIDs {
				if a.What == "cancel many" {
					note(id, a)
				}
				pools[id] = a.Target
			}
		}
	}
	for _, c := range t.h.Audit {
		if c.Table != "tasks" || c.After == nil {
			continue
		}
		r := c.After
		if named, is := pools[r.ID]; is && named != r.Pool {
			t.violate(OneEnd, "task "+r.ID, dbTime(c.At), "of pool %s, and cancelled or retried with the tasks of pool %s", r.Pool, named)
			delete(pools, r.ID)
		}
		at, is := cancelled[r.ID]
		if began := dbTime(r.StartedAt); is && starting(c) && t.sameClock(c.Seq) && began.After(at.Add(clockError)) {
			t.violate(OneEnd, "task "+r.ID, began, "attempt %d started %v after its cancellation was acknowledged", r.Attempt, ms(began.Sub(at)))
		}
	}
}
