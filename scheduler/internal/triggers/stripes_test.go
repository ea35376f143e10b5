package triggers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func TestAssignSpreadsAndMovesLittle(t *testing.T) {
	var replicas []string
	for i := range 5 {
		replicas = append(replicas, fmt.Sprintf("host-%d", i))
	}
	owners := func(replicas []string) map[int]string {
		by := map[int]string{}
		for _, id := range replicas {
			for _, n := range assign(id, replicas) {
				if by[n] != "" {
					t.Fatalf("stripe %d belongs to %s and %s", n, by[n], id)
				}
				by[n] = id
			}
		}
		if len(by) != ledger.Stripes {
			t.Fatalf("%d of %d stripes have an owner", len(by), ledger.Stripes)
		}
		return by
	}
	before := owners(replicas)
	for _, id := range replicas {
		if n := len(assign(id, replicas)); n < 4 || n > 28 {
			t.Errorf("%s looks after %d of %d stripes", id, n, ledger.Stripes)
		}
	}
	after := owners(slices.Delete(slices.Clone(replicas), 2, 3))
	for n, id := range before {
		if id != "host-2" && after[n] != id {
			t.Errorf("stripe %d moved from %s to %s though %s stayed", n, id, after[n], id)
		}
	}
}

// listing is a store that notes which stripes it is asked about, and may not answer at first.
type listing struct {
	ledger.Store
	unable int
	asked  [][]int
}

func (l *listing) Upcoming(ctx context.Context, stripes []int) ([]ledger.Upcoming, error) {
	if l.asked = append(l.asked, stripes); len(l.asked) <= l.unable {
		return nil, jobs.ErrUnavailable
	}
	return []ledger.Upcoming{{Job: "j", NextAt: time.Now().Add(time.Minute)}}, nil
}

// A due time of an own stripe that could not be read, or was forgotten as its lock was lost for a moment, is read
// again. Else it would be overdue each time, until this replica happens to be the first to decide it.
func TestNoOwnDueTimeStaysForgotten(t *testing.T) {
	tests := map[string]struct {
		unable int
		then   func(t *testing.T, s *replica, stripe int)
	}{
		"not read": {1, func(*testing.T, *replica, int) {}},
		"lost for a moment": {0, func(t *testing.T, s *replica, stripe int) {
			if err := s.locks.Release(t.Context(), s.triggers.stripes.held[stripe]); err != nil {
				t.Fatal(err)
			}
			s.triggers.upcoming.set("j", s.members.Clock().Now(), false)
			if names := s.triggers.dueHere(); len(names) > 0 {
				t.Errorf("%q is decided without its stripe", names)
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &listing{Store: replicatest.NewPicky(replicatest.Away), unable: tt.unable}
				set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * *", Handler: replicatest.Blocked{}}}}
				s, err := newOn(st, replicatest.LockerOf(t, memlock.New()), set, Options{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				stripe := s.plan.Jobs["j"].Stripe
				s.triggers.stripes.mine = []int{stripe}
				ctx, stop := context.WithCancel(t.Context())
				balanced := make(chan struct{})
				go func() { defer close(balanced); s.triggers.balance(ctx) }()
				defer func() { stop(); <-balanced }()
				synctest.Wait()
				tt.then(t, s, stripe)
				time.Sleep(5 * s.triggers.member.WatchEvery())
				synctest.Wait()
				if diff := cmp.Diff([][]int{{stripe}, {stripe}}, st.asked); diff != "" {
					t.Errorf("asked for the due times of these stripes (-want +got):\n%s", diff)
				}
				if _, known := s.triggers.upcoming.next(); !known {
					t.Error("nothing is known of the job")
				}
			})
		})
	}
}

// A lock service that was away and whose last answer was lost is not back.
func TestUnknownIsNotBack(t *testing.T) {
	for name, ask := range map[string]func(*replica, context.Context){
		"for stripes": func(s *replica, ctx context.Context) {
			s.triggers.stripes.mine = []int{1, 2}
			s.triggers.lockStripes(ctx)
		},
		"for nothing of ours": func(s *replica, ctx context.Context) { s.triggers.probe(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			s := replicaOn(t, replicatest.NewPicky(replicatest.Away), replicatest.Blocked{})
			s.locks.Locks, s.locks.Required = replicatest.Mute{}, true
			s.locks.Failed(locks.ErrUnavailable)
			ask(s, t.Context())
			if !s.locks.Blocks() {
				t.Error("an answer that did not come is taken for one")
			}
		})
	}
}
