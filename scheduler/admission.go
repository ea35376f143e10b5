package scheduler

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// admission is by what a transaction makes tasks running here, with what this replica knows of these pools now: the
// transaction may be repeated, so it looks at nothing that changes.
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

// workers are those that are taken for a decision, by pool.
type workers map[string]int

// takeWorkers takes a free worker for a run of each of these jobs that this replica can run, as far as there are any.
func (s *executor) takeWorkers(names []string) workers {
	taken := workers{}
	for _, name := range names {
		pool := s.plan.Jobs[name].Pool
		if _, can := s.plan.Execution(jobs.Task{Job: name, Pool: pool}); can {
			taken[pool] += s.slots.take(pool, 1)
		}
	}
	return taken
}

func (s *executor) giveBack(taken workers) {
	for pool, n := range taken {
		s.slots.give(pool, n)
	}
}

// governed is by what the feeders of these pools go now.
func (s *executor) governed(taken workers) map[string]plan.Governing {
	pools := map[string]plan.Governing{}
	for name := range taken {
		pools[name] = s.feeders[name].governed()
	}
	return pools
}
