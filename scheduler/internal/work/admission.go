package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// admission says which tasks a transaction may make running on this replica. It holds what the replica knows of these
// pools at this moment: the transaction may be repeated, so it reads nothing that changes.
func (e *Executor) admission(ses *membership.Session, pools map[string]plan.Governing, room map[string]int, tried tried) ledger.Admission {
	shares := map[string]ledger.Share{}
	for name, g := range pools {
		shares[name] = ledger.Share{Hash: g.Hash, Limited: g.Limited, Room: room[name]}
	}
	return ledger.Admission{
		Session: ses.ID, Replica: e.opt.ID, Pools: shares,
		Admit: func(now time.Time, c ledger.Candidate) (time.Time, bool) {
			return e.plan.Admit(pools[c.Task.Pool], now, c)
		},
		Locks: e.locking(tried),
	}
}

// Reserve takes one free worker for a run of each of these jobs that this replica can run and that has no locks, while workers are
// free, for a transaction that decides triggers. Tasks with locks are claimed from their pool, once their locks were tried. may says
// which tasks the transaction may make running on these workers. Call start with the transaction's result, which is empty after an
// error: it starts what became running, and frees the other workers.
func (e *Executor) Reserve(names []string) (may ledger.Admission, start func(ctx context.Context, decided ledger.Decided)) {
	ses, ended := e.member.Session(), e.register.claim()
	workers := map[string]int{} // by pool
	for _, name := range names {
		pool := e.plan.Jobs[name].Pool
		if _, can := e.plan.Execution(jobs.Task{Job: name, Pool: pool}); can && !e.plan.Jobs[name].HasLocks() {
			workers[pool] += e.slots.take(pool, 1)
		}
	}
	pools := map[string]plan.Governing{}
	for name := range workers {
		pools[name] = e.feeders[name].governed()
	}
	return e.admission(ses, pools, workers, tried{}), func(ctx context.Context, decided ledger.Decided) {
		for _, t := range decided.Started {
			workers[t.Task.Pool]--
			task := *t.Task // who decided reads the other one
			e.start(ctx, claimed{task: &task, session: ses.ID, until: t.Until, since: time.Now()})
		}
		for pool, n := range workers {
			e.slots.give(pool, n)
		}
		ended()
		for _, t := range decided.Opened {
			e.wakeFeeder(t.Pool)
		}
	}
}
