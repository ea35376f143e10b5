package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// opening decides a due time of each of the jobs, whose tasks may run as far as the pool default has room, which is limited.
func (s *scene) opening(n int, priority int, room int, names ...string) ledger.Decide {
	var decisions []ledger.Decision
	for _, job := range slices.Sorted(slices.Values(names)) {
		d := run(job, due(n), true)
		d.Triggers[0].Task.Priority = priority
		decisions = append(decisions, d)
	}
	request := s.deciding(func([]ledger.JobState) []ledger.Decision { return decisions })
	request.Jobs = names
	request.Pools = map[string]ledger.Share{"default": {Hash: hash, Limited: true, Room: room}}
	return request
}

// The tasks of triggers run at once in a limited pool, too, as many as there is room for in the pool and in the replica.
func limitedTriggers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for n, c := range []struct{ limit, running, room, want int }{
		{2, 0, 9, 2}, {2, 1, 9, 1}, {2, 2, 9, 0}, {2, 3, 9, 0}, {9, 0, 9, 3}, {9, 0, 1, 1}, {9, 0, 0, 0}, {9, 8, 9, 1},
	} {
		s.limit("default", c.limit)
		s.enqueue("default", c.running)
		s.DB.Exec(t, "UPDATE {tasks} SET state=2, session_id=?, token=1", s.session)
		got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(n+1, 0, c.room, "a", "b", "c")))
		must(t, err)
		if len(got.Started) != c.want || len(got.Started)+len(got.Opened) != 3 {
			t.Errorf("%+v: %d started, %d pending", c, len(got.Started), len(got.Opened))
		}
		for i, task := range got.Started {
			if job := []string{"a", "b", "c"}[i]; task.Job != job {
				t.Errorf("%+v: the task %d that started is one of %s", c, i, task.Job)
			}
			s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE id=? AND state=2 AND session_id=? AND token=?", task.ID, s.session, task.Token)
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
	// The row has a limit that the replica has not loaded, though its hash is the same.
	s.limit("default", 9)
	request := s.opening(20, 0, 9, "a")
	request.Pools = map[string]ledger.Share{"default": {Hash: hash, Room: 9}}
	if got, err := decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) > 0 || len(got.Opened) != 1 {
		t.Errorf("with a limit that it does not know of: %+v, %v", got, err)
	}
}

// A new task waits behind the pending ones of its priority and of higher ones, if they take all the room; and before those
// of lower ones.
func newTasksCompete(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.limit("default", 3)
	for n, c := range []struct {
		ranks string // of the pending tasks: - is higher, 0 the same, + lower
		want  int
	}{{"", 3}, {"0", 2}, {"-", 2}, {"+", 3}, {"0-", 1}, {"+++", 3}, {"+-+", 2}, {"---", 0}, {"000", 0}, {"0-0+", 0}, {"00++", 1}, {"0000", 0}} {
		for _, rank := range c.ranks {
			id := s.enqueue("default", 1)[0]
			s.DB.Exec(t, "UPDATE {tasks} SET rank_order=? WHERE id=?", map[rune]int{'-': -6, '0': -5, '+': -4}[rank], id)
		}
		waits := s.enqueue("default", 3) // for its run_at, which competes with none
		for _, id := range waits {
			s.DB.Exec(t, "UPDATE {tasks} SET state=1, rank_order=-6 WHERE id=?", id)
		}
		s.enqueue("work", 3)
		got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(n+1, 5, 9, "a", "b", "c")))
		must(t, err)
		if len(got.Started) != c.want || len(got.Opened) != 3-c.want {
			t.Errorf("beside %q %d of 3 started, want %d", c.ranks, len(got.Started), c.want)
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
	// Without a limit there is nothing to compete for.
	s.limit("default", 0)
	s.enqueue("default", 5)
	request := s.opening(30, 0, 9, "a", "b", "c")
	request.Pools = map[string]ledger.Share{"default": {Hash: hash, Room: 9}}
	if got, err := decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) != 3 {
		t.Errorf("without a limit: %+v, %v", got, err)
	}
}

// Where another transaction has the row of a limited pool, a decision does not wait for it: its tasks are pending.
func limitedPoolIsBusy(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // where a transaction has the whole database
	}
	s := newScene(t, b)
	s.limit("default", 9)
	s.enqueue("default", 1)
	other := s.second("two")
	claim := other.claiming("default", 1)
	share(&claim, func(s *ledger.Share) { s.Limited = true })
	claim.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) {
		began := time.Now()
		got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(1, 0, 9, "a", "b")))
		if err != nil || len(got.Started) > 0 || len(got.Opened) != 2 {
			t.Errorf("while another replica claims: %+v, %v", got, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it waited for %v", took)
		}
		return now, true
	}
	got, err := tasksOf(other.Store.Claim(other.ctx(), claim))
	must(t, err)
	if len(got.Tasks) != 1 {
		t.Errorf("claimed %d", len(got.Tasks))
	}
	if got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(2, 5, 9, "a", "b"))); err != nil || len(got.Started) != 2 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

// max_running is exact over replicas that claim and replicas that decide at the same time.
func limitedTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const limit, rounds = 3, 30
	s.limit("default", limit)
	running := func(what string) {
		if n := s.DB.Int(t, "SELECT COUNT(*) FROM {tasks} WHERE state=2"); n > limit {
			t.Errorf("%d tasks run at once after %s, %d are allowed", n, what, limit)
		}
	}
	end := func(ctx context.Context, tasks []jobs.Task) error {
		var results []ledger.Result
		for _, task := range tasks {
			results = append(results, result(task, ledger.Ended, jobs.StateSucceeded))
		}
		_, err := b.Store.Finish(ctx, s.session, results)
		return err
	}
	Together(t, 6, func(ctx context.Context, me int) error {
		for n := range rounds {
			if me%2 == 0 {
				got, err := decidedOf(b.Store.Decide(ctx, s.opening(me*rounds+n+1, 0, 2, []string{"a", "b", "c"}[me/2])))
				if err != nil {
					return err
				}
				running("a decision")
				if err := end(ctx, got.Started); err != nil {
					return err
				}
				continue
			}
			c := s.claiming("default", 2)
			share(&c, func(s *ledger.Share) { s.Limited = true })
			got, err := tasksOf(b.Store.Claim(ctx, c))
			if err != nil {
				return err
			}
			running("a claim")
			if err := end(ctx, got.Tasks); err != nil {
				return err
			}
		}
		return nil
	})
	c := s.claiming("default", 9999)
	for pending := s.DB.Int(t, "SELECT COUNT(*) FROM {tasks}"); pending > 0; pending = s.DB.Int(t, "SELECT COUNT(*) FROM {tasks}") {
		c.ID = newID()
		share(&c, func(s *ledger.Share) { s.Limited = true })
		got, err := tasksOf(b.Store.Claim(s.ctx(), c))
		must(t, err)
		must(t, end(s.ctx(), got.Tasks))
	}
	s.wantInt(3*rounds, "SELECT COUNT(*) FROM {done}")
}
