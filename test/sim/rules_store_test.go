package sim

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Stores that break rules of edits, of priorities, and of what is told.

// retroactive has an edit hold from before it was made.
type retroactive struct{ ledger.Store }

func (s retroactive) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Load(ctx, session, s.before(ctx, d))
}

func (s retroactive) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return s.Store.Assert(ctx, session, s.before(ctx, d))
}

func (s retroactive) before(ctx context.Context, d ledger.Definitions) ledger.Definitions {
	var names []string
	for _, j := range d.Jobs {
		names = append(names, j.Name)
	}
	if known, _ := s.Store.UpcomingOf(ctx, names); len(known) > 0 {
		now := d.Now
		d.Now = func(t time.Time) (time.Time, error) { t, err := now(t); return t.Add(-time.Second), err }
	}
	return d
}

// overtakes leaves out rows with this code of what an edit overtakes.
type overtakes struct {
	ledger.Store
	code reason.Code
}

func (s overtakes) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Load(ctx, session, s.without(d))
}

func (s overtakes) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return s.Store.Assert(ctx, session, s.without(d))
}

func (s overtakes) without(d ledger.Definitions) ledger.Definitions {
	by := d.OvertakenBy
	d.OvertakenBy = func(o ledger.Overtaken) ([]jobs.Trigger, bool) {
		rows, known := by(o)
		return slices.DeleteFunc(rows, func(g jobs.Trigger) bool { return g.ReasonCode == s.code }), known
	}
	return d
}

// unlimited has the rows of pools be without the limits of their definitions.
type unlimited struct{ ledger.Store }

func (s unlimited) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	return s.Store.Load(ctx, session, s.without(d))
}

func (s unlimited) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	return s.Store.Assert(ctx, session, s.without(d))
}

func (s unlimited) without(d ledger.Definitions) ledger.Definitions {
	d.Pools = slices.Clone(d.Pools)
	for i := range d.Pools {
		d.Pools[i].MaxRunning, d.Pools[i].Rate = 0, jobs.Rate{}
	}
	return d
}

// hindmost claims tasks of a low priority first, in some pools.
type hindmost struct {
	ledger.Store
	in func(w *world, pool string) bool
}

func (s hindmost) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	for priority := -2; priority < 2 && len(c.Waiting) == 0 && s.in(s.Store.(*edge).w, c.Pool); priority++ {
		low := c
		low.Scope.Within = &ledger.Window{Priority: priority}
		if got, err := s.Store.Claim(ctx, low); err != nil || len(got.Tasks) > 0 {
			return got, err
		}
	}
	return s.Store.Claim(ctx, c)
}

// eavesdrops has the judge see each event of a suspension so often.
func eavesdrops(s ledger.Store, times int) ledger.Store {
	db := s.(*edge).w.db
	db.Look(func(memstore.Rows) {
		watch := s.(*edge).w.watch
		db.Watch = func(c memstore.Change) {
			n := 1
			if e, is := c.After.(memstore.Event); is && e.Event == string(jobs.EventSuspended) {
				n = times
			}
			for range n {
				watch(c)
			}
		}
	})
	return s
}
