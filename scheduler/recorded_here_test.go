package scheduler

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A task that has failed or is lost for good is an event that may have a notification.
func TestWhatIsToldOfARecordedResult(t *testing.T) {
	for state, want := range map[jobs.State]bool{
		jobs.StateSucceeded: false, jobs.StateFailed: true, jobs.StateLost: true, jobs.StateCancelled: false, jobs.StatePending: false,
	} {
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		s.recordedHere("j", state)
		if told := len(s.wakeNotify) > 0; told != want {
			t.Errorf("%s: events are looked at now: %t", state, told)
		}
	}
}
