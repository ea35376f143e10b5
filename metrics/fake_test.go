package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// fake is a store and a replica in a state set by the test.
type fake struct {
	ledger.API
	mu        sync.Mutex
	set       jobs.Set
	vitals    wire.Vitals
	pools     []ledger.PoolStatus
	standings []ledger.JobStanding
	peers     []ledger.Peer
	reads     int
	reading   func() error // is called with each read
}

func (f *fake) store() Store { return ledger.Sides{API: f} }

func (f *fake) Set() jobs.Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set
}

func (f *fake) Vitals() wire.Vitals {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.vitals
}

func (f *fake) Paused(context.Context) (ledger.Pause, error) {
	return ledger.Pause{By: "ann", Since: time.Unix(1, 0)}, nil
}

func (f *fake) CountPools(context.Context) ([]ledger.PoolStatus, error) {
	f.mu.Lock()
	f.reads++
	reading := f.reading
	f.mu.Unlock()
	if reading != nil {
		if err := reading(); err != nil {
			return nil, err
		}
	}
	return f.pools, nil
}

func (f *fake) JobStandings(context.Context) ([]ledger.JobStanding, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.standings, nil
}

func (f *fake) Replicas(context.Context) ([]ledger.Peer, error) { return f.peers, nil }
