package pools

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
)

func reminders(at time.Time) []jobs.NewTask {
	return []jobs.NewTask{
		{Pool: "mail", Kind: "reminder", RunAt: at.Add(-24 * time.Hour)},          // not before
		{Pool: "mail", Kind: "code", ExpiresAt: time.Now().Add(10 * time.Minute)}, // of no use later
	}
}

// A reminder goes out when its time has come; a code that waited too long for the pool does not.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := map[string]time.Time{}
		send := jobs.Func(func(_ context.Context, task jobs.Task, _ struct{}) error {
			sent[task.Kind] = time.Now()
			return nil
		})
		b := schedulertest.New(t, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Kinds: map[string]jobs.Handler{"reminder": send, "code": send}}}}, schedulertest.Options{})
		event := time.Now().Add(72 * time.Hour)
		b.Enqueue(reminders(event)...)
		time.Sleep(11 * time.Minute) // of the bubble: no replica has room meanwhile
		states := map[string]jobs.Task{}
		for _, task := range b.RunUntil(event) {
			states[task.Kind] = task
		}
		if at := sent["reminder"]; at.Before(event.Add(-24*time.Hour)) || at.After(event.Add(-24*time.Hour+time.Second)) {
			t.Errorf("sent at %v, for %v", at, event)
		}
		if code := states["code"]; code.State != jobs.StateCancelled || code.ReasonCode != reason.Expired || !sent["code"].IsZero() {
			t.Errorf("%s %s %s", code.State, code.ReasonCode, code.Reason)
		}
	})
}
