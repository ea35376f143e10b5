package scheduler

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A job is suspended when as many of its runs have failed in a row as it allows, on whichever of two replicas, and its notification is sent once. Whoever resumes it
// starts again from none.
func TestAJobThatFailsIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		var n atomic.Int64
		h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			if task.Attempt == 1 { // a retry follows, which counts alone
				return errors.New("no")
			}
			if n.Add(1) == 3 {
				return nil
			}
			return errors.New("no, again")
		})
		told := make(chan jobs.Notification, 100)
		notify := jobs.Func(func(_ context.Context, _ jobs.Task, said jobs.Notification) error {
			told <- said
			return nil
		})
		since := time.Now()
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {
			Schedule: "*/10 * * * * *", Handler: h, SuspendAfter: 3, StartsAt: since.Add(5 * time.Second), Retries: jobs.Retries{Limit: 1, Backoff: time.Second},
			Notify: jobs.Notify{On: []jobs.Event{jobs.EventSuspended}, Handler: notify},
		}}}
		s := runs(t, st, set, Options{ID: "a"})
		runs(t, st, set, Options{ID: "b"})
		time.Sleep(98 * time.Second)
		want := []string{"010 ran failed error", "020 ran failed error", "030 ran succeeded", "040 ran failed error", "050 ran failed error", "060 ran failed error", "070 skipped  suspended", "080 skipped  suspended", "090 skipped  suspended"}
		if d := cmp.Diff(want, outcomes(t, st, "j", since)); d != "" {
			t.Error(d)
		}
		if said := <-told; said.Event != jobs.EventSuspended || said.Job != "j" || said.TaskID == "" || said.Reason != "3 runs in a row have failed; suspend_after: 3" || said.Text == "" || !said.ScheduledAt.Equal(since.Add(60*time.Second).UTC()) {
			t.Errorf("told: %+v", said)
		}
		if err := st.SuspendJob(t.Context(), "j", "me", new(false)); err != nil {
			t.Fatal(err)
		}
		s.Wake()
		time.Sleep(time.Minute)
		want = append(want, "100 ran failed error", "110 ran failed error", "120 ran failed error", "130 skipped  suspended", "140 skipped  suspended", "150 skipped  suspended")
		if d := cmp.Diff(want, outcomes(t, st, "j", since)); d != "" {
			t.Error(d)
		}
		if len(told) != 1 {
			t.Errorf("told %d times more", len(told))
		}
	})
}
