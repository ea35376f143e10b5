package storetest

import (
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// admitted are the tasks that replicas let run when they decide, by id, and until when.
var admitted sync.Map

// admit has the replicas let a task run, which a decision is about to open, and returns its id.
func admit(id string, until time.Time) string {
	admitted.Store(id, until)
	return id
}

func admits(_ time.Time, c ledger.Candidate) (until time.Time, ok bool) {
	if v, is := admitted.Load(c.Task.ID); is {
		return v.(time.Time), true
	}
	return time.Time{}, false
}

// share changes what a claim's replica has of its pool.
func share(c *ledger.Claim, change func(*ledger.Share)) {
	s := c.Pools[c.Pool]
	change(&s)
	c.Pools = map[string]ledger.Share{c.Pool: s}
}

// claimed is a ledger.Claimed with its tasks as those of package jobs.
type claimed struct {
	ledger.Claimed
	Tasks []jobs.Task
}

func tasksOf(c ledger.Claimed, err error) (claimed, error) { return claimed{c, started(c.Tasks)}, err }

// decided is a ledger.Decided with its tasks as those of package jobs.
type decided struct {
	ledger.Decided
	Started []jobs.Task
}

func decidedOf(d ledger.Decided, err error) (decided, error) {
	return decided{d, started(d.Started)}, err
}

func started(all []ledger.Started) []jobs.Task {
	var tasks []jobs.Task
	for _, s := range all {
		tasks = append(tasks, *s.Task)
	}
	return tasks
}
