package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// promoteLimit is how many waiting tasks become ready in one call.
const promoteLimit = 1000

// Ready implements ledger.Tasks.
func (s *Store) Ready(ctx context.Context, judge ledger.Judge) (is ledger.Ready, err error) {
	err = s.tx(ctx, "ready", func(t *tx) error {
		judged, err := judge(t.now())
		if err != nil {
			return err
		}
		is.Next = t.promote(micros(judged))
		paused := t.pausedNow().Is()
		found := map[string]bool{}
		for _, r := range t.tasks.rows {
			if r.State != Ready {
				continue
			}
			lets, opens := t.lets(r)
			if at := t.now().Add(opens); opens > 0 && (is.Next.IsZero() || at.Before(is.Next)) {
				is.Next = at
			}
			if p := t.pools.rows[r.Pool]; (lets || t.impossible(r) || t.impossibleKind(r)) && !t.removed(p) && (p.Paused == nil || !*p.Paused) {
				found[r.Pool] = true
			}
		}
		if paused {
			clear(found)
		}
		for name := range found { // all is claimed by a replica that has the room, and knows of the limits
			a := &admission{t: t, locks: true, Admission: ledger.Admission{Pools: map[string]ledger.Share{name: {Hash: t.pools.rows[name].Hash, Room: 1}}}}
			row := t.pools.rows[name]
			l := row.Limits()
			if room, _ := a.room(name); room < 1 && (l.Rate == (jobs.Rate{}) || l.Possible(row.Bucket, t.now()) == row.Bucket) {
				delete(found, name)
			}
		}
		is.Pools, is.Ahead = slices.Sorted(maps.Keys(found)), t.ahead()
		return nil
	})
	return is, err
}

func (t *tx) ahead() (a ledger.Ahead) {
	for _, j := range t.jobs.rows {
		if j.Next > 0 && (a.FirstDue.IsZero() || fromMicros(j.Next).Before(a.FirstDue)) {
			a.FirstDue = fromMicros(j.Next)
		}
	}
	for _, r := range t.tasks.rows {
		a.Running = a.Running || r.State == Running
		a.Waits = a.Waits || r.State == Waits || r.expires()
	}
	a.Events = len(t.events.rows) > 0
	for e := range t.expected.rows {
		if a.Expected.IsZero() || fromMicros(e.DueBy).Before(a.Expected) {
			a.Expected = fromMicros(e.DueBy)
		}
	}
	for _, o := range t.orders.rows {
		if o.Next > 0 && (a.Ordered.IsZero() || fromMicros(o.Next).Before(a.Ordered)) {
			a.Ordered = fromMicros(o.Next)
		}
	}
	return a
}

// promote makes waiting tasks ready, and returns when the next one is. One that expires before does not wait.
func (t *tx) promote(now int64) (next time.Time) {
	var waiting []Task
	for _, r := range t.tasks.rows {
		if r.State == Waits && !r.expires() {
			waiting = append(waiting, r)
		}
	}
	slices.SortFunc(waiting, func(a, b Task) int { return cmp.Compare(a.RunAt, b.RunAt) })
	n := 0
	for ; n < min(len(waiting), promoteLimit) && waiting[n].RunAt <= now; n++ {
		row := waiting[n]
		row.State = Ready
		put(t, &t.tasks, row)
	}
	if n < len(waiting) {
		next = fromMicros(waiting[n].RunAt)
	}
	return next
}
