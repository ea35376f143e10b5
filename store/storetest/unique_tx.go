package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Transactions of callers that enqueue the same wait for each other: the second has what the first commits, or is the first.
func uniqueTransactions(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // one transaction writes at a time
	}
	s := newScene(t, b)
	b.DB.Handle().SetMaxOpenConns(20)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		for _, commits := range []bool{true, false} {
			what := fmt.Sprintf("%s, commits %v", level, commits)
			n := jobs.NewTask{Pool: "work", Payload: what, Unique: &jobs.Unique{}}
			other := jobs.NewTask{Pool: "work", Payload: what + ", other", Unique: &jobs.Unique{}}
			tx, err := b.DB.Handle().BeginTx(s.ctx(), &sql.TxOptions{Isolation: level})
			must(t, err)
			first, err := b.SQL().EnqueueTx(s.ctx(), tx, n)
			must(t, err)
			again, err := b.SQL().EnqueueTx(s.ctx(), tx, n)
			if err != nil || !again[0].Existed || again[0].ID != first[0].ID {
				t.Errorf("%s: twice in one transaction: %+v, %v", what, again, err)
			}
			second := make(chan jobs.Enqueued)
			go func() {
				all, err := s.Store.Enqueue(s.ctx(), n)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					all = make([]jobs.Enqueued, 1)
				}
				second <- all[0]
			}()
			if Enqueue(t, b, other)[0].Existed {
				t.Errorf("%s: another value is held up", what)
			}
			select {
			case got := <-second:
				t.Errorf("%s: it did not wait for the transaction: %+v", what, got)
			case <-time.After(100 * time.Millisecond):
				end := tx.Rollback
				if commits {
					end = tx.Commit
				}
				must(t, end())
				if got := <-second; got.Existed != commits || (got.ID == first[0].ID) != commits {
					t.Errorf("%s: %+v", what, got)
				}
			}
		}
	}
}

// A task that a caller's transaction relies on, since it is pending, is claimed after the transaction: it sees what was committed with that.
func uniqueTransactionBesideAClaim(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // one transaction writes at a time
	}
	s := newScene(t, b)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		for _, on := range []jobs.OnConflict{jobs.ConflictKeeps, jobs.ConflictReplaces} {
			what := fmt.Sprintf("%s, %s", level, on)
			u := jobs.Unique{By: []string{"kind"}, While: jobs.WhilePending, OnConflict: on}
			pending := s.unique(u, jobs.NewTask{Kind: "k", Payload: 1})
			tx, err := b.DB.Handle().BeginTx(s.ctx(), &sql.TxOptions{Isolation: level})
			must(t, err)
			got, err := b.SQL().EnqueueTx(s.ctx(), tx, jobs.NewTask{Pool: "work", Kind: "k", Payload: 2, Unique: &u})
			if err != nil || got[0].ID != pending.ID || !got[0].Existed {
				t.Fatalf("%s: %+v, %v", what, got, err)
			}
			claimed := make(chan []jobs.Task)
			go func() {
				all, err := tasksOf(s.Store.Claim(s.ctx(), s.claiming("work", 20)))
				for err == nil && len(all.Tasks) == 0 { // one that read the task before its change takes nothing
					all, err = tasksOf(s.Store.Claim(s.ctx(), s.claiming("work", 20)))
				}
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				claimed <- all.Tasks
			}()
			select {
			case got := <-claimed:
				t.Fatalf("%s: claimed before the commit: %+v", what, got)
			case <-time.After(100 * time.Millisecond):
			}
			must(t, tx.Commit())
			want := map[jobs.OnConflict]string{jobs.ConflictKeeps: "1", jobs.ConflictReplaces: "2"}[on]
			all := <-claimed
			if len(all) != 1 || all[0].ID != pending.ID || string(all[0].Payload) != want {
				t.Fatalf("%s: claimed %+v", what, all)
			}
			s.finish(result(all[0], ledger.Ended, jobs.StateSucceeded))
		}
	}
}

// A caller's transaction that met unique tasks, and stays open, holds up none that enqueue other values or other tasks: it locks no gap of a
// table.
func uniqueTransactionBesideOthers(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // one transaction writes at a time
	}
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"payload"}}
	var met []jobs.NewTask
	for i := range 6 {
		made := s.unique(u, jobs.NewTask{Payload: i})
		met = append(met, jobs.NewTask{Pool: "work", Payload: i, Unique: &u})
		if i%2 == 1 {
			_, err := s.Store.Cancel(s.ctx(), made.ID, "") // its uniqueness has ended
			must(t, err)
			// Nothing of its row is left in the index, as after a purge, and the gap of the last one is where new tasks go.
			id := newID()
			s.DB.Exec(t, "UPDATE {done} SET id=? WHERE id=?", id, made.ID)
			s.DB.Exec(t, "UPDATE {unique_tasks} SET task_id=? WHERE task_id=?", id, made.ID)
		}
	}
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelReadCommitted} {
		tx, err := b.DB.Handle().BeginTx(s.ctx(), &sql.TxOptions{Isolation: level})
		must(t, err)
		if _, err := b.SQL().EnqueueTx(s.ctx(), tx, met...); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			ctx, cancel := context.WithTimeout(s.ctx(), 10*time.Second)
			_, err := s.Store.Enqueue(ctx, jobs.NewTask{Pool: "work", Payload: fmt.Sprint(level, i), Unique: &u}, newTask("work"))
			cancel()
			if err != nil {
				t.Fatalf("%s: %v", level, err)
			}
		}
		must(t, tx.Rollback())
	}
}

