package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A run that has not started, or not ended, when it was expected to is told of once, by whichever replica, also if all of them were away then; what
// meets its expectations is not, nor is what did not ask.
func TestLateRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		box := &inbox{says: func(n jobs.Notification) (string, error) {
			return fmt.Sprintf("%s %s %s", n.Event, n.Job, n.ReasonCode), nil
		}}
		notify := jobs.Notify{On: []jobs.Event{jobs.EventLate}, Handler: box}
		takes := func(d time.Duration) jobs.Handler {
			return jobs.Named(d.String(), jobs.Func(func(ctx context.Context, _ jobs.Task, _ struct{}) error {
				select {
				case <-time.After(d):
				case <-ctx.Done():
				}
				return nil
			}))
		}
		expect := jobs.Expect{StartWithin: time.Minute, FinishWithin: 2 * time.Minute}
		due := time.Now().Add(10 * time.Minute).UTC().Truncate(time.Minute)
		at := "@at " + due.Format(time.RFC3339)
		set := jobs.Set{Jobs: map[string]jobs.Job{
			"slow":   {Schedule: at, Handler: takes(5 * time.Minute), Notify: notify, Expect: expect},
			"fine":   {Schedule: at, Handler: takes(110 * time.Second), Notify: notify, Expect: expect},
			"nobody": {Schedule: at, Handler: takes(0), Notify: notify, Expect: jobs.Expect{StartWithin: time.Minute}, RunsOn: map[string]string{"zone": "x"}},
			"later":  {Schedule: at, Handler: takes(0), Notify: notify, Expect: jobs.Expect{StartWithin: time.Hour}, RunsOn: map[string]string{"zone": "x"}},
			"silent": {Schedule: at, Handler: takes(5 * time.Minute), Notify: jobs.Notify{Handler: box}, Expect: expect},
		}}
		start := func(id string) (stop func()) {
			s, err := newOn(st, nil, set, Options{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			return func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
		stopA, stopB := start("a"), start("b")
		time.Sleep(time.Until(due.Add(time.Minute)))
		if got := box.all(); len(got) > 0 {
			t.Errorf("told of %q before anything was late", got)
		}
		time.Sleep(10 * time.Second)
		if got := box.all(); !slices.Equal(got, []string{"late nobody start_late"}) {
			t.Errorf("a minute after the due time told of %q", got)
		}
		time.Sleep(10 * time.Minute)
		want := []string{"late nobody start_late", "late slow finish_late"}
		if got := box.all(); !slices.Equal(got, want) {
			t.Errorf("told of %q, want %q", got, want)
		}
		for i, by := range []time.Time{due.Add(time.Minute), due.Add(2 * time.Minute)} {
			if after := box.at[i].Sub(by); after < time.Second || after > 4*time.Second {
				t.Errorf("%s was found %s after its time", box.told[i], after)
			}
		}
		stopA()
		stopB()
		time.Sleep(2 * time.Hour)
		stop := start("c")
		time.Sleep(time.Minute)
		if got := box.all(); !slices.Equal(got, append([]string{"late later start_late"}, want...)) {
			t.Errorf("after all replicas were away told of %q", got)
		}
		stop()
	})
}
