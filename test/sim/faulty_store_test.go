package sim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// A store with a bug is found: the judge can fail.
func TestAStoreWithABugIsFound(t *testing.T) {
	const seeds = 60
	for what, lie := range map[string]func(ledger.Store) ledger.Store{
		"drops the rows of a decision":    func(s ledger.Store) ledger.Store { return dropsRows{s} },
		"takes results and keeps nothing": func(s ledger.Store) ledger.Store { return forgetful{s} },
		"gives the same tasks twice":      func(s ledger.Store) ledger.Store { return &generous{Store: s} },
		"invents tokens":                  func(s ledger.Store) ledger.Store { return inventive{s} },
		"ends what goes back":             func(s ledger.Store) ledger.Store { return final{s} },
		"admits what has no leases":       func(s ledger.Store) ledger.Store { return lockless{s} },
		"takes the first beat alone":      func(s ledger.Store) ledger.Store { return ignores{s} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				if w := simulate(t, newPlan(seed+1), lie); len(w.violations) > 0 {
					t.Logf("seed %d: %s", seed+1, w.violations[0].text)
					return
				}
			}
			t.Errorf("%d seeds have not shown it", seeds)
		})
	}
}

// What is excused while replicas start and stop, or once the last one has left, is found elsewhere.
func TestExcusesEndWithTheirReason(t *testing.T) {
	const seeds = 300
	for want, lie := range map[string]func(ledger.Store) ledger.Store{
		"late, and nothing was wrong": func(s ledger.Store) ledger.Store { return tardy{s} },
		" is open":                    func(s ledger.Store) ledger.Store { return hollow{s} },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				w := simulate(t, newPlan(seed+1), lie)
				if slices.ContainsFunc(w.violations, func(v violation) bool { return strings.Contains(v.text, want) }) {
					return
				}
			}
			t.Errorf("%d seeds have not shown it", seeds)
		})
	}
}

// tardy decides late.
type tardy struct{ ledger.Store }

func (s tardy) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	time.Sleep(onTime + 50*time.Millisecond)
	return s.Store.Decide(ctx, d)
}

// hollow makes rows without their tasks.
type hollow struct{ ledger.Store }

func (s hollow) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			for n := range decisions[i].Triggers {
				decisions[i].Triggers[n].Task = nil
			}
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

type dropsRows struct{ ledger.Store }

func (s dropsRows) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		decisions := decide(now, states)
		for i := range decisions {
			if decisions[i].Cursor.IsZero() {
				continue // by hand
			}
			decisions[i].Triggers = nil
		}
		return decisions
	}
	return s.Store.Decide(ctx, d)
}

type forgetful struct{ ledger.Store }

func (s forgetful) Finish(_ context.Context, _ string, results []ledger.Result) (all []ledger.Finished, _ error) {
	for _, r := range results {
		all = append(all, ledger.Finished{TaskID: r.TaskID, Finish: ledger.Recorded})
	}
	return all, nil
}

type generous struct {
	ledger.Store
	mu   sync.Mutex
	last ledger.Claimed
}

func (s *generous) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if again := s.last; len(again.Tasks) > 0 {
		s.last = ledger.Claimed{}
		return again, nil
	}
	got, err := s.Store.Claim(ctx, c)
	if err == nil && s.last.Tasks == nil {
		s.last = got
	}
	return got, err
}

type inventive struct{ ledger.Store }

func (s inventive) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	got, err := s.Store.Claim(ctx, c)
	got.Tasks = slices.Clone(got.Tasks) // what waits to strike reads the others
	for i := range got.Tasks {
		got.Tasks[i].Token++
	}
	return got, err
}

type final struct{ ledger.Store }

func (s final) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	for i := range results {
		if results[i].Verdict == ledger.HandBack {
			results[i].Verdict = ledger.Ended
		}
	}
	return s.Store.Finish(ctx, session, results)
}

type lockless struct{ ledger.Store }

func (s lockless) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	c.Locks = nil
	return s.Store.Claim(ctx, c)
}

type ignores struct{ ledger.Store }

func (s ignores) Beat(ctx context.Context, session string) (time.Time, error) {
	peers, err := s.Peers(ctx)
	for _, p := range peers {
		if p.Session == session && p.Beat > 0 {
			return time.Now(), nil
		}
	}
	if err != nil {
		return time.Time{}, err
	}
	return s.Store.Beat(ctx, session)
}