// A caller's transaction has read before another one enqueued, claimed or ended: what holds now decides.
func uniqueOldSnapshot(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // a transaction that has read cannot write there after another one wrote; that is the caller's error
	}
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind"}, While: jobs.WhilePending}
	open := jobs.Unique{By: []string{"payload"}, While: jobs.WhileOpen}
	look := func() *sql.Tx {
		t.Helper()
		tx, err := b.DB.Handle().BeginTx(s.ctx(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		var n int
		must(t, tx.QueryRowContext(s.ctx(), `SELECT COUNT(*) FROM lockstep_tasks`).Scan(&n))
		return tx
	}
	enqueue := func(when string, tx *sql.Tx, u jobs.Unique, existing string) {
		t.Helper()
		added, err := b.SQL().EnqueueTx(s.ctx(), tx, jobs.NewTask{Pool: "work", Kind: "k", Payload: 1, Unique: &u})
		if err != nil || added[0].Existed != (existing != "") || existing != "" && added[0].ID != existing {
			t.Errorf("%s: %+v, %v", when, added, err)
		}
		must(t, tx.Rollback())
	}
	tx := look()
	first := s.unique(u, jobs.NewTask{Kind: "k", Payload: 1})
	enqueue("enqueued since", tx, u, first.ID)
	tx = look()
	claimed := s.claim("work", 1)[0]
	enqueue("claimed since", tx, u, "")
	tx = look()
	second := s.unique(open, jobs.NewTask{Kind: "other", Payload: 1})
	enqueue("enqueued since, open", tx, open, second.ID)
	tx = look()
	s.finish(result(claimed, ledger.Ended, jobs.StateSucceeded))
	enqueue("ended since", tx, u, "")
	tx = look()
	s.finish(result(s.claim("work", 1)[0], ledger.Ended, jobs.StateSucceeded))
	enqueue("ended since, open", tx, open, "")
	tx = look()
	third := s.unique(open, jobs.NewTask{Kind: "other", Payload: 1})
	s.finish(result(s.claim("work", 1)[0], ledger.Ended, jobs.StateSucceeded))
	s.again("all that since", open, jobs.NewTask{Payload: 1}, third, false)
	_, err := s.Store.Cancel(s.ctx(), s.DB.Text(t, "SELECT id FROM {tasks}"), "")
	must(t, err)
	enqueue("enqueued and ended since", tx, open, "")
}

// A transaction whose task is refused for its kind may go on, with nothing of the task in it.
func uniqueUnknownKind(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax"))
	tx := begin(t, b)
	n := jobs.NewTask{Pool: "work", Kind: "mail", IdempotencyKey: "k", Unique: &jobs.Unique{}}
	_, err := b.SQL().EnqueueTx(s.ctx(), tx, jobs.NewTask{Pool: "work", Kind: "fax", Unique: &jobs.Unique{}}, n)
	if refused, ok := errors.AsType[*jobs.KindError](err); !ok || refused.Index != 1 {
		t.Fatal(err)
	}
	must(t, tx.Commit())
	for _, table := range []string{"tasks", "unique_tasks", "idempotency"} {
		s.wantInt(0, "SELECT COUNT(*) FROM {"+table+"}")
	}
}

// uniqueListened: replicas on a Store are told of a pending task that was replaced and is due, and of no task that was kept.
func uniqueListened(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind"}}
	s.unique(u, jobs.NewTask{RunAt: time.Now().Add(time.Hour)})
	told := 0
	defer b.Store.Listen(func(...string) { told++ })()
	want := func(what string, n int) {
		t.Helper()
		if told != n {
			t.Errorf("%s: told %d times, want %d", what, told, n)
		}
		told = 0
	}
	s.unique(u, jobs.NewTask{})
	want("kept", 0)
	u.OnConflict = jobs.ConflictReplaces
	s.unique(u, jobs.NewTask{RunAt: time.Now().Add(time.Hour)})
	want("replaced, due later", 0)
	s.unique(u, jobs.NewTask{})
	want("replaced, due now", 1)
}
