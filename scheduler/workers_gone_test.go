package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// whoGoes is a store at which a worker gives up its claim while that takes a task.
type whoGoes struct {
	*memstore.Store
	gives func() // up; nil: nobody does
	back  int    // tasks that were handed back
}

func (g *whoGoes) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	got, err := g.Store.Claim(ctx, c)
	if len(got.Tasks) > 0 && g.gives != nil {
		g.gives()
	}
	return got, err
}

func (g *whoGoes) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	for _, r := range results {
		if r.Verdict == ledger.HandBack {
			g.back++
		}
	}
	return g.Store.Finish(ctx, session, results)
}

// A worker that says what it has gets what it did not hear of in its next claim, from any replica. So the replica that it gave up must not hand
// that back: the other one may have told the worker of it already, and it would run twice. What a worker cannot know of is handed back.
func TestAClaimThatAWorkerGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		first bool     // the claim opens the session
		have  []string // of the claim that is given up
		back  int
	}{
		"it says what it has":   {have: []string{}},
		"it does not":           {back: 1},
		"it has no session":     {first: true, back: 1},
		"it has something else": {have: []string{"other"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &whoGoes{Store: &memstore.Store{Database: memstore.New()}}
				s, err := New(ledger.Sides{Replica: st}, nil, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}}}, Options{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				time.Sleep(time.Second) // the pool is known
				opened, err := s.ClaimFor(ctx, wire.WorkerClaim{Pool: "mail", Name: "w", Max: 1})
				if err != nil {
					t.Fatal(err)
				}
				added, err := st.Enqueue(ctx, jobs.NewTask{Pool: "mail"})
				if err != nil {
					t.Fatal(err)
				}
				id := added[0].Task.ID
				calling, gives := context.WithCancel(ctx)
				st.gives = gives
				claim := wire.WorkerClaim{Pool: "mail", Session: opened.Session, Max: 1, Have: c.have}
				if c.first {
					claim.Session, claim.Name = "", "v"
				}
				if got, err := s.ClaimFor(calling, claim); !errors.Is(err, context.Canceled) {
					t.Fatalf("given up: %+v, %v", got, err)
				}
				st.gives = nil
				if st.back != c.back {
					t.Errorf("%d were handed back, want %d", st.back, c.back)
				}
				got, err := s.ClaimFor(ctx, wire.WorkerClaim{Pool: "mail", Session: opened.Session, Max: 1, Have: []string{}})
				if err != nil || len(got.Items) != 1 || got.Items[0].ID != id || got.Items[0].Token != int64(1+c.back) || got.Items[0].Attempt != 1 {
					t.Errorf("the next claim: %+v, %v", got.Items, err)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A session that a claim opened is ended where its caller does not learn of it, and only there.
func TestTheSessionOfAClaimThatFails(t *testing.T) {
	for what, c := range map[string]struct {
		fails, gives bool
		live         int
	}{"the store fails": {fails: true}, "its caller goes": {gives: true}, "it is answered": {live: 1}} {
		synctest.Test(t, func(t *testing.T) {
			st := &failingClaims{whoGoes: whoGoes{Store: &memstore.Store{Database: memstore.New()}}, fails: c.fails}
			s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}}}, Options{ID: "a"})
			time.Sleep(time.Second)
			added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.gives {
				st.gives = cancel
			}
			if _, err := s.ClaimFor(ctx, wire.WorkerClaim{Pool: "mail", Name: "w", Max: 1}); (err == nil) != (c.live > 0) {
				t.Errorf("%s: %v", what, err)
			}
			peers, err := st.Peers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			live := 0
			for _, p := range peers {
				if p.IsWorker() && !p.Dead {
					live++
				}
			}
			if live != c.live {
				t.Errorf("%s: %d sessions of workers live, want %d", what, live, c.live)
			}
			if task, _, err := st.Task(t.Context(), added[0].ID); err != nil || (task.State == jobs.StatePending) != (c.live == 0) || task.Lost > 0 {
				t.Errorf("%s: %+v, %v", what, task, err)
			}
		})
	}
}

// failingClaims is a store that may answer no claim.
type failingClaims struct {
	whoGoes
	fails bool
}

func (f *failingClaims) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if f.fails {
		return ledger.Claimed{}, jobs.ErrUnavailable
	}
	return f.whoGoes.Claim(ctx, c)
}
