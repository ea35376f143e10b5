package replicatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Picky is a store that does not take every result.
type Picky struct {
	*memstore.Store
	mu    sync.Mutex
	judge func(ledger.Result) error // asked about each; nil: it takes them all
	calls int
	taken map[string]ledger.Result // by task
}

// Finish takes the results, unless one of them is refused.
func (p *Picky) Finish(_ context.Context, _ string, results []ledger.Result) ([]ledger.Finished, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	for _, r := range results {
		if p.judge == nil {
			break
		}
		if err := p.judge(r); err != nil {
			return nil, err
		}
	}
	done := make([]ledger.Finished, len(results))
	for i, r := range results {
		p.taken[r.TaskID] = r
		done[i] = ledger.Finished{TaskID: r.TaskID, Finish: ledger.Recorded}
	}
	return done, nil
}

// Became makes judge decide from now on.
func (p *Picky) Became(judge func(ledger.Result) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// Seen returns how often results came, and those that were taken.
func (p *Picky) Seen() (calls int, taken map[string]ledger.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls, maps.Clone(p.taken)
}

// NewPicky is an empty store, with judge.
func NewPicky(judge func(ledger.Result) error) *Picky {
	return &Picky{Store: &memstore.Store{Database: memstore.New()}, judge: judge, taken: map[string]ledger.Result{}}
}

// Away refuses a result as a store that is away does.
func Away(ledger.Result) error { return fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable) }

// ErrRefused is what a store says of a result that it refuses.
var ErrRefused = errors.New("error 1406 (22001): Data too long for column 'output' at row 1")
