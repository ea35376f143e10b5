package scheduler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// beside is a store with replica a in it, and a peer that sends no heartbeats.
type beside struct {
	*picky
	dead  bool // the session of a has expired
	moves int
}

func (b *beside) Join(context.Context, ledger.Member) (string, error) { return "mine", nil }

func (b *beside) Beat(context.Context, string) (time.Time, error) {
	if b.dead {
		b.dead = false
		return time.Time{}, ledger.ErrSessionDead
	}
	return time.Now(), nil
}

func (b *beside) Peers(context.Context) ([]ledger.Peer, error) {
	return []ledger.Peer{
		{Member: ledger.Member{Replica: "a", TTL: 10 * time.Second}, Session: "mine"},
		{Member: ledger.Member{Replica: "b", TTL: 10 * time.Second}, Session: "theirs", Beat: 7},
	}, nil
}

func (b *beside) Expire(context.Context, string, int64) (bool, error) { return true, nil }

func (b *beside) Extend(_ context.Context, _ string, moves []ledger.Extension) ([]bool, error) {
	b.moves += len(moves)
	return make([]bool, len(moves)), nil
}

// Changes among the replicas wake the other parts: new peers get their share of the stripes, and it is asked again which
// configuration governs; tasks of an expired session are reaped; a heartbeat extends attempts; attempts of an own session
// that expired have no trust window any more.
func TestWhatFollowsFromMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &beside{picky: newPicky(nil)}
		s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Handler: blocked{}, Timeout: 24 * time.Hour}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		trusting(s)
		run := func(loop func(context.Context), d time.Duration) {
			ctx, stop := context.WithTimeout(t.Context(), d)
			defer stop()
			loop(ctx)
		}
		run(s.members.Watch, 1500*time.Millisecond)
		if !slices.Equal(s.triggers.stripes.live, []string{"a", "b"}) {
			t.Errorf("the stripes are shared by %v", s.triggers.stripes.live)
		}
		if len(s.nudgeGovern) != 1 || len(s.triggers.nudgeBalance) != 1 || len(s.work.nudgeTend) != 0 {
			t.Errorf("peers have come: asks who governs: %d, balances: %d, reaps: %d", len(s.nudgeGovern), len(s.triggers.nudgeBalance), len(s.work.nudgeTend))
		}
		<-s.nudgeGovern

		a := &attempt{task: jobs.Task{ID: "1", Job: "j", Token: 7}, session: "mine", mayRun: time.Now().Add(-time.Minute), bound: bound.New(boottime.Awake(), 0)}
		s.work.register.run(a)
		run(s.members.Keep, 4*time.Second)
		if st.moves != 1 || a.orphaned {
			t.Errorf("a heartbeat: %d attempts are to run longer; its session has expired: %t", st.moves, a.orphaned)
		}
		st.dead = true
		run(s.members.Keep, 4*time.Second)
		if !a.orphaned || len(s.nudgeGovern) != 1 {
			t.Errorf("the session expired: the attempt knows: %t; asks who governs: %d", a.orphaned, len(s.nudgeGovern))
		}
		together := func(ctx context.Context) {
			ended := make(chan struct{})
			go func() { defer close(ended); s.members.Keep(ctx) }()
			s.members.Watch(ctx)
			<-ended
		}
		run(together, 15*time.Second)
		if len(s.work.nudgeTend) != 1 {
			t.Error("what the silent peer ran is not reaped at once")
		}
	})
}
