package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

var uniqueTogetherCases = []Case{
	{"Unique/Together", uniqueTogether},
	{"Unique/OpenBesideClaims", openBesideClaims},
	{"Unique/PendingBesideClaims", pendingBesideClaims},
	{"Unique/Transactions", uniqueTransactions},
	{"Unique/TransactionBesideAClaim", uniqueTransactionBesideAClaim},
	{"Unique/TransactionBesideOthers", uniqueTransactionBesideOthers},
	{"Unique/OldSnapshot", uniqueOldSnapshot},
	{"Unique/UnknownKind", uniqueUnknownKind},
	{"Unique/Listened", uniqueListened},
}

// Of several processes that enqueue tasks with the same values at the same time, exactly one adds it: when there is none, and when the
// uniqueness of the one that is there has ended.
func uniqueTogether(t *testing.T, b *Bench) {
	const processes, each, values = 5, 4, 3
	s := newScene(t, b)
	stores := make([]Store, processes)
	for i := range stores {
		stores[i] = b.Open(t)
	}
	last := [values]string{}
	for round := range 4 {
		var mu sync.Mutex
		var added [values]int
		var ids [values]map[string]bool
		for v := range ids {
			ids[v] = map[string]bool{}
		}
		Together(t, processes*each, func(ctx context.Context, i int) error {
			var list []jobs.NewTask
			for k := range values {
				v := k
				if i%2 == 1 { // in the opposite order
					v = values - 1 - k
				}
				on := []jobs.OnConflict{jobs.ConflictKeeps, jobs.ConflictReplaces}[i/2%2]
				list = append(list, jobs.NewTask{Pool: "work", Kind: fmt.Sprint(v), Payload: i, Unique: &jobs.Unique{By: []string{"kind"}, OnConflict: on}})
			}
			all, err := stores[i%processes].Enqueue(ctx, list...)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for k, e := range all {
				v := int(list[k].Kind[0] - '0')
				if !e.Existed {
					added[v]++
				}
				ids[v][e.ID] = true
			}
			return nil
		})
		for v := range values {
			if added[v] != 1 || len(ids[v]) != 1 || ids[v][last[v]] {
				t.Fatalf("round %d, value %d: %d times new, %d tasks", round, v, added[v], len(ids[v]))
			}
			for id := range ids[v] {
				last[v] = id
			}
		}
		s.wantInt(values, "SELECT COUNT(*) FROM {tasks}")
		var results []ledger.Result
		for _, task := range s.claim("work", 20) {
			results = append(results, result(task, ledger.Ended, jobs.StateSucceeded))
		}
		s.finish(results...)
	}
	s.wantInt(values, "SELECT COUNT(*) FROM {unique_tasks}")
}

// While others claim, hand back, retry, change and end, no two tasks with the same values are unique at once; and none is lost: where no
// uniqueness holds, one is added.
func openBesideClaims(t *testing.T, b *Bench) { uniqueBeside(t, b, jobs.WhileOpen) }

func pendingBesideClaims(t *testing.T, b *Bench) { uniqueBeside(t, b, jobs.WhilePending) }

func uniqueBeside(t *testing.T, b *Bench, while jobs.UniqueWhile) {
	const producers, rounds = 3, 40
	s := newScene(t, b)
	replicas := make([]*scene, 2)
	for i := range replicas {
		replicas[i] = s.second(fmt.Sprint("replica ", i))
	}
	stores := make([]Store, producers)
	for i := range stores {
		stores[i] = b.Open(t)
	}
	var producing, added, kept atomic.Int32
	producing.Store(producers)
	w := &uniqueWatch{seen: map[string]bool{}, under: map[string]bool{}}
	Together(t, len(replicas)+producers, func(ctx context.Context, i int) error {
		if i < len(replicas) {
			return replicas[i].workUnique(ctx, w, while, func() bool { return producing.Load() == 0 })
		}
		defer producing.Add(-1)
		for n := range rounds {
			u := jobs.Unique{By: []string{"key"}, While: while, OnConflict: []jobs.OnConflict{jobs.ConflictKeeps, jobs.ConflictReplaces}[n%2]}
			all, err := stores[i-len(replicas)].Enqueue(ctx, jobs.NewTask{Pool: "work", Key: "a", Payload: n, Unique: &u})
			if err != nil {
				return err
			}
			if !all[0].Existed {
				added.Add(1)
				continue
			}
			kept.Add(1)
			if n%5 == 0 {
				if _, err := stores[i-len(replicas)].UpdateTask(ctx, all[0].ID, wire.TaskChange{Priority: &n}); err != nil && !errors.Is(err, jobs.ErrConflict) {
					return err
				}
			}
		}
		return nil
	})
	s.wantInt(int64(added.Load()), "SELECT COUNT(*) FROM {done}")
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	if added.Load() < 2 || kept.Load() < 2 {
		t.Logf("%d were new, and %d existed: the processes were hardly beside each other", added.Load(), kept.Load())
	}
}

// uniqueWatch sees the claims of tasks with the same values.
type uniqueWatch struct {
	mu    sync.Mutex
	seen  map[string]bool
	under map[string]bool // way, as their owners know it
}

// begins notes claimed tasks. Those that were not claimed before were pending at once, and with open all of them are open.
func (w *uniqueWatch) begins(tasks []jobs.Task, while jobs.UniqueWhile) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := 0
	for _, k := range tasks {
		if !w.seen[k.ID] {
			first++
		}
		w.seen[k.ID], w.under[k.ID] = true, true
	}
	if first > 1 || while == jobs.WhileOpen && len(w.under) > 1 {
		return fmt.Errorf("%d tasks were pending at once, and %d are under way", first, len(w.under))
	}
	return nil
}

func (w *uniqueWatch) ends(k jobs.Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.under, k.ID)
}

// workUnique claims and ends what there is, until there will be nothing more.
func (s *scene) workUnique(ctx context.Context, w *uniqueWatch, while jobs.UniqueWhile, last func() bool) error {
	for n := 0; ctx.Err() == nil; n++ {
		none := last()
		got, err := tasksOf(s.Store.Claim(s.ctx(), s.claiming("work", 20)))
		if err == nil {
			err = w.begins(got.Tasks, while)
		}
		if err != nil {
			return err
		}
		if len(got.Tasks) == 0 {
			if left, err := s.left(); none && (err != nil || left == 0) {
				return err
			}
			time.Sleep(time.Millisecond) // as a replica does that finds nothing
		}
		for i, k := range got.Tasks {
			v := result(k, ledger.Ended, jobs.StateSucceeded)
			switch {
			case (n+i)%4 == 1:
				v = result(k, ledger.HandBack, "")
			case (n+i)%4 == 2 && k.Attempt < 3:
				v = result(k, ledger.Again, jobs.StateFailed)
			}
			w.ends(k)
			if done, err := s.Store.Finish(s.ctx(), s.session, []ledger.Result{v}); err != nil || done[0].Finish != ledger.Recorded {
				return fmt.Errorf("result of %s: %v, %w", k.ID, done, err)
			}
			if v.Verdict == ledger.Again {
				if _, _, err := s.Store.Ready(s.ctx(), asIs); err != nil { // promotes it
					return err
				}
			}
		}
	}
	return ctx.Err()
}

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
