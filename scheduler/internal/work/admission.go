package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// admission says which tasks a transaction may make running on this replica, by the definitions of p. It holds what the replica knows of these
// pools at this moment: the transaction may be repeated, so it reads nothing that changes.
func (e *Executor) admission(p *plan.Plan, ses *membership.Session, pools map[string]plan.Governing, room map[string]int, tried tried) ledger.Admission {
	shares := map[string]ledger.Share{}
	for name, g := range pools {
		shares[name] = ledger.Share{Hash: g.Hash, Limited: g.Limited, Room: room[name]}
	}
	return ledger.Admission{
		Session: ses.ID, Replica: e.opt.ID, Pools: shares,
		Admit: func(now time.Time, c ledger.Candidate) (time.Time, bool) {
			return p.Admit(pools[c.Task.Pool], now, c)
		},
		Locks: locking(p, tried), Tells: p.TellsStart(),
	}
}

// Reserve takes one free worker for a run of each of these jobs of p that this replica can run and that has no locks, while workers are
// free, for a transaction that decides triggers. Tasks with locks are claimed from their pool, once their locks were tried. may says
// which tasks the transaction may make running on these workers. Call start with the transaction's result, which is empty after an
// error: it starts what became running, and frees the other workers.
func (e *Executor) Reserve(p *plan.Plan, names []string) (may ledger.Admission, start func(ctx context.Context, decided ledger.Decided)) {
	ses, ended := e.member.Session(), e.register.claim()
	workers := map[string]int{} // by pool
	for _, name := range names {
		j, known := p.Jobs[name]
		if !known {
			continue
		}
		if _, can := p.Execution(jobs.Task{Job: name, Pool: j.Pool}); can && !j.HasLocks() {
			workers[j.Pool] += e.slots.take(j.Pool, 1)
		}
	}
	pools := map[string]plan.Governing{}
	for name := range workers {
		pools[name] = e.Governed(p, name)
	}
	return e.admission(p, ses, pools, workers, tried{}), func(ctx context.Context, decided ledger.Decided) {
		for _, t := range decided.Started {
			workers[t.Task.Pool]--
			task := *t.Task // who decided reads the other one
			e.start(ctx, claimed{task: &task, session: ses.ID, until: t.Until, since: time.Now(), by: p})
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
