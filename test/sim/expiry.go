package sim

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// drawExpiry has a quarter of the tasks expire: some before they can start, as their pool is paused or full, or they wait for their locks.
func drawExpiry(d draw, now time.Time, task *jobs.NewTask) {
	if !d.chance(0.25) {
		return
	}
	if task.RunAt.After(now) {
		now = task.RunAt
	}
	task.ExpiresAt = now.Add(d.between(200*time.Millisecond, 5*time.Second))
}

// expiring is a pending task of which no attempt has started, and that expires.
type expiring struct {
	at   int64
	over time.Time // since when it has expired by the store's clock; zero: it has not
}

// watchExpiry gets a row of tasks: an attempt that begins is the first one before its time, or a later one.
func (w *world) watchExpiry(r memstore.Task, began bool) {
	if began && r.Attempt == 1 && r.ExpiresAt > 0 && r.StartedAt >= r.ExpiresAt {
		w.violate(r.ID, "task %s started at %s, and expired at %s", r.ID, clock(r.StartedAt), clock(r.ExpiresAt))
	}
	if r.ExpiresAt == 0 || r.Attempt > 0 || r.State == memstore.Running {
		delete(w.expiring, r.ID)
	} else if w.expiring[r.ID].at != r.ExpiresAt {
		w.expiring[r.ID] = expiring{at: r.ExpiresAt}
	}
}

// judgeExpired gets a task that has ended: it expires when its time has come, and not after an attempt that counts.
func (w *world) judgeExpired(r memstore.Done) {
	if r.ReasonCode != reason.Expired {
		return
	}
	w.counted["tasks expired"]++
	if r.Attempt > 0 || r.ExpiresAt == 0 || r.FinishedAt < r.ExpiresAt {
		w.violate(r.ID, "task %s with attempt %d expired at %s, its time is %s", r.ID, r.Attempt, clock(r.FinishedAt), clock(r.ExpiresAt))
	}
}

// endsWithin is how long after its time a task may be pending while a replica works.
const endsWithin = 3 * time.Second

// judgeExpiring: what has expired ends, while a replica works. With w.mu held.
func (w *world) judgeExpiring() {
	now := w.shows().UnixMicro()
	for id, x := range w.expiring {
		switch {
		case now < x.at:
			x.over = time.Time{}
		case x.over.IsZero():
			x.over = time.Now()
		}
		w.expiring[id] = x
		if x.over.IsZero() || time.Since(x.over) < endsWithin {
			continue
		}
		for _, r := range w.replicas {
			if !r.isDead() && r.drained.IsZero() && !r.joined.IsZero() && r.joined.Before(x.over) && w.untouched(r, x.over.Add(-answered)) {
				w.violate(id, "task %s is pending %v after it expired, and %s works", id, time.Since(x.over), r.id)
				delete(w.expiring, id)
				break
			}
		}
	}
}
