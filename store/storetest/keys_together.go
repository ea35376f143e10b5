package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

var keysTogetherCases = []Case{
	{"Keys/Together", keysTogether},
	{"Order/Together", orderTogether},
	{"Order/Transactions", orderTransactions},
	{"Order/OpenTransaction", orderOpenTransaction},
	{"Fair/Changed", fairChanged},
}

// running are the tasks of each key that run at one time, as their owners know it.
type running struct {
	mu  sync.Mutex
	now map[string][]string    // by key
	by  func(jobs.Task) string // nil: by key
	all []string               // keys and payloads, as they started
}

func (r *running) of(k jobs.Task) string {
	if r.by != nil {
		return r.by(k)
	}
	return k.Key
}

// begins notes the start of claimed tasks. The number of those with one key must never be above most.
func (r *running) begins(tasks []jobs.Task, most int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range tasks {
		r.all = append(r.all, fmt.Sprint(k.Key, " ", string(k.Payload)))
		of := r.of(k)
		if r.now[of] = append(r.now[of], k.ID); len(r.now[of]) > most && of != "" {
			return fmt.Errorf("%v run with key %s", r.now[of], of)
		}
	}
	return nil
}

func (r *running) ends(k jobs.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now[r.of(k)] = slices.DeleteFunc(r.now[r.of(k)], func(id string) bool { return id == k.ID })
}

