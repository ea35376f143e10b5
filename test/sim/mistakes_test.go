package sim

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A store whose transactions break a rule is found, by the check that is about it.
func TestAMistakeIsFound(t *testing.T) {
	for mistake, said := range map[memstore.Mistake]string{
		memstore.KeepsRetired:   "is not cancelled$",
		memstore.CancelsRemoved: "as if its job was removed$",
		memstore.ClaimsRemoved:  "which no configuration has$",
		memstore.AnyGoverns:     "while session .* has",
	} {
		t.Run(string(mistake), func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, said, func(seed uint64) *world {
				p := newPlan(seed)
				p.mistake = mistake
				return simulate(t, p, nil)
			})
		})
	}
}

// Stores that break rules of reloads and of orders are found, by the check that is about each.
func TestALieIsFound(t *testing.T) {
	for what, lie := range map[string]struct {
		said string
		of   func(ledger.Store) ledger.Store
	}{
		"runs jobs by its own file": {"runs by definition", func(s ledger.Store) ledger.Store { return &stubborn{Store: s} }},
		"activates nothing":         {"has activated its configuration", func(s ledger.Store) ledger.Store { return inactive{s} }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			isFound(t, 300, lie.said, func(seed uint64) *world { return simulate(t, newPlan(seed), lie.of) })
		})
	}
}

func isFound(t *testing.T, seeds int, said string, run func(seed uint64) *world) {
	re := regexp.MustCompile(said)
	for seed := range uint64(seeds) {
		w := run(seed + 1)
		if i := slices.IndexFunc(w.violations, func(v violation) bool { return re.MatchString(v.text) }); i >= 0 {
			t.Logf("seed %d: %s", seed+1, w.violations[i].text)
			return
		}
	}
	t.Errorf("%d seeds have not shown it", seeds)
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
