package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A replica with an older configuration, which does not have the pool or the kind of a worker's attempt, ends none of them by defaults: the one that has
// it does, with the retries and the pause that it says. Where the newest configuration does not have it, it was removed, and any replica ends it.
func TestTheEndOfAnAttemptThatAReplicaDoesNotKnow(t *testing.T) {
	has := jobs.Pool{
		Handler: jobs.Worker{}, Kinds: map[string]jobs.Handler{"pdf": jobs.Worker{}}, Timeout: 30 * time.Second,
		Retries: jobs.Retries{Limit: 5, Backoff: time.Hour, MaxBackoff: time.Hour}, PauseOn: jobs.PauseOn{Failures: 100, Of: 1},
	}
	other := jobs.Pool{Handler: jobs.Worker{}}
	for what, c := range map[string]struct {
		lacks map[string]jobs.Pool
		newer bool // the replica that lacks it has the newest configuration
	}{
		"no pool":                {lacks: map[string]jobs.Pool{"other": other}},
		"no kind":                {lacks: map[string]jobs.Pool{"mail": other}},
		"the pool was removed":   {lacks: map[string]jobs.Pool{"other": other}, newer: true},
		"it ends by its timeout": {lacks: map[string]jobs.Pool{"other": other}},
	} {
		synctest.Test(t, func(t *testing.T) {
			st := &memstore.Store{Database: memstore.New()}
			byName := map[string]*Scheduler{}
			begin := func(name string, pools map[string]jobs.Pool) {
				byName[name] = runs(t, st, jobs.Set{Pools: pools}, Options{ID: name})
				time.Sleep(5 * time.Second)
			}
			if !c.newer {
				begin("lacks", c.lacks)
			}
			begin("has", map[string]jobs.Pool{"mail": has, "other": other})
			added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Kind: "pdf"})
			if err != nil {
				t.Fatal(err)
			}
			session, tasks := claims(t, byName["has"], wire.WorkerClaim{Pool: "mail", Kinds: []string{"pdf"}, Max: 1})
			if len(tasks) != 1 {
				t.Fatalf("%s: claimed %+v", what, tasks)
			}
			if c.newer {
				begin("lacks", c.lacks)
			}
			a := wire.WorkerAttempt{Session: session, Task: added[0].ID, Token: tasks[0].Token}
			if what == "it ends by its timeout" {
				for range 12 { // the replica that has it looks as often as the other
					time.Sleep(3 * time.Second)
					_, _ = byName["lacks"].HeartbeatFor(t.Context(), a, wire.WorkerReport{})
				}
			} else {
				for _, end := range []wire.WorkerEnd{{How: wire.WorkerCompleted}, {How: wire.WorkerFailed, In: -1, Error: "no"}} {
					if c.newer {
						end = wire.WorkerEnd{How: wire.WorkerFailed, In: -1, Error: "no"}
					}
					if _, err := byName["lacks"].EndFor(t.Context(), a, end); errors.Is(err, jobs.ErrUnavailable) == c.newer || c.newer && err != nil {
						t.Errorf("%s: %+v: %v", what, end, err)
					}
				}
				if !c.newer {
					if _, err := byName["has"].EndFor(t.Context(), a, wire.WorkerEnd{How: wire.WorkerFailed, In: -1, Error: "no"}); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			task, attempts, err := st.Task(t.Context(), added[0].ID)
			if err != nil || task.State != jobs.StatePending || len(attempts) != 1 {
				t.Fatalf("%s: %+v, %+v, %v", what, task, attempts, err)
			}
			if wait := time.Until(task.RunAt); (wait > 20*time.Minute) == c.newer {
				t.Errorf("%s: the next attempt is due in %v", what, wait)
			}
			pools, err := st.Pools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range pools {
				if p.Name == "mail" && !c.newer && (p.Paused == nil || !*p.Paused) {
					t.Errorf("%s: the failure was not counted", what)
				}
			}
		})
	}
}
