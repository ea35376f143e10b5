package sim

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A store whose transactions break a rule is found, by the check that is about it.
func TestAMistakeIsFound(t *testing.T) {
	for mistake, said := range some(map[memstore.Mistake]string{
		memstore.KeepsRetired:   "is not cancelled$",
		memstore.CancelsRemoved: "as if its job was removed$",
		memstore.ClaimsRemoved:  "which no configuration has$",
		memstore.AnyGoverns:     "while session .* has",
		memstore.CancelsNoOrder: "is open, and makes a run|was cancelled, and is open",
		memstore.KeepsOrders:    "is open, and its job .* was removed",
		memstore.LosesOrders:    "is gone, and was open",
		memstore.CountsPaused:   "has counted .* for pause_on",
		memstore.PausesUntold:   "paused, and no event tells of it",
	}) {
		t.Run(string(mistake), func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, said, func(seed uint64) *world {
				p := newPlan(seed)
				p.mistake = mistake
				switch mistake {
				case memstore.CancelsRemoved, memstore.ClaimsRemoved:
					if !p.removesPool() {
						return nil
					}
				case memstore.CountsPaused, memstore.PausesUntold:
					if len(newFailing(p)) == 0 {
						return nil
					}
				default:
					if p.Edited == nil && !p.orders() {
						return nil
					}
				}
				return simulate(t, p, nil)
			})
		})
	}
}

// Stores that break rules of reloads and of orders are found, by the check that is about each.
func TestALieIsFound(t *testing.T) {
	for what, lie := range some(map[string]struct {
		said string
		of   func(ledger.Store) ledger.Store
	}{
		"runs jobs by its own file": {"runs by definition", func(s ledger.Store) ledger.Store { return &stubborn{Store: s} }},
		"activates nothing":         {"has activated its configuration", func(s ledger.Store) ledger.Store { return inactive{s} }},

		"makes the run of an order twice": {"makes a second run", ordering(nil, func(o *ledger.Order) { o.State, o.NextAt = wire.OrderOpen, o.EndedAt.Add(time.Second) })},
		"looks at no order":               {"not at rest: order", func(s ledger.Store) ledger.Store { return orderless{s} }},
		"starts orders early":             {"and makes a run for", ordering(func(o *ledger.OrderState) { o.Asked.At = o.Asked.At.Add(-2 * time.Second) }, nil)},
		"runs more of a backfill at once": {"runs at once, of at most", ordering(backfilling(func(o *ledger.OrderState, b *wire.NewBackfill) { b.MaxRunning = 50 }), nil)},
		"makes runs faster than its rate": {"makes .* runs in .*, and may make", ordering(backfilling(func(o *ledger.OrderState, b *wire.NewBackfill) { b.Rate, b.MaxRunning = jobs.Rate{}, 50 }), nil)},
		"runs what has run":               {"which has run$", ordering(backfilling(func(o *ledger.OrderState, b *wire.NewBackfill) { o.Ran = nil }), nil)},
		"leaves out due times":            {"made no run for", ordering(backfilling(ranEachSecond), nil)},
		"goes on beyond a backfill's end": {"none of its due times", ordering(backfilling(func(o *ledger.OrderState, b *wire.NewBackfill) { b.To = b.To.Add(20 * time.Second) }), nil)},
		"ends a backfill before its runs": {"is open$", ordering(func(o *ledger.OrderState) {
			for _, r := range o.Progress.Open {
				if o.Ended == nil {
					o.Ended = map[string]jobs.State{}
				}
				o.Ended[r.Task] = jobs.StateSucceeded
			}
		}, nil)},
		"makes runs before due times":    {"and the due time .* is not decided", func(s ledger.Store) ledger.Store { return &orderly{Store: s, open: map[string]bool{}} }},
		"takes the slot of due times":    {"leaves no slot of", func(s ledger.Store) ledger.Store { return deciding{s, hidesOne} }},
		"skips due times for a backfill": {"is skipped for a run of a backfill", func(s ledger.Store) ledger.Store { return deciding{s, hidesBackfills} }},
	}) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, lie.said, func(seed uint64) *world {
				p := newPlan(seed)
				if p.Edited == nil && !p.orders() {
					return nil
				}
				return simulate(t, p, lie.of)
			})
		})
	}
}

// A backfill ends with the schedule that it was ordered for; a store that lets it go on is found.
func TestABackfillEndsWithItsSchedule(t *testing.T) {
	t.Parallel()
	edited := func(seed uint64) *plan {
		p := small(seed, map[string]rule{"a": every(10 * time.Second)},
			step{At: 3 * time.Second, Kind: backfills, Name: "a", N: 1}, step{At: 6 * time.Second, Kind: replaces, N: 1})
		p.Edited = small(seed, map[string]rule{"a": every(15 * time.Second)}).Jobs
		return p
	}
	ended := 0
	for seed := range uint64(10) {
		w := simulate(t, edited(seed+1), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		ended += w.counted["order cancelled"]
	}
	if ended == 0 {
		t.Error("none has ended")
	}
	isFound(t, 10, "and the schedule is another one", func(seed uint64) *world {
		return simulate(t, edited(seed), func(s ledger.Store) ledger.Store { return &rescheduling{Store: s} })
	})
}

// some are the bugs that this test run looks for, see oneIn.
func some[K cmp.Ordered, V any](all map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for i, what := range slices.Sorted(maps.Keys(all)) {
			if i%oneIn == 0 && !yield(what, all[what]) {
				return
			}
		}
	}
}

// isFound simulates so many clusters at most until one shows what is said. run is nil for a seed whose plan cannot show it, which is not counted.
func isFound(t *testing.T, clusters int, said string, run func(seed uint64) *world) {
	re := regexp.MustCompile(said)
	simulated := 0
	for seed := uint64(0); simulated < clusters; seed++ {
		w := run(seed + 1)
		if w == nil {
			continue
		}
		simulated++
		if i := slices.IndexFunc(w.violations, func(v violation) bool { return re.MatchString(v.text) }); i >= 0 {
			t.Logf("seed %d: %s", seed+1, w.violations[i].text)
			return
		}
	}
	t.Errorf("%d clusters have not shown it", clusters)
}

// stubborn takes what its replica has loaded for what governs.
type stubborn struct {
	ledger.Store
	mu     sync.Mutex
	hashes map[string]string // of the jobs that it has loaded
}

func (s *stubborn) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	s.learn(d)
	return s.Store.Enter(ctx, session, d)
}

func (s *stubborn) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	s.learn(d)
	return s.Store.Load(ctx, session, d)
}

func (s *stubborn) learn(d ledger.Definitions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes = map[string]string{}
	for _, j := range d.Jobs {
		s.hashes[j.Name] = j.Hash
	}
}

func (s *stubborn) admission(a ledger.Admission) ledger.Admission {
	admit := a.Admit
	a.Admit = func(now time.Time, c ledger.Candidate) (time.Time, bool) {
		s.mu.Lock()
		if own := s.hashes[c.Task.Job]; own != "" {
			c.JobHash = own
		}
		s.mu.Unlock()
		return admit(now, c)
	}
	return a
}

func (s *stubborn) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	c.Admission = s.admission(c.Admission)
	return s.Store.Claim(ctx, c)
}

// inactive gives no content another number.
type inactive struct{ ledger.Store }

func (s inactive) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	d.Activate = false
	return s.Store.Enter(ctx, session, d)
}
