package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
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
				if _, err := s.Store.Ready(s.ctx(), asIs); err != nil { // promotes it
					return err
				}
			}
		}
	}
	return ctx.Err()
}
