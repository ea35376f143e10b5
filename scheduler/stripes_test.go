package scheduler

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
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
		if len(by) != jobs.Stripes {
			t.Fatalf("%d of %d stripes have an owner", len(by), jobs.Stripes)
		}
		return by
	}
	before := owners(replicas)
	for _, id := range replicas {
		if n := len(assign(id, replicas)); n < 4 || n > 28 {
			t.Errorf("%s looks after %d of %d stripes", id, n, jobs.Stripes)
		}
	}
	after := owners(slices.Delete(slices.Clone(replicas), 2, 3))
	for n, id := range before {
		if id != "host-2" && after[n] != id {
			t.Errorf("stripe %d moved from %s to %s though %s stayed", n, id, after[n], id)
		}
	}
}

// mute is a lock service that takes requests, and whose answers are lost.
type mute struct{}

func (mute) TryAcquire(_ context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	return slices.Repeat([]locks.Attempt{{Err: locks.ErrUnknown}}, len(requests)), nil
}

func (mute) Release(context.Context, ...*locks.Lease) error { return nil }

// A lock service that was away and of which nobody knows what it did is not back.
func TestUnknownIsNotBack(t *testing.T) {
	for name, ask := range map[string]func(*Scheduler, context.Context){
		"for stripes":         func(s *Scheduler, ctx context.Context) { s.stripes.mine = []int{1, 2}; s.lockStripes(ctx) },
		"for nothing of ours": (*Scheduler).probe,
	} {
		t.Run(name, func(t *testing.T) {
			s := replicaOn(t, newPicky(away), blocked{})
			s.locks, s.opt.WhenDown = mute{}, DownWait
			s.health.lockDown(locks.ErrUnavailable)
			ask(s, t.Context())
			if !s.waits() {
				t.Error("an answer that did not come is taken for one")
			}
		})
	}
}
