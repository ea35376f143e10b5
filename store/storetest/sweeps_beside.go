package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// sweepBesideCases are about deletion beside transactions of users, and beside what cannot be deleted.
var sweepBesideCases = []Case{
	{"Sweep/OpenTransaction", sweepOpenTransaction},
	{"Sweep/GoesOn", sweepGoesOn},
}

// A transaction of a user that has enqueued tasks, and stays open, holds up neither the retention nor a purge of others.
func sweepOpenTransaction(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // one transaction writes at a time
	}
	for _, n := range []int{1, 20, 200} {
		for _, purge := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, purge %v", n, purge), func(t *testing.T) {
				s := newScene(t, b)
				defer s.die()
				s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
				tasks := func(what string, n int) []jobs.NewTask {
					all := make([]jobs.NewTask, n)
					for i := range all {
						name := fmt.Sprint(t.Name(), what, i)
						all[i] = jobs.NewTask{Pool: "work", Key: name, IdempotencyKey: name, Payload: name, Unique: &jobs.Unique{For: time.Hour, While: jobs.WhilePending}}
					}
					return all
				}
				made, err := s.Store.Enqueue(s.ctx(), tasks("ended", n)...)
				must(t, err)
				var ended []ledger.Result
				for _, k := range s.limitedClaim("work", n).Tasks {
					ended = append(ended, result(k, ledger.Ended, jobs.StateFailed))
				}
				s.finish(ended...)
				s.DB.Exec(t, "UPDATE {done} SET finished_at=1")
				s.DB.Exec(t, "UPDATE {sequences} SET last_place=1")
				s.DB.Exec(t, "UPDATE {unique_tasks} SET look_at=1")
				tx, err := b.DB.Handle().BeginTx(s.ctx(), nil)
				must(t, err)
				defer func() { _ = tx.Rollback() }()
				_, err = b.SQL().EnqueueTx(s.ctx(), tx, append(tasks("open", 3), jobs.NewTask{Pool: "work", Key: made[0].Key})...)
				must(t, err)
				ctx, cancel := context.WithTimeout(s.ctx(), 20*time.Second) // what waits for the transaction waits until this ends
				defer cancel()
				if purge {
					if got, err := b.Store.ChangeTasks(ctx, wire.BulkPurge, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "work"}, Limit: 500}); err != nil || got.Done != n {
						t.Errorf("purged %d of %d: %v", got.Done, n, err)
					}
				} else if _, err := b.Store.Sweep(ctx, asIs, jobs.Retention{Failed: time.Hour}, 1000); err != nil {
					t.Error(err)
				}
				must(t, tx.Rollback())
				s.wantEmpty("done", "idempotency", "unique_tasks")
				if !purge {
					s.wantInt(1, "SELECT COUNT(*) FROM {sequences}") // the one that was locked
					s.sweep(jobs.Retention{}, 1000)
				}
			})
		}
	}
}

// Rows of one kind that the database does not delete hold up no other kind.
func sweepGoesOn(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.fails("work", "a", "b")
	s.DB.Exec(t, "UPDATE {done} SET finished_at=1")
	gone := s.second("gone")
	gone.die()
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=1 WHERE id=?", gone.session)
	for _, table := range []string{"triggers", "outputs"} {
		s.DB.Exec(t, "ALTER TABLE {"+table+"} RENAME TO {elsewhere}")
		more, err := b.Store.Sweep(s.ctx(), asIs, jobs.Retention{Triggers: time.Hour, Failed: time.Hour, Output: time.Hour}, 2)
		s.DB.Exec(t, "ALTER TABLE {elsewhere} RENAME TO {"+table+"}")
		if err == nil || more != (table == "triggers") {
			t.Errorf("without %s: more %v, %v", table, more, err)
		}
		s.wantEmpty("done")
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {sessions} WHERE id=?", gone.session)
}
