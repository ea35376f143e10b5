package work

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// The log names each task that an expired replica left, and its state then.
func TestWhatIsLoggedOfReapedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := reaping(t)
		log := &replicatest.Lines{}
		s.work.log = slog.New(log)
		st.reaped = []ledger.Reaped{{
			Task: jobs.Task{
				ID: "1", Job: "j", Pool: "p", Kind: "k", State: jobs.StateLost, Reason: "the session of replica b expired while it had the task", Replica: "c", Error: "before",
			},
			Replica: "b",
		}}
		s.work.reap(t.Context())
		want := []string{
			"attempt lost: its replica's session expired task=1 job=j pool=p replica=b state=lost reason=the session of replica b expired while it had the task",
		}
		if diff := cmp.Diff(want, log.Take()); diff != "" {
			t.Errorf("logged (-want +got):\n%s", diff)
		}
	})
}
