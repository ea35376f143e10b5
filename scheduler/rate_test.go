package scheduler

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// clocked notes when its runs began, since it was made.
type clocked struct {
	since time.Time
	takes time.Duration

	mu sync.Mutex
	at []time.Duration
}

func (c *clocked) Run(context.Context, jobs.Task, io.Writer) error {
	c.mu.Lock()
	c.at = append(c.at, time.Since(c.since))
	c.mu.Unlock()
	time.Sleep(c.takes)
	return nil
}

// Identity is the same for all of them.
func (*clocked) Identity() string { return "clocked" }

func (c *clocked) began() []time.Duration {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.at)
}

// counting counts the claims and the questions for work.
type counting struct {
	*memstore.Store
	mu            sync.Mutex
	claims, polls int
}

func (c *counting) Claim(ctx context.Context, of ledger.Claim) (ledger.Claimed, error) {
	c.mu.Lock()
	c.claims++
	c.mu.Unlock()
	return c.Store.Claim(ctx, of)
}

func (c *counting) Ready(ctx context.Context, judge ledger.Judge) (ledger.Ready, error) {
	c.mu.Lock()
	c.polls++
	c.mu.Unlock()
	return c.Store.Ready(ctx, judge)
}

func (c *counting) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims, c.polls = 0, 0
}

// rated runs replicas of a pool with these limits, and enqueues tasks a minute after they have started.
func rated(t *testing.T, limits jobs.Pool, replicas, tasks int, takes time.Duration) (*clocked, *counting) {
	t.Helper()
	db := memstore.New()
	h := &clocked{takes: takes}
	limits.Handler = h
	st := &counting{Store: &memstore.Store{Database: db}}
	for _, id := range []string{"a", "b", "c"}[:replicas] {
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": limits}}, Options{ID: id})
	}
	time.Sleep(time.Minute)
	all := make([]jobs.NewTask, tasks)
	for i := range all {
		all[i].Pool = "p"
	}
	h.since = time.Now()
	if tasks == 0 {
		return h, st
	}
	if _, err := st.Store.Enqueue(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	return h, st
}

// The burst starts at once, and then one task at each interval, at the moment at which the rate lets it: however many replicas
// there are, and though nobody tells them. That costs about one claim for each.
func TestAPoolWithARate(t *testing.T) {
	for replicas := 1; replicas <= 3; replicas++ {
		synctest.Test(t, func(t *testing.T) {
			h, st := rated(t, jobs.Pool{Rate: jobs.Rate{Count: 2, Per: time.Second}, Burst: 3}, replicas, 23, 0)
			time.Sleep(3 * time.Second) // the poll has found the first ones, and expects no more
			st.reset()
			time.Sleep(10 * time.Second)
			got := h.began()
			if len(got) != 23 || got[2] > pollSlow+time.Millisecond {
				t.Fatalf("%d replicas: began after %v", replicas, got)
			}
			for i, at := range got[3:] {
				if want := got[0] + time.Duration(i+1)*500*time.Millisecond; at < want || at > want+time.Millisecond {
					t.Errorf("%d replicas: task %d began after %v, want %v", replicas, i+3, at, want)
				}
			}
			st.mu.Lock()
			defer st.mu.Unlock()
			if st.claims > 20+5*replicas || st.polls > 30*replicas {
				t.Errorf("%d replicas: %d claims, %d polls", replicas, st.claims, st.polls)
			}
		})
	}
}

const (
	pollSlow    = 500 * time.Millisecond // how long the poll of an idle replica waits
	pollFast    = 15 * time.Millisecond  // and that of one to which tasks came a moment ago,
	arrivalsFor = 2 * time.Second        // less than so long ago
)

// Ending attempts do not ask for the next task before the rate lets it start.
func TestAttemptsOfAPoolWithARateAskForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, st := rated(t, jobs.Pool{Rate: jobs.Rate{Count: 1, Per: time.Hour}, Burst: 10}, 1, 30, 20*time.Millisecond)
		time.Sleep(time.Minute)
		if got := h.began(); len(got) != 10 {
			t.Fatalf("began after %v", got)
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.claims > 4 {
			t.Errorf("%d claims", st.claims)
		}
	})
}

// A pool with a max_running is kept full, by one replica or several: the next task starts when one ends, and between ends nobody asks.
func TestAPoolWithAMaximumIsKeptFull(t *testing.T) {
	for _, c := range []struct{ replicas, workers, max int }{{1, 10, 2}, {2, 2, 3}, {3, 2, 5}} {
		synctest.Test(t, func(t *testing.T) {
			h, st := rated(t, jobs.Pool{Workers: c.workers, MaxRunning: c.max}, c.replicas, 20*c.max, 5*time.Second)
			time.Sleep(2 * time.Minute)
			got := h.began()
			if last := got[len(got)-1]; len(got) != 20*c.max || last > 95*time.Second+2*pollSlow {
				t.Errorf("%+v: %d began, the last after %v", c, len(got), last)
			}
			st.mu.Lock()
			defer st.mu.Unlock()
			// A replica that found the tasks by its poll looks more often for a while, and then less and less often.
			most := c.replicas * int(3*time.Minute/pollSlow+arrivalsFor/pollFast+8)
			if st.claims > 30*c.max || st.polls > most {
				t.Errorf("%+v: %d claims; %d polls, want %d at most", c, st.claims, st.polls, most)
			}
		})
	}
}

// A pool whose limits an override has removed is claimed from as one that has none: ahead of its workers.
func TestAPoolWithoutItsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, st := rated(t, jobs.Pool{Workers: 10, MaxRunning: 1}, 1, 0, time.Millisecond)
		if err := st.Store.LimitPool(t.Context(), "p", "a test", &wire.PoolLimits{MaxRunning: new(0)}); err != nil {
			t.Fatal(err)
		}
		all := make([]jobs.NewTask, 5000)
		for i := range all {
			all[i].Pool = "p"
		}
		if _, err := st.Store.Enqueue(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if n := len(h.began()); n != 5000 {
			t.Errorf("%d began", n)
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.claims > 100 {
			t.Errorf("%d claims", st.claims)
		}
	})
}

// Limits that are changed while the pool runs hold at once on all replicas, whether its definition has limits or not, and until
// they are cleared.
func TestLimitsAreChangedWhileThePoolRuns(t *testing.T) {
	for name, own := range map[string]jobs.Pool{"no limits": {}, "a rate": {Rate: jobs.Rate{Count: 1000, Per: time.Second}}, "max_running": {MaxRunning: 30}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own.Workers = 10
				h, st := rated(t, own, 3, 1000, 100*time.Millisecond)
				time.Sleep(time.Second)
				set := func(o *wire.PoolLimits) int {
					t.Helper()
					if err := st.Store.LimitPool(t.Context(), "p", "a test", o); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second) // what was claimed before ends
					before := len(h.began())
					time.Sleep(4 * time.Second)
					return len(h.began()) - before
				}
				if n := set(&wire.PoolLimits{Rate: new(jobs.Rate{Count: 5, Per: time.Second}), Burst: new(1)}); n < 19 || n > 21 {
					t.Errorf("%d began in 4 s at 5/s", n)
				}
				if n := set(&wire.PoolLimits{Rate: new(jobs.Rate{}), MaxRunning: new(2)}); n < 60 || n > 84 {
					t.Errorf("%d began in 4 s with 2 at once, each of 100 ms", n)
				}
				if n := set(nil); n < 300 {
					t.Errorf("%d began in 4 s after the reset", n)
				}
			})
		})
	}
}
