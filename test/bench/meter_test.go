package bench

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// meter counts what the replicas of one round do with their stores. An event counts once the store has
// acknowledged it.
type meter struct {
	mu       sync.Mutex
	claims   int // that took something
	claimed  int // tasks
	finishes int
	finished mark
	decides  int // also those that came too late to write anything
	decided  mark
	started  mark // attempts; counted by the handler
}

// mark counts up to a goal, and keeps when it was reached.
type mark struct {
	n, goal int
	at      time.Time
	reached chan struct{}
}

func newMark(goal int) mark { return mark{goal: goal, reached: make(chan struct{})} }

func (m *mark) add(n int) {
	before := m.n
	m.n += n
	if m.reached != nil && before < m.goal && m.n >= m.goal {
		m.at = time.Now()
		close(m.reached)
	}
}

// wait waits until a mark is reached.
func (m *meter) wait(tb testing.TB, what string, k *mark) {
	tb.Helper()
	select {
	case <-k.reached:
	case <-time.After(5 * time.Minute):
		m.mu.Lock()
		defer m.mu.Unlock()
		tb.Fatalf("after 5 minutes %d of %d %s", k.n, k.goal, what)
	}
}

func (m *meter) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started.add(1)
}

// metered is a store with a meter.
type metered struct {
	ledger.Store
	m *meter
}

func (s metered) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	if err == nil && len(got.Tasks) > 0 {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.claims++
		s.m.claimed += len(got.Tasks)
	}
	return got, err
}

func (s metered) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	finished, err := s.Store.Finish(ctx, session, results)
	ended := 0
	for i, f := range finished {
		if f.Finish == ledger.Recorded && results[i].Verdict == ledger.Ended {
			ended++
		}
	}
	if err == nil && ended > 0 {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.finishes++
		s.m.finished.add(ended)
	}
	return finished, err
}

func (s metered) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decided, err := s.Store.Decide(ctx, d)
	rows := 0
	for _, dec := range decided.Decisions {
		rows += len(dec.Triggers)
	}
	if err == nil {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.decides++
		s.m.decided.add(rows)
	}
	return decided, err
}

// worked is how many seconds the threads of this process have worked.
func worked(tb testing.TB) float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
