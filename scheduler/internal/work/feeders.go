package work

import (
	"context"
	"maps"
	"sync/atomic"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// feeders are those of the pools that this replica has, or had: attempts of a pool that was removed go on.
type feeders struct {
	all     atomic.Pointer[map[string]*feeder] // a map is replaced, never changed
	changed chan struct{}                      // some were added or removed
}

func newFeeders(e *Executor, p *plan.Plan) *feeders {
	s := &feeders{changed: wake.Signal()}
	all := map[string]*feeder{}
	for name, pool := range p.Pools {
		all[name] = newFeeder(e, p, pool)
	}
	s.all.Store(&all)
	return s
}

// feeder is that of a pool that this replica has, or had; else nil.
func (e *Executor) feeder(pool string) *feeder { return (*e.feeders.all.Load())[pool] }

// present is the feeder of a pool that this replica has; else nil.
func (e *Executor) present(pool string) *feeder {
	if f := e.feeder(pool); f != nil && !f.isRemoved() {
		return f
	}
	return nil
}

// Replan makes the feeders go by p: those of new pools are added, and those of removed pools claim nothing more, and hand back what is
// claimed and not started. What was started, or is about to be, goes on as it was defined when it was claimed. One caller at a time.
func (e *Executor) Replan(p *plan.Plan) {
	e.slots.resize(p)
	all := maps.Clone(*e.feeders.all.Load())
	for _, f := range all {
		f.replan(p)
	}
	for name, pool := range p.Pools {
		if all[name] == nil {
			all[name] = newFeeder(e, p, pool)
		}
	}
	e.feeders.all.Store(&all)
	wake.Send(e.feeders.changed)
	e.Wake()
}

// replan makes the feeder go by p.
func (f *feeder) replan(p *plan.Plan) {
	pool, has := p.Pools[f.name]
	f.mu.Lock()
	switch {
	case !has:
		f.governs = plan.Governing{}
	case f.removed || pool.Hash != f.pool.Hash: // until it is learned otherwise; else what is known of it holds
		f.governs, f.limited = pool.Governs(), false
	}
	if has {
		f.pool = pool
	}
	f.plan, f.removed = p, !has
	f.byKind = false
	f.forget()
	f.mu.Unlock()
	if !has {
		f.handBackQueue()
	}
	wake.Send(f.wake)
}

func (f *feeder) isRemoved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.removed
}

// feed runs the feeders of the pools that this replica has, until ctx is done.
//
//  1. have the feeders of pools that were removed end, and start those that do not run; a claim that is under way holds up its own feeder alone
//  2. wait until the pools have changed, or until a feeder has ended: its pool may have come back meanwhile
//  3. ctx is done: wait until all have ended
func (e *Executor) feed(ctx context.Context) {
	running, ended := map[*feeder]context.CancelFunc{}, make(chan *feeder)
	for {
		for _, f := range *e.feeders.all.Load() {
			end, runs := running[f]
			switch removed := f.isRemoved(); {
			case removed && runs:
				end()
			case !removed && !runs:
				fctx, cancel := context.WithCancel(ctx)
				running[f] = cancel
				go func() {
					f.run(fctx)
					ended <- f
				}()
			}
		}
		select {
		case <-e.feeders.changed:
		case f := <-ended:
			running[f]()
			delete(running, f)
			wake.Send(f.wake) // it may have taken one without a claim
		case <-ctx.Done():
			for len(running) > 0 {
				f := <-ended
				running[f]()
				delete(running, f)
			}
			return
		}
	}
}
