package work

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// explainEvery is how often the holder that a task waits for is looked up.
	explainEvery = time.Second
	// awayFor is how long the lock service may be away before a task is left to other replicas, which may reach it.
	awayFor = 2 * time.Second
)

// explain keeps in the reason of a task what it waits for, until ctx is done.
//
//  1. wait explainEvery
//  2. if the lock service is away, end the wait of the task: leave
//  3. look up the holder, and write it down if it is another one
func (e *Executor) explain(ctx context.Context, ses *membership.Session, t jobs.Task, requests []locks.Request, leave func()) {
	requests = slices.Clone(requests)
	slices.SortFunc(requests, func(a, b locks.Request) int { return cmp.Compare(a.Key, b.Key) })
	said, at := t.Reason, 0
	for wake.Wait(ctx, explainEvery, nil) {
		if e.locksAway() {
			leave()
			return
		}
		var why string
		if why, at = e.obstacle(ctx, requests, at); why == "" && said == ledger.LocksAway {
			why = ledger.WaitsFor(nameOfKey(requests[at]), "in the queue of the lock service")
		}
		if why == "" || why == said {
			continue
		}
		calling, cancel := context.WithTimeout(ctx, waitsCall)
		if e.store.ExplainWaits(calling, ses.ID, map[string]string{t.ID: why}) == nil {
			said = why
		}
		cancel()
	}
}

// obstacle says who holds the key that these requests wait for, and which of them that is; "" if the holder is not known. The
// requests are in the order of their keys, in which the Locker waits for them: from is the one where it was the last time.
//
// A try of the key that the Locker waits for makes no call: it tells what the wait has heard. The keys before it are held for the
// task already. A lease that such a try obtains, as of a shared key, is given back.
func (e *Executor) obstacle(ctx context.Context, requests []locks.Request, from int) (why string, at int) {
	for i := range requests {
		at = (from + i) % len(requests)
		attempts, err := e.jobLocks.TryAcquire(ctx, requests[at])
		if err != nil {
			return "", at
		}
		holder := attempts[0].Holder
		switch {
		case attempts[0].Lease != nil:
			e.releases.add([]heldLock{{lease: attempts[0].Lease}})
		case holder == nil || holder.Token == 0:
			return "", at
		case holder.Meta != requests[at].Meta:
			return ledger.WaitsFor(nameOfKey(requests[at]), "held by "+nameOf(holder)), at
		}
	}
	return "", from
}

// locksAway reports whether the lock service of jobs has been away for awayFor.
func (e *Executor) locksAway() bool {
	st := e.jobLocks.State()
	return !st.Up && time.Since(st.Since) > awayFor
}

// tellAway says in the reasons of the tasks that are first that the lock service is away: once each, and not in those of tasks that
// another replica has queued, which may reach it.
func (w *waits) tellAway(ctx context.Context, ses *membership.Session, all []ledger.Wait) error {
	if !w.executor.locksAway() {
		clear(w.told)
		return nil
	}
	reasons := map[string]string{}
	for _, one := range all {
		if !one.Queued && !w.told[one.TaskID] && len(reasons) < claimBatch {
			reasons[one.TaskID] = ledger.LocksAway
		}
	}
	if err := w.executor.store.ExplainWaits(ctx, ses.ID, reasons); err != nil {
		return err
	}
	for id := range reasons {
		w.told[id] = true
	}
	return nil
}

// nameOfKey is the lock of a request, as the file names it.
func nameOfKey(r locks.Request) string { return strings.TrimPrefix(r.Key, syskeys.User) }

// nameOf names a holder for people.
func nameOf(h *locks.Info) string {
	switch {
	case h.Meta != "" && h.Owner != "" && !strings.HasSuffix(h.Meta, h.Owner):
		return h.Meta + " (" + h.Owner + ")"
	case h.Meta != "" || h.Owner != "":
		return cmp.Or(h.Meta, h.Owner)
	}
	return "session " + h.Session
}
