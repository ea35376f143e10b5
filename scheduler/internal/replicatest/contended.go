package replicatest

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Contended is a store where another transaction always holds the rows of all jobs but the last, and each call takes its time.
type Contended struct {
	ledger.Store
	Late    int // decisions about overdue jobs
	Started int // by the first decision about several jobs; -1: there was none
	Then    func()
}

// Decide decides the last job, and says that the others are busy.
func (c *Contended) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	if d.Overdue {
		c.Late++
	}
	time.Sleep(20 * time.Millisecond)
	last := len(d.Jobs) - 1
	busy := d.Jobs[:last]
	d.Jobs = d.Jobs[last:]
	got, err := c.Store.Decide(ctx, d)
	got.Busy = busy
	if len(busy) > 0 && c.Started < 0 {
		c.Started = len(got.Started)
	}
	if c.Then != nil {
		c.Then()
	}
	return got, err
}

// NewContended is an empty store.
func NewContended() *Contended {
	return &Contended{Store: &memstore.Store{Database: memstore.New()}, Started: -1}
}