// work claims, and ends, until the pool has no task any more. Every fifth attempt is tried again.
func (s *scene) work(ctx context.Context, r *running, most int, until func() bool) error {
	for n := 0; ctx.Err() == nil; n++ {
		c := s.claiming("work", 5)
		share(&c, func(s *ledger.Share) { s.Limited = true })
		got, err := tasksOf(s.Store.Claim(s.ctx(), c))
		if err != nil {
			return err
		}
		if err := r.begins(got.Tasks, most); err != nil {
			return err
		}
		if len(got.Tasks) == 0 {
			time.Sleep(time.Millisecond) // as a replica does that finds nothing
			if left, err := s.left(); err != nil || left == 0 && until() {
				return err
			}
		}
		for i, k := range got.Tasks {
			v := result(k, ledger.Ended, jobs.StateSucceeded)
			if (n+i)%5 == 0 && k.Attempt < 3 {
				v = result(k, ledger.Again, jobs.StateFailed)
			}
			r.ends(k)
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

func (s *scene) left() (int, error) {
	pools, err := s.Store.Pools(s.ctx())
	if err != nil {
		return 0, err
	}
	for _, p := range pools {
		if p.Name == "work" {
			return p.Pending + p.Scheduled + p.Running, nil
		}
	}
	return 0, fmt.Errorf("no pool work")
}

// workTogether has four replicas work while tasks are enqueued, three in each of 40 transactions.
func (s *scene) workTogether(r *running, most int, batch func(n int) []jobs.NewTask) {
	s.t.Helper()
	enqueued := make(chan struct{})
	replicas := make([]*scene, 4)
	for i := range replicas {
		replicas[i] = s.second(fmt.Sprint("replica ", i))
	}
	Together(s.t, len(replicas)+1, func(ctx context.Context, i int) error {
		if i < len(replicas) {
			return replicas[i].work(ctx, r, most, func() bool {
				select {
				case <-enqueued:
					return true
				default:
					return false
				}
			})
		}
		defer close(enqueued)
		for n := range 40 {
			tasks := batch(n)
			for i := range tasks {
				tasks[i].Pool, tasks[i].Payload = "work", n
			}
			if _, err := s.Store.Enqueue(s.ctx(), tasks...); err != nil {
				return err
			}
		}
		return nil
	})
}

// However many replicas claim, end and enqueue at the same time, no more tasks with one key run than may, and all of them run.
func keysTogether(t *testing.T, b *Bench) {
	const most = 2
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: most}, "")
	s.workTogether(&running{now: map[string][]string{}}, most, func(n int) []jobs.NewTask {
		return []jobs.NewTask{{Key: fmt.Sprint(n % 3)}, {Key: "a"}, {}}
	})
	s.wantInt(120, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

// With an order, the tasks of each key run one after the other as they were enqueued, whoever enqueues others at the same time, and whoever
// runs them.
func orderTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	r := &running{now: map[string][]string{}}
	var enqueuing sync.WaitGroup
	const producers, each = 3, 12
	enqueuing.Add(producers)
	replicas := make([]*scene, 3)
	for i := range replicas {
		replicas[i] = s.second(fmt.Sprint("replica ", i))
	}
	enqueued := make(chan struct{})
	go func() { enqueuing.Wait(); close(enqueued) }()
	Together(t, len(replicas)+producers, func(ctx context.Context, i int) error {
		if i < len(replicas) {
			return replicas[i].work(ctx, r, 1, func() bool {
				select {
				case <-enqueued:
					return true
				default:
					return false
				}
			})
		}
		defer enqueuing.Done()
		for n := range each {
			var batch []jobs.NewTask
			for _, key := range []string{"a", "b", "c"} {
				batch = append(batch, jobs.NewTask{Pool: "work", Key: key, Priority: n % 5, Payload: fmt.Sprintf("%d-%03d", i, n)})
			}
			if _, err := s.Store.Enqueue(s.ctx(), batch...); err != nil {
				return err
			}
		}
		return nil
	})
	last := map[string]string{}
	for _, start := range r.all {
		key, payload, _ := strings.Cut(start, " ")
		producer, n, _ := strings.Cut(payload, "-")
		if before := last[key+producer]; n < before {
			t.Errorf("with key %s, %s of %s started after %s", key, n, producer, before)
		}
		last[key+producer] = n
	}
	s.wantInt(producers*each*3, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

// A transaction that enqueues a task with a key holds up others that enqueue one with it: a task behind it does not become visible first.
func orderTransactions(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // one transaction writes at a time
	}
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	tx, err := b.DB.Handle().BeginTx(s.ctx(), nil)
	must(t, err)
	defer tx.Rollback()
	first, err := b.SQL().EnqueueTx(s.ctx(), tx, jobs.NewTask{Pool: "work", Key: "a"})
	must(t, err)
	second := make(chan string)
	go func() { second <- s.newTask(jobs.NewTask{Key: "a"}) }()
	other := s.newTask(jobs.NewTask{Key: "b"})
	for range 50 {
		if got := s.limitedClaim("work", 20); len(got.Tasks) > 0 {
			if d := cmp.Diff([]string{other}, ids(got.Tasks)); d != "" {
				t.Error(d)
			}
		}
	}
	must(t, tx.Commit())
	id := <-second
	s.starts("both are visible", first[0].ID)
	s.ends(first[0].ID)
	s.starts("the first has ended", id)
}

// A transaction of a user that has enqueued tasks, and stays open, holds up no claim and no end of others, of its own key and of others, in
// its pool and in others; nor a change of the definition.
func orderOpenTransaction(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // one transaction writes at a time
	}
	for _, n := range []int{1, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newScene(t, b)
			defer s.die()
			s.DB.Exec(t, "DELETE FROM {tasks}")
			s.DB.Exec(t, "DELETE FROM {key_waits}")
			s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
			var names []string
			for i := range n {
				names = append(names, fmt.Sprint("k", i), fmt.Sprint("k", i))
			}
			s.keyed(names...)
			tx, err := b.DB.Handle().BeginTx(s.ctx(), nil)
			must(t, err)
			defer tx.Rollback()
			for _, key := range []string{"k0", "x", "y", "z"} {
				_, err := b.SQL().EnqueueTx(s.ctx(), tx, jobs.NewTask{Pool: "work", Key: key})
				must(t, err)
			}
			ctx, cancel := context.WithCancel(s.ctx())
			open := make(chan struct{})
			go func() { // calls that wait for it wait until they are given up
				defer close(open)
				for range 2 {
					got := s.limitedClaim("work", 500)
					if len(got.Tasks) != n {
						t.Errorf("%d of %d started", len(got.Tasks), n)
					}
					var ended []ledger.Result
					for _, k := range got.Tasks {
						ended = append(ended, result(k, ledger.Ended, jobs.StateSucceeded))
					}
					s.finish(ended...)
				}
				s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
				cancel()
			}()
			select {
			case <-ctx.Done():
			case <-time.After(30 * time.Second):
				t.Error("they wait for the transaction")
			}
			_ = tx.Rollback()
			<-open
			cancel()
		})
	}
}
