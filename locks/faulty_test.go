package locks_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// faulty stands before a driver and does to each call what the test says. It counts them.
type faulty struct {
	driver.Driver
	caps   *driver.Caps      // instead of the driver's own
	deaf   bool              // no grant is notified
	told   chan driver.Grant // what is notified instead, if not nil
	polls  bool              // its sessions have no queue
	doubts bool              // each renewal says that a key may have been evicted
	ends   error             // of Close

	mu      sync.Mutex
	during  func(ctx context.Context, call string, do func() error) error
	calls   map[string]int
	last    *faultySession
	closed  int             // how often the driver was
	samples [][]driver.Held // of the renewals
	wants   []driver.Want   // of the last acquire

	abandons []string // the keys of the last abandon
}

func newFaulty(d driver.Driver) *faulty {
	return &faulty{Driver: d, calls: map[string]int{}}
}

// withoutOrder makes the driver one whose queue has no order.
func withoutOrder(f *faulty) {
	caps := f.Driver.Caps()
	caps.FIFO = false
	f.caps = &caps
}

// withoutQueue makes the driver one that has no queue.
func withoutQueue(f *faulty) {
	withoutOrder(f)
	f.polls = true
}

// on replaces what happens to calls from now on; nil: nothing.
func (f *faulty) on(during func(ctx context.Context, call string, do func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.during = during
}

func (f *faulty) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *faulty) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

func (f *faulty) through(ctx context.Context, call string, do func() error) error {
	f.mu.Lock()
	f.calls[call]++
	during := f.during
	f.mu.Unlock()
	if during == nil {
		return do()
	}
	return during(ctx, call, do)
}

// answered is through for a call with results. The service does not know that the caller gave up.
func (f *faulty) answered(ctx context.Context, call string, do func(context.Context) ([]driver.Result, error)) (r []driver.Result, err error) {
	var mu sync.Mutex // do may go on when through is back
	err = f.through(ctx, call, func() error {
		results, err := do(context.WithoutCancel(ctx))
		mu.Lock()
		defer mu.Unlock()
		r = results
		return err
	})
	if err != nil {
		return nil, err // the answer is lost
	}
	mu.Lock()
	defer mu.Unlock()
	return r, nil
}

func (f *faulty) Caps() driver.Caps {
	if f.caps != nil {
		return *f.caps
	}
	return f.Driver.Caps()
}

func (f *faulty) Open(ctx context.Context, o driver.Open) (s driver.Session, err error) {
	err = f.through(ctx, "open", func() (err error) {
		s, err = f.Driver.Open(ctx, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = &faultySession{Session: s, f: f, lost: make(chan struct{})}
	return f.last, nil
}

func (f *faulty) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return f.ends
}

type faultySession struct {
	driver.Session
	f    *faulty
	lost chan struct{}
}

func (s *faultySession) Ended() <-chan struct{} { return s.lost }

func (s *faultySession) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	err = s.f.through(ctx, "renew", func() (err error) {
		evicted, err = s.Session.Renew(ctx, sample)
		return err
	})
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.samples = append(s.f.samples, sample)
	return evicted || s.f.doubts, err
}

func (s *faultySession) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	s.f.mu.Lock()
	s.f.wants = wants
	s.f.mu.Unlock()
	return s.f.answered(ctx, "acquire", func(ctx context.Context) ([]driver.Result, error) {
		return s.Session.TryAcquire(ctx, id, wants)
	})
}

// Queue is nil if the driver has none.
func (s *faultySession) Queue() driver.Queue {
	if q := s.Session.Queue(); q != nil && !s.f.polls {
		return &faultyQueue{Queue: q, f: s.f}
	}
	return nil
}

func (s *faultySession) Notifier() driver.Notifier {
	return &faultyNotifier{Notifier: s.Session.Notifier(), f: s.f}
}

type faultyNotifier struct {
	driver.Notifier
	f *faulty
}

func (n *faultyNotifier) Notify(ctx context.Context, topic string) error {
	return n.f.through(ctx, "notify", func() error { return n.Notifier.Notify(ctx, topic) })
}

func (n *faultyNotifier) Notified(ctx context.Context) (topics <-chan string, err error) {
	err = n.f.through(ctx, "notified", func() (err error) {
		topics, err = n.Notifier.Notified(ctx)
		return err
	})
	return topics, err
}

type faultyQueue struct {
	driver.Queue
	f *faulty
}

func (q *faultyQueue) Acquire(ctx context.Context, id string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	return q.f.answered(ctx, "queue", func(ctx context.Context) ([]driver.Result, error) {
		return q.Queue.Acquire(ctx, id, release, wants)
	})
}

func (q *faultyQueue) Granted() <-chan driver.Grant {
	if q.f.deaf || q.f.told != nil {
		return q.f.told
	}
	return q.Queue.Granted()
}

