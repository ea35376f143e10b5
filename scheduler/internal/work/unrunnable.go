package work

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	unrunnableEvery = time.Minute
	// unrunnableAgain is the shortest time between two log lines about the same pool and kind.
	unrunnableAgain = time.Hour
	// unrunnableLines is how many kinds are logged after one look; the others are logged a minute later.
	unrunnableLines = 50
)

// unrunnable logs tasks that are due and that no live replica has a handler for, until ctx is done.
//
//  1. wait a minute, or until this replica meets a task that it cannot run itself
//  2. if it has met none, wait again
//  3. ask the store which tasks no live replica can run
//  4. if there are none, forget that one was met, and look again a minute later at the earliest
//  5. else log each pool and kind that was not logged within unrunnableAgain
func (e *Executor) unrunnable(ctx context.Context) {
	said := map[[2]string]time.Time{}
	for again := e.wakeUnrunnable; wake.Wait(ctx, unrunnableEvery, again); {
		again = e.wakeUnrunnable
		if !e.metUnknown.Load() || !e.member.Session().Trusted() {
			continue
		}
		cctx, cancel := context.WithTimeout(ctx, rowsCall)
		pools, err := e.store.Pools(cctx)
		cancel()
		if err != nil {
			e.member.StoreFailed(err)
			continue
		}
		if !slices.ContainsFunc(pools, func(p ledger.PoolStatus) bool { return len(p.Unrunnable) > 0 }) {
			e.forgetUnknown(pools)
			again = nil
		}
		maps.DeleteFunc(said, func(_ [2]string, at time.Time) bool { return time.Since(at) >= unrunnableAgain })
		lines := 0
		for _, p := range pools {
			for _, u := range p.Unrunnable {
				key := [2]string{p.Name, u.Kind}
				if _, before := said[key]; before || lines == unrunnableLines {
					continue
				}
				lines++
				said[key] = time.Now()
				e.sayUnrunnable(p, u)
			}
		}
	}
}

func (e *Executor) sayUnrunnable(p ledger.PoolStatus, u ledger.Unrunnable) {
	what := "tasks cannot run: no live replica has a handler for their kind; start one that has, or cancel them"
	switch {
	case slices.Contains(p.ByWorkers, u.Kind):
		what = "tasks wait for a worker over HTTP: none that is live takes their kind; start one, or cancel them"
	case p.Hash == "":
		what = "tasks cannot run: no live configuration has their pool; start a replica that has it, or cancel them"
	case p.Kinds != nil && len(p.Kinds) == 0:
		what = "tasks cannot run: their pool has no handler in any live replica; " + ledger.GiveHandler + ", or cancel them"
	case u.Kind == "":
		what = "tasks cannot run: they have no kind, and no live replica has a handler for those; start one that has, or cancel them"
	}
	e.log.Warn(what, "pool", p.Name, "kind", u.Kind, "tasks", u.Tasks, "since", u.Since.Format(time.RFC3339))
}

// forgetUnknown is called when every task has a replica that can run it. Tasks that this replica has no handler for are met
// again where they were forgotten; in pools in which others have work they are remembered.
func (e *Executor) forgetUnknown(pools []ledger.PoolStatus) {
	e.metUnknown.Store(false) // before the pools are asked for all kinds: what is met from then on counts
	for _, p := range pools {
		if f := e.present(p.Name); f != nil && f.askForAll(p.Pending == 0) {
			e.metUnknown.Store(true)
		}
	}
}

// meetUnknown notes that there is a task that this replica has no handler for.
func (e *Executor) meetUnknown() {
	if e.metUnknown.CompareAndSwap(false, true) {
		wake.Send(e.wakeUnrunnable)
	}
}
