package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// forgetful is a store that does what it is asked, and whose answers are lost now and then.
type forgetful struct {
	*picky
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
	id, err := f.picky.Join(ctx, m)
	if err := lose(&f.joins, err); err != nil {
		return "", err
	}
	return id, nil
}

func (f *forgetful) Beat(ctx context.Context, session string) (time.Time, error) {
	database, err := f.picky.Beat(ctx, session)
	return database, lose(&f.beats, err)
}

// A replica that the others declared dead takes part again soon, however many answers are lost while
// it joins, and is counted once.
func TestNoReplicaIsInItsOwnWay(t *testing.T) {
	for name, losses := range map[string]forgetful{"joins": {joins: 1}, "first beats": {beats: 2}, "both": {joins: 1, beats: 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &forgetful{picky: newPicky(nil)}
				s := replicaOn(t, st, blocked{})
				if err := s.join(t.Context()); err != nil {
					t.Fatal(err)
				}
				died := s.session.Load().id
				if dead, err := st.Expire(t.Context(), died, 1); !dead || err != nil {
					t.Fatal(dead, err)
				}
				st.joins, st.beats = losses.joins, losses.beats
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.keep(ctx) }()
				time.Sleep(s.opt.SessionTTL/3 + 3*time.Second)
				stop()
				<-ended
				if ses := s.session.Load(); ses.id == died || !ses.trusted() {
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

// refusing is a store that nobody can join, or where nobody beats.
type refusing struct {
	*picky
	join error
}

func (r refusing) Join(context.Context, ledger.Member) (string, error) { return "session", r.join }

func (refusing) Beat(context.Context, string) (time.Time, error) {
	return time.Time{}, errors.New("store: beat: access denied")
}

// What a replica ends with names each call once.
func TestWhatAFailedJoinSays(t *testing.T) {
	for want, join := range map[string]error{
		"store: join: access denied":             errors.New("store: join: access denied"),
		"first beat: store: beat: access denied": nil,
	} {
		err := replicaOn(t, refusing{newPicky(nil), join}, blocked{}).Run(t.Context())
		if err == nil || err.Error() != want {
			t.Errorf("it ended with %v, want %s", err, want)
		}
	}
}
