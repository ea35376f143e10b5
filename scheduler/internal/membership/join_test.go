package membership

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// forgetful is a store that executes each call, and some of whose answers are lost.
type forgetful struct {
	*memstore.Store
	joins, beats int // answers that will be lost
}

func lose(left *int, err error) error {
	if err != nil || *left == 0 {
		return err
	}
	*left--
	return fmt.Errorf("%w: the answer was lost", jobs.ErrUnavailable)
}

func (f *forgetful) Join(ctx context.Context, m ledger.Member) (string, error) {
	id, err := f.Store.Join(ctx, m)
	if err := lose(&f.joins, err); err != nil {
		return "", err
	}
	return id, nil
}

func (f *forgetful) Beat(ctx context.Context, session string) (time.Time, error) {
	database, err := f.Store.Beat(ctx, session)
	return database, lose(&f.beats, err)
}

// A replica whose session was expired takes part again soon, however many answers are lost while
// it joins, and is counted once.
func TestNoReplicaIsInItsOwnWay(t *testing.T) {
	for name, losses := range map[string]forgetful{"joins": {joins: 1}, "first beats": {beats: 2}, "both": {joins: 1, beats: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &forgetful{Store: newStore()}
				s := memberOn(t, st)
				if err := s.Join(t.Context()); err != nil {
					t.Fatal(err)
				}
				died := s.session.Load().ID
				if dead, err := st.Expire(t.Context(), died, 1); !dead || err != nil {
					t.Fatal(dead, err)
				}
				st.joins, st.beats = losses.joins, losses.beats
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.Keep(ctx) }()
				time.Sleep(s.opt.SessionTTL/3 + 3*time.Second)
				stop()
				<-ended
				if ses := s.session.Load(); ses.ID == died || !ses.Trusted() {
					t.Error("it has not joined again")
				}
				if n := s.sessionsLost.Load(); n != 1 {
					t.Errorf("%d sessions were lost", n)
				}
				live := 0
				peers, err := st.Peers(t.Context())
				for _, p := range peers {
					if !p.Dead {
						live++
					}
				}
				if live != 1 || err != nil {
					t.Errorf("%d live sessions, %v", live, err)
				}
			})
		})
	}
}