func (q *faultyQueue) Look(ctx context.Context, places []driver.Place) (r []driver.Result, err error) {
	err = q.f.through(ctx, "look", func() (err error) {
		r, err = q.Queue.Look(ctx, places)
		return err
	})
	return r, err
}

func (s *faultySession) Abandon(ctx context.Context, id string, keys []string) error {
	s.f.mu.Lock()
	s.f.abandons = keys
	s.f.mu.Unlock()
	return s.f.through(ctx, "abandon", func() error { return s.Session.Abandon(ctx, id, keys) })
}

func (s *faultySession) Release(ctx context.Context, held []driver.Held) error {
	return s.f.through(ctx, "release", func() error { return s.Session.Release(ctx, held) })
}

func (s *faultySession) Check(ctx context.Context, held []driver.Held) (still []bool, err error) {
	err = s.f.through(ctx, "check", func() (err error) {
		still, err = s.Session.Check(ctx, held)
		return err
	})
	return still, err
}

func (s *faultySession) List(ctx context.Context, prefix, after string, limit int) (infos []driver.Info, err error) {
	err = s.f.through(ctx, "list", func() (err error) {
		infos, err = s.Session.List(ctx, prefix, after, limit)
		return err
	})
	return infos, err
}

func (s *faultySession) Evict(ctx context.Context, key string, token driver.Token) (freed bool, err error) {
	err = s.f.through(ctx, "evict", func() (err error) {
		freed, err = s.Session.Evict(ctx, key, token)
		return err
	})
	return freed, err
}

func (s *faultySession) Close(ctx context.Context) error {
	return s.f.through(ctx, "close", func() error { return s.Session.Close(ctx) })
}

var errNet = errors.New("connection reset by peer")

// hangs never answers, but obeys the context.
func hangs(ctx context.Context, _ string, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// only lets during happen to one kind of call.
func only(name string, during func(ctx context.Context, call string, do func() error) error) func(context.Context, string, func() error) error {
	return func(ctx context.Context, call string, do func() error) error {
		if call != name {
			return do()
		}
		return during(ctx, call, do)
	}
}

// start makes a Locker that is closed when the test ends.
func start(t *testing.T, d driver.Driver, o locks.Options) *locks.Locker {
	t.Helper()
	l, err := locks.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) }) // tests of Close look at its error
	return l
}

// pair is two Lockers on one service, the first behind faults.
func pair(t *testing.T) (f *faulty, l, other *locks.Locker, service *memlock.Service) {
	t.Helper()
	service = memlock.New()
	f = newFaulty(service)
	return f, start(t, f, locks.Options{Owner: "one"}), start(t, service, locks.Options{Owner: "two"}), service
}

// try makes one attempt at one key.
func try(t *testing.T, l *locks.Locker, r locks.Request) locks.Attempt {
	t.Helper()
	attempts, err := l.TryAcquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return attempts[0]
}

// take takes a key that must be free.
func take(t *testing.T, l *locks.Locker, key string) *locks.Lease {
	t.Helper()
	a := try(t, l, locks.Request{Key: key})
	if a.Lease == nil {
		t.Fatalf("%s was not granted: %v", key, a.Err)
	}
	return a.Lease
}

func wantBusy(t *testing.T, l *locks.Locker, key string) {
	t.Helper()
	a := try(t, l, locks.Request{Key: key})
	if a.Lease != nil || !errors.Is(a.Err, locks.ErrBusy) || a.Holder == nil || errors.Is(a.Err, locks.ErrUnknown) {
		t.Fatalf("%s: %+v, want busy", key, a)
	}
}

// wantErr checks that err matches want and none of the other outcomes.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
	for _, other := range []error{
		locks.ErrBusy, locks.ErrUnknown, locks.ErrLost, locks.ErrForced, locks.ErrReleased, locks.ErrUnavailable, locks.ErrRecovering,
	} {
		if !errors.Is(want, other) && errors.Is(err, other) {
			t.Errorf("%s: %v matches %v too, want %v only", what, err, other, want)
		}
	}
}

// endsAfter waits for the end of the lease and checks its cause and how long it took, give or take.
func endsAfter(t *testing.T, l *locks.Lease, want error, after, give time.Duration) {
	t.Helper()
	began := time.Now()
	select {
	case <-l.Context().Done():
	case <-time.After(after + time.Minute):
		t.Fatalf("the lease did not end")
	}
	if took := time.Since(began); (took - after).Abs() > give {
		t.Errorf("it ended after %v, want %v ± %v", took, after, give)
	}
	wantErr(t, "cause", context.Cause(l.Context()), want)
	wantErr(t, "check", l.Check(), want)
}
