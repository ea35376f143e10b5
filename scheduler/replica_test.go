package scheduler

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// storeAnswers reports whether the store counts as there.
func (s *Scheduler) storeAnswers() bool {
	s.members.SetLoaded()
	return s.members.Vitals().StoreUp
}

func replicaOn(t *testing.T, st ledger.Store, h jobs.Handler) *Scheduler {
	t.Helper()
	s, err := newOn(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 4}}}, Options{ID: "a", DrainTimeout: time.Second, StopGrace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
