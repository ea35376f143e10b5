package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var poolCases = []Case{
	{"Pools/Counted", poolsCounted},
}

// Tasks are counted up to PoolMost of a state, and the pool says so from then on. The oldest is found behind them, too.
func poolsCounted(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const few = 5
	oldest := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	counted := func(when string, pending, scheduled int, approximate bool, oldest time.Time) {
		t.Helper()
		all, err := b.Store.Pools(s.ctx())
		must(t, err)
		for _, p := range all {
			if p.Name == "work" && (p.Pending != pending || p.Scheduled != scheduled || p.Running != 2 || p.Approximate != approximate || !p.OldestPending.Equal(oldest)) {
				t.Errorf("%s: %d pending since %v, %d scheduled, %d running, approximate %v", when, p.Pending, p.OldestPending, p.Scheduled, p.Running, p.Approximate)
			}
			if p.Name != "work" && (p.Pending != 0 || p.Approximate) {
				t.Errorf("%s: %+v", when, p)
			}
		}
	}
	add := func(n int, task jobs.NewTask) {
		t.Helper()
		for ; n > 0; n -= 500 {
			batch := make([]jobs.NewTask, min(n, 500))
			for i := range batch {
				batch[i] = task
				batch[i].Pool = "work"
			}
			_, err := b.Store.Enqueue(s.ctx(), batch...)
			must(t, err)
		}
	}
	add(2, jobs.NewTask{Priority: 100})
	s.claim("work", 2)
	add(few, jobs.NewTask{RunAt: time.Now().Add(time.Hour)})
	add(1, jobs.NewTask{RunAt: oldest, Priority: -100})
	add(ledger.PoolMost-2, jobs.NewTask{RunAt: oldest.Add(time.Minute), Priority: 7})
	add(1, jobs.NewTask{RunAt: oldest.Add(time.Second), Priority: 100})
	counted("as many as are counted", ledger.PoolMost, few, false, oldest)
	add(3, jobs.NewTask{RunAt: oldest.Add(time.Minute), Priority: 7})
	counted("more", ledger.PoolMost, few, true, oldest)
	if st, is := sqlOf(b.Store); is {
		all, err := st.Sides().API.CountPools(s.ctx())
		must(t, err)
		for _, p := range all {
			if p.Name == "work" && (p.Pending != ledger.PoolMost+3 || p.Scheduled != few || p.Running != 2 || p.Approximate || !p.OldestPending.Equal(oldest)) {
				t.Errorf("all: %+v", p)
			}
		}
	}
}
