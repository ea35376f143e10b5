package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Replicas that claim without a lock take every task once, and each gets its own.
func claimOnce(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const claimers, tasks = 16, 200
	s.enqueue("work", tasks)
	scenes := make([]*scene, claimers)
	for i := range scenes {
		scenes[i] = &scene{Bench: b, t: t, replica: "r", session: s.session}
	}
	var mu sync.Mutex
	owners := map[string]int{}
	Together(t, claimers, func(ctx context.Context, i int) error {
		for {
			got, err := tasksOf(b.Store.Claim(ctx, scenes[i].claiming("work", 7)))
			if err != nil {
				return err
			}
			if len(got.Tasks) == 0 && !got.More {
				return nil
			}
			var results []ledger.Result
			mu.Lock()
			for k, task := range got.Tasks {
				owners[task.ID]++
				v := ledger.Ended
				if k == 0 && task.Token < 4 {
					v = ledger.HandBack // pending again, under the same token
					owners[task.ID]--
				}
				results = append(results, result(task, v, jobs.StateSucceeded))
			}
			mu.Unlock()
			done, err := b.Store.Finish(ctx, s.session, results)
			if err != nil {
				return err
			}
			for _, d := range done {
				if d.Finish != ledger.Recorded {
					t.Errorf("the end of %s is %s: its claim was not exclusive", d.TaskID, d.Finish)
				}
			}
		}
	})
	twice := 0
	for _, n := range owners {
		twice += max(n-1, 0)
	}
	if len(owners) != tasks || twice != 0 {
		t.Errorf("%d of %d tasks were claimed, %d of them twice", len(owners), tasks, twice)
	}
	s.wantInt(tasks, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
}

// A candidate that was claimed and handed back since it was read carries another token: it is
// left out, and the answer has what is in the rows.
func claimStolen(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of a claim
	}
	s := newScene(t, b)
	made := s.enqueue("work", 4)
	c := s.claiming("work", 4)
	c.Admit = func(now time.Time, k ledger.Candidate) (time.Time, bool) {
		switch k.Task.ID {
		case made[0]:
			s.DB.Exec(t, "UPDATE {tasks} SET token=token+1 WHERE id=?", made[0])
		case made[1]:
			s.DB.Exec(t, "UPDATE {tasks} SET state=2, token=token+1 WHERE id=?", made[1])
		case made[2]:
			s.DB.Exec(t, "UPDATE {tasks} SET state=2 WHERE id=?", made[2])
		}
		return now, true
	}
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	if d := cmp.Diff(made[3:], ids(got.Tasks)); d != "" {
		t.Error(d)
	}
	s.want("first", s.task(made[0]), "ready attempt 0 token 1 replica -: -")
	s.want("second", s.task(made[1]), "running attempt 0 token 1 replica -: -")
	s.want("third", s.task(made[2]), "running attempt 0 token 0 replica -: -")

	// The same for a claim of a single task, which is written otherwise.
	for _, change := range []string{"token=token+1", "state=2"} {
		s.DB.Exec(t, "DELETE FROM {tasks}")
		alone := s.enqueue("work", 2)[0] // and one behind it, which this claim has no room for
		c := s.claiming("work", 1)
		c.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) {
			s.DB.Exec(t, "UPDATE {tasks} SET "+change+" WHERE id=?", alone)
			return now, true
		}
		if got, err := tasksOf(b.Store.Claim(s.ctx(), c)); err != nil || len(got.Tasks) > 0 {
			t.Errorf("%s: claimed %+v, %v", change, got.Tasks, err)
		}
		s.wantInt(0, "SELECT SUM(attempt) FROM {tasks}")
	}
}

// A task without a key that waits for its turn is changed while a claim takes it: it starts with this claim, or a later one looks for it.
func fairChanged(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // as above
	}
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("", 1)
	waits := s.newTask(jobs.NewTask{})
	s.limitedClaim("work", 1)
	s.waitsForKey(waits, "the turn of other keys")
	c := s.claiming("work", 1)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	changed := make(chan error, 1)
	c.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) {
		go func() {
			_, err := b.Store.UpdateTask(s.ctx(), waits, wire.TaskChange{Tags: &[]string{"x"}})
			changed <- err
		}()
		await.Until(t, "the task is changed, or waits for the claim", func() bool {
			return len(changed) > 0 ||
				b.DB.Int(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'UPDATE {keys}%' AND id<>CONNECTION_ID()") == 1
		})
		return now.Add(time.Minute), true
	}
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	if err := <-changed; err != nil && !errors.Is(err, jobs.ErrConflict) {
		t.Error(err)
	}
	if len(got.Tasks) == 0 {
		s.starts("it waits on", waits)
	}
}
