package scheduler

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
func (s *executor) admission(ses *membership.Session, pools map[string]plan.Governing, room map[string]int) ledger.Admission {
	shares := map[string]ledger.Share{}
	for name, g := range pools {
		shares[name] = ledger.Share{Hash: g.Hash, Limited: g.MaxRunning > 0, Room: room[name]}
	}
	return ledger.Admission{
		Session: ses.ID, Replica: s.opt.ID, Pools: shares,
		Admit: func(now time.Time, c ledger.Candidate) (time.Time, bool) {
			return s.plan.Admit(pools[c.Task.Pool], now, c)
		},
	}
}

// reservation is the workers that are reserved for tasks which a transaction of triggers may make running here.
type reservation struct {
	s       *executor
	session *membership.Session
	workers map[string]int // by pool
	ended   func()         // the transaction has ended
}

// reserve takes one free worker for a run of each of these jobs that this replica can run, while workers are free. Call
// start or release when the result of the transaction is known.
func (s *executor) reserve(names []string) *reservation {
	r := &reservation{s: s, session: s.member.Session(), workers: map[string]int{}, ended: s.register.claim()}
	for _, name := range names {
		pool := s.plan.Jobs[name].Pool
		if _, can := s.plan.Execution(jobs.Task{Job: name, Pool: pool}); can {
			r.workers[pool] += s.slots.take(pool, 1)
		}
	}
	return r
}

// admission says which tasks the transaction may make running on the reserved workers.
func (r *reservation) admission() ledger.Admission {
	pools := map[string]plan.Governing{}
	for name := range r.workers {
		pools[name] = r.s.feeders[name].governed()
	}
	return r.s.admission(r.session, pools, r.workers)
}

// start starts the tasks that became running on the reserved workers, and releases the other workers.
func (r *reservation) start(ctx context.Context, decided ledger.Decided) {
	for _, t := range decided.Started {
		r.workers[t.Task.Pool]--
		r.s.start(ctx, claimed{t.Task, r.session.ID, t.Until, time.Now()})
	}
	r.release()
	for _, t := range decided.Opened {
		r.s.wakeFeeder(t.Pool)
	}
}

// release frees the reserved workers.
func (r *reservation) release() {
	for pool, n := range r.workers {
		r.s.slots.give(pool, n)
	}
	r.ended()
}
