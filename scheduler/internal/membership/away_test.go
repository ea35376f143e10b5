package membership

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// mutes is a store that answers no heartbeat before its caller gives up, and refuses to expire.
type mutes struct{ ledger.Sessions }

var errRights = errors.New("no right to write that")

func (mutes) Beat(ctx context.Context, _ string) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (mutes) Expire(context.Context, string, int64) (bool, error) { return false, errRights }

// A store is not away because this replica has stopped asking it, and it is if an answer takes too long.
func TestWhoStopsAskingSaysNothingAboutTheStore(t *testing.T) {
	for _, stops := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := memberOn(t, mutes{newStore()})
			s.session.Store(&Session{"session", boottime.Now().Add(time.Hour), boottime.Now()})
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{})
			go func() { defer close(asked); s.Keep(ctx) }()
			time.Sleep(s.opt.SessionTTL/3 + time.Second) // a heartbeat has begun
			if !stops {
				time.Sleep(time.Minute)
			}
			cancel()
			<-asked
			if s.health.store.err == nil != stops {
				t.Errorf("this replica stops asking: %t; the store is away: %v", stops, s.health.store.err)
			}
		})
	}
}

// A failure to expire a session counts as a failure of the store.
func TestAFailureToExpireIsSeen(t *testing.T) {
	s := memberOn(t, mutes{newStore()})
	s.expire(t.Context(), ledger.Peer{Session: "other"}, time.Minute)
	if !errors.Is(s.health.store.err, errRights) || s.expired.Load() != 0 {
		t.Errorf("%v, %d expired", s.health.store.err, s.expired.Load())
	}
}
