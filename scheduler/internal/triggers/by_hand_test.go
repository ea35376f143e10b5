package triggers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// ended is a store with a task of job j that has ended, which decides nothing.
type ended struct{ ledger.Store }

func (ended) TaskRow(_ context.Context, id string) (jobs.Task, error) {
	return jobs.Task{ID: id, Job: "j", State: jobs.StateSucceeded}, nil
}

// No manual run starts while the session is not trusted.
func TestNothingIsRunByHandWithoutATrustedSession(t *testing.T) {
	s, err := newOn(ended{replicatest.NewPicky(nil)}, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: replicatest.Blocked{}}}}, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Awake()})
	const want = ": this replica's session could not be renewed"
	if _, _, err := s.RunJob(t.Context(), "j", "ann", ""); !errors.Is(err, jobs.ErrUnavailable) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a run: %v", err)
	}
	if _, err := s.Retry(t.Context(), "1", "ann", ""); !errors.Is(err, jobs.ErrUnavailable) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("a retry: %v", err)
	}
}
