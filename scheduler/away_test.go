package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// mutes is a store that answers no question of a replica before that gives it up, and refuses to expire.
type mutes struct{ ledger.Store }

var errRights = errors.New("no right to write that")

func (mutes) Beat(ctx context.Context, _ string) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (mutes) Upcoming(ctx context.Context, _ []int) ([]ledger.Upcoming, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (mutes) Expire(context.Context, string, int64) (bool, error) { return false, errRights }

// A store is not away because this replica has stopped asking it, and it is if an answer takes too long.
func TestWhoStopsAskingSaysNothingAboutTheStore(t *testing.T) {
	for what, ask := range map[string]func(s *Scheduler, ctx context.Context){
		"a look": func(s *Scheduler, ctx context.Context) { s.look(ctx, []int{1}) },
		"a beat": func(s *Scheduler, ctx context.Context) { s.keep(ctx) },
	} {
		for _, stops := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := replicaOn(t, mutes{&memstore.Store{Database: memstore.New()}}, blocked{})
				s.session.Store(&session{"session", boottime.Now().Add(time.Hour), boottime.Now()})
				ctx, cancel := context.WithCancel(t.Context())
				asked := make(chan struct{})
				go func() { defer close(asked); ask(s, ctx) }()
				time.Sleep(s.opt.SessionTTL/3 + time.Second) // a beat has begun
				if !stops {
					time.Sleep(time.Minute)
				}
				cancel()
				<-asked
				if s.health.store.err == nil != stops {
					t.Errorf("%s; this replica stops asking: %t; the store is away: %v", what, stops, s.health.store.err)
				}
			})
		}
	}
}

// Who cannot be declared dead is no secret.
func TestABurialThatFailsIsSeen(t *testing.T) {
	s := replicaOn(t, mutes{&memstore.Store{Database: memstore.New()}}, blocked{})
	s.declareDead(t.Context(), ledger.Peer{Session: "other"}, time.Minute)
	if !errors.Is(s.health.store.err, errRights) || s.expired.Load() != 0 {
		t.Errorf("%v, %d expired", s.health.store.err, s.expired.Load())
	}
}

func (mutes) Sweep(context.Context, ledger.Judge, jobs.Retention, int) (bool, error) {
	return false, errRights
}

// A store that deletes nothing is seen as well.
func TestASweepThatFailsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := replicaOn(t, mutes{&memstore.Store{Database: memstore.New()}}, blocked{})
		ctx, stop := context.WithTimeout(t.Context(), sweepEvery+time.Second)
		defer stop()
		s.sweep(ctx)
		if !errors.Is(s.health.store.err, errRights) {
			t.Error(s.health.store.err)
		}
	})
}
