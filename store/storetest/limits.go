package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// max_running is exact over all replicas, at every moment.
func maxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const claimers, limit, tasks = 16, 5, 60
	s.limit("work", limit)
	s.enqueue("work", tasks)
	Together(t, claimers, func(ctx context.Context, _ int) error {
		for {
			c := s.claiming("work", 3)
			share(&c, func(s *ledger.Share) { s.Limited = true })
			got, err := tasksOf(b.Store.Claim(ctx, c))
			if err != nil {
				return err
			}
			if n := s.DB.Int(t, "SELECT COUNT(*) FROM {tasks} WHERE state=2"); n > limit {
				t.Errorf("%d tasks run at once, %d are allowed", n, limit)
			}
			if len(got.Tasks) == 0 && !got.Full && !got.More {
				return nil
			}
			var results []ledger.Result
			for _, task := range got.Tasks {
				results = append(results, result(task, ledger.Ended, jobs.StateSucceeded))
			}
			if _, err := b.Store.Finish(ctx, s.session, results); err != nil {
				return err
			}
		}
	})
	s.wantInt(tasks, "SELECT COUNT(*) FROM {done}")
	for range 2 {
		s.enqueue("work", limit)
	}
	c := s.claiming("work", 100)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	got, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	if len(got.Tasks) != limit || got.Full {
		t.Errorf("claimed %d, full %v", len(got.Tasks), got.Full)
	}
	c.ID = newID()
	if got, err = tasksOf(b.Store.Claim(s.ctx(), c)); err != nil || len(got.Tasks) != 0 || !got.Full {
		t.Errorf("claimed %d, full %v, %v", len(got.Tasks), got.Full, err)
	}
}

func extend(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	tasks := s.claim("work", 3)
	other := s.second("two")
	until := func(i int) int64 {
		return s.DB.Int(t, "SELECT may_run_until FROM {tasks} WHERE id=?", tasks[i].ID)
	}
	moves := func() []ledger.Extension {
		return []ledger.Extension{
			{TaskID: tasks[2].ID, Token: tasks[2].Token, Until: due(3)},
			{TaskID: tasks[0].ID, Token: tasks[0].Token, Until: due(1)},
			{TaskID: tasks[1].ID, Token: tasks[1].Token - 1, Until: due(2)}, // stale
			{TaskID: newID(), Token: 1, Until: due(1)},
		}
	}
	before := until(1)
	for range 2 { // the second time the values are there already
		got, err := b.Store.Extend(s.ctx(), s.session, moves())
		must(t, err)
		if d := cmp.Diff([]bool{true, true, false, false}, got); d != "" {
			t.Error(d)
		}
	}
	if until(0) != due(1).UnixMicro() || until(2) != due(3).UnixMicro() || until(1) != before {
		t.Errorf("may_run_until is %d, %d, %d", until(0), until(1), until(2))
	}
	got, err := b.Store.Extend(s.ctx(), s.session, []ledger.Extension{{TaskID: tasks[2].ID, Token: tasks[2].Token, Until: due(2)}})
	if must(t, err); !got[0] || until(2) != due(3).UnixMicro() {
		t.Errorf("an older time, which comes late, moved may_run_until to %d", until(2))
	}
	if got, err = b.Store.Extend(s.ctx(), s.session, nil); err != nil || len(got) != 0 {
		t.Errorf("of no tasks: %v, %v", got, err)
	}
	got, err = b.Store.Extend(s.ctx(), other.session, moves())
	must(t, err)
	if slices.Contains(got, true) {
		t.Error("another session moved may_run_until")
	}
	s.die()
	if got, err = b.Store.Extend(s.ctx(), s.session, []ledger.Extension{{TaskID: tasks[0].ID, Token: tasks[0].Token, Until: due(4)}}); err != nil || got[0] || until(0) != due(1).UnixMicro() {
		t.Errorf("a dead session may go on until %d: %v, %v", until(0), got, err)
	}
}
