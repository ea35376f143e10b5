package scheduler_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A job whose attempt was lost may not be run again until that attempt must have ended: the refusal says until when, which
// run it is, and what to do. A caller may force a run by naming the lost attempt, which is recorded; a task that runs is
// never forced aside.
func TestForcedRuns(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"run", "retry"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			db := sqlite(t)
			st := db.open(t)
			cut := &silent{Store: db.open(t).Sides().Replica}
			gone, h := newBlocking(), newBlocking()
			defer close(gone.finish)
			set := func(h *blocking) jobs.Set { return jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}} }
			a := start(t, cut, nil, set(gone), scheduler.Options{ID: "a", SessionTTL: time.Second, DrainTimeout: time.Second})
			lost := runNow(t, a, gone)
			var log bytes.Buffer // read after the replica has ended
			b := start(t, db.open(t), nil, set(h), scheduler.Options{ID: "b", SessionTTL: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			cut.cut.Store(true)
			got := ended(t, st, lost.task.ID)
			if got.State != jobs.StateLost {
				t.Fatalf("it is %s", got.State)
			}
			again := func(force string) (jobs.Task, error) {
				if how == "retry" {
					return b.Retry(t.Context(), lost.task.ID, "ann", force)
				}
				_, task, err := b.RunJob(t.Context(), "j", "ann", force)
				return task, err
			}
			until := got.StartedAt.Add(24 * time.Hour).Format("2006-01-02T15:")
			whose := ": the run of " + lost.task.ScheduledAt.Format(time.RFC3339Nano) + " (task " + lost.task.ID + ") was lost with replica a at " + got.FinishedAt.Format(time.RFC3339)
			command := map[string]string{"run": "scheduler jobs run j --force=", "retry": "scheduler tasks retry " + lost.task.ID + " --force="}[how] + lost.task.ID
			_, err := again("")
			if !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "a lost attempt may run until "+until) ||
				!strings.HasSuffix(err.Error(), whose+"; try again then; if you know that it has ended, start it now: "+command) {
				t.Errorf("not forced: %v", err)
			}
			task, err := again(lost.task.ID)
			if err != nil {
				t.Fatalf("forced: %v", err)
			}
			if how == "retry" && (task.ReasonCode != reason.Forced || !strings.HasPrefix(task.Reason, "forced although ")) {
				t.Errorf("the reason of the retry is %s: %s", task.ReasonCode, task.Reason)
			}
			next := <-h.began
			if next.task.ID != task.ID || next.task.Token <= lost.task.Token {
				t.Errorf("the forced run got %+v after %+v", next.task, lost.task)
			}
			for _, force := range []string{"", lost.task.ID, task.ID} { // a task that a replica runs is not forced aside
				if _, _, err := b.RunJob(t.Context(), "j", "ann", force); !errors.Is(err, jobs.ErrConflict) ||
					!strings.Contains(err.Error(), "(task "+task.ID+") has been running on replica b since ") || !strings.HasSuffix(err.Error(), "or cancel it first: scheduler tasks cancel "+task.ID) {
					t.Errorf("beside it, forced %q: %v", force, err)
				}
			}
			h.finish <- struct{}{}
			if end := ended(t, st, task.ID); end.State != jobs.StateSucceeded {
				t.Errorf("it %s: %s", end.State, end.Reason)
			}
			if how == "run" {
				rows := ledgerOf(t, st, "j")
				at := func(id string) (why string) {
					for _, row := range rows {
						if row.TaskID == id && row.Cause == jobs.CauseManual && row.By == "ann" && row.ReasonCode == reason.Forced && row.Result == jobs.StateSucceeded {
							why = row.Reason
						}
					}
					return why
				}
				if why := at(task.ID); !strings.HasPrefix(why, "forced although a lost attempt may run until "+until) || !strings.HasSuffix(why, whose) {
					t.Errorf("its reason is %q", why)
				}
			}
			// The force was for that attempt: the job is free.
			var third jobs.Trigger
			await.Until(t, "the job runs again", func() bool {
				third, _, err = b.RunJob(t.Context(), "j", "ann", lost.task.ID)
				return err == nil
			})
			if third.Reason != "" {
				t.Errorf("with nothing in the way: %q", third.Reason)
			}
			<-h.began
			h.finish <- struct{}{}
			if err := b.drain(); err != nil {
				t.Error(err)
			}
			const line = `msg="a run was forced although a lost attempt of the job may still run" job=j task=`
			if n := strings.Count(log.String(), line); n != 1 || !strings.Contains(log.String(), line+task.ID+" by=ann ") {
				t.Errorf("the log says so %d times:\n%s", n, &log)
			}
		})
	}
}
