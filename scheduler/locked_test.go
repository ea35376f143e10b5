package scheduler

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// keyed is a handler that notes which tasks hold a key at once. It is one for all replicas of a test.
type keyed struct {
	mu     sync.Mutex
	takes  time.Duration
	inside map[string]int // by key
	most   map[string]int
	order  []string // tasks, as they began
	tokens map[string][]int64
	late   int // attempts whose context ended after their lock was lost
}

// anyKey counts all tasks.
const anyKey = "*"

func newKeyed(takes time.Duration) *keyed {
	return &keyed{takes: takes, inside: map[string]int{}, most: map[string]int{}, tokens: map[string][]int64{}}
}

func (k *keyed) Run(ctx context.Context, t jobs.Task, _ io.Writer) error {
	k.count(t, 1)
	defer k.count(t, -1)
	select {
	case <-time.After(k.lasts()):
		return nil
	case <-ctx.Done():
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, l := range t.Locks {
			select {
			case <-l.Done:
				k.late++
			default:
			}
		}
		return context.Cause(ctx)
	}
}

func (k *keyed) lasts() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.takes
}

// take sets how long what begins from now on takes.
func (k *keyed) take(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.takes = d
}

// began are the tasks as they began.
func (k *keyed) began() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.order)
}

func (k *keyed) begun() int { return len(k.began()) }

func (k *keyed) tokensOf(key string) []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.tokens[key])
}

func (k *keyed) toldLate() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.late
}

// Identity is the same for all of them.
func (k *keyed) Identity() string { return "keyed" }

func (k *keyed) count(t jobs.Task, n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range append(t.Locks[:len(t.Locks):len(t.Locks)], jobs.HeldLock{Key: anyKey}) {
		k.inside[l.Key] += n
		k.most[l.Key] = max(k.most[l.Key], k.inside[l.Key])
		if n > 0 {
			k.tokens[l.Key] = append(k.tokens[l.Key], l.Token)
		}
	}
	if n > 0 {
		k.order = append(k.order, t.ID)
	}
}

func (k *keyed) mostOf(key string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.most[key]
}

// locked is a set of replicas on one store and one lock service.
type locked struct {
	t        *testing.T
	db       *memstore.Database
	service  *memlock.Service
	outside  *locks.Locker
	whenDown WhenDown
	ways     []*replicatest.Cut // of the replicas, if it is not nil
	stops    []func()
}

func newLocked(t *testing.T) *locked {
	s := &locked{t: t, db: memstore.New(), service: memlock.New()}
	s.outside = replicatest.LockerOf(t, s.service)
	return s
}

func (s *locked) start(n int, set jobs.Set) {
	s.t.Helper()
	for range n {
		id := string(rune('a' + len(s.stops)))
		lk := replicatest.LockerOf(s.t, s.service)
		if s.ways != nil {
			way := &replicatest.Cut{Driver: s.service}
			lk, s.ways = replicatest.LockerOf(s.t, way), append(s.ways, way)
		}
		r, err := newOn(&memstore.Store{Database: s.db}, lk, set, Options{ID: id, DrainTimeout: time.Second, StopGrace: time.Second, WhenDown: s.whenDown})
		if err != nil {
			s.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := r.Run(ctx); err != nil {
				s.t.Errorf("replica %s: %v", id, err)
			}
		}()
		s.stops = append(s.stops, func() { cancel(); <-done })
	}
	time.Sleep(2 * time.Second) // they have joined
}

func (s *locked) stop() {
	for _, stop := range s.stops {
		stop()
	}
}

func (s *locked) st() *memstore.Store { return &memstore.Store{Database: s.db} }

func (s *locked) enqueue(payloads ...any) (ids []string) {
	s.t.Helper()
	for _, p := range payloads {
		added, err := s.st().Enqueue(s.t.Context(), jobs.NewTask{Pool: "p", Payload: p})
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, added[0].Task.ID)
	}
	return ids
}

func (s *locked) task(id string) jobs.Task {
	s.t.Helper()
	t, _, err := s.st().Task(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

// rows are those of a job in a table, by column.
func (s *locked) rows(table, job string) (all []map[string]any) {
	columns := memstore.Tables()[table]
	rows, _ := s.db.Dump(table)
	for _, values := range rows {
		row := map[string]any{}
		for i, v := range values {
			row[columns[i]] = v
		}
		if row["job"] == job {
			all = append(all, row)
		}
	}
	return all
}

// ended waits until the tasks have ended.
func (s *locked) ended(most time.Duration, ids ...string) (all []jobs.Task) {
	s.t.Helper()
	for _, id := range ids {
		began := time.Now()
		for !s.task(id).State.Ended() {
			if time.Since(began) > most {
				s.t.Fatalf("after %v task %s is %s: %s", most, id, s.task(id).State, s.task(id).Reason)
			}
			time.Sleep(50 * time.Millisecond)
		}
		all = append(all, s.task(id))
	}
	return all
}

// hold holds keys from outside.
func (s *locked) hold(keys ...string) (leases []*locks.Lease) {
	s.t.Helper()
	for _, k := range keys {
		got, err := s.outside.Acquire(s.t.Context(), locks.Request{Key: k})
		if err != nil {
			s.t.Fatal(err)
		}
		leases = append(leases, got...)
	}
	return leases
}

// queuer is which replica has queued the one task that waits.
func (s *locked) queuer() int {
	s.t.Helper()
	column := func(table, name string) (values []any) {
		rows, _ := s.db.Dump(table)
		for _, r := range rows {
			values = append(values, r[slices.Index(memstore.Tables()[table], name)])
		}
		return values
	}
	waits, replicas := column("lock_waits", "session_id"), column("sessions", "replica")
	at := slices.Index(column("sessions", "id"), waits[0])
	if len(waits) != 1 || at < 0 {
		s.t.Fatalf("queued by %v", waits)
	}
	return int(replicas[at].(string)[0] - 'a')
}

func (s *locked) release(leases ...*locks.Lease) {
	s.t.Helper()
	if err := s.outside.Release(s.t.Context(), leases...); err != nil {
		s.t.Fatal(err)
	}
}

func lockedPool(h jobs.Handler, wait time.Duration, all ...jobs.Lock) jobs.Set {
	return jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 4, Locks: all, LockWait: wait, Retries: jobs.Retries{Limit: jobs.NoRetries}}}}
}
