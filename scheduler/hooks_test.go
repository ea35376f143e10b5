package scheduler

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// beside is a store with replica a in it, and a peer that sends no heartbeats.
type beside struct {
	*replicatest.Picky
	dead    bool // the session of a has expired
	moves   int
	expired time.Time // when that of b was expired first
	reaped  []time.Time
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

func (b *beside) Expire(context.Context, string, int64) (bool, error) {
	if b.expired.IsZero() {
		b.expired = time.Now()
	}
	return true, nil
}

func (b *beside) Running(context.Context, string) (ledger.Running, error) {
	return ledger.Running{Orphaned: true}, nil
}

func (b *beside) Reap(context.Context, int) ([]ledger.Reaped, error) {
	b.reaped = append(b.reaped, time.Now())
	return nil, nil
}

func (b *beside) Extend(_ context.Context, _ string, moves []ledger.Extension) ([]bool, error) {
	b.moves += len(moves)
	return make([]bool, len(moves)), nil
}

// Changes among the replicas wake the other parts: new peers get their share of the stripes, and it is asked again which
// configuration governs; tasks of an expired session are reaped; a heartbeat extends attempts; attempts of an own session
// that expired have no trust window any more.
func TestWhatFollowsFromMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &beside{Picky: replicatest.NewPicky(nil)}
		began, told := make(chan struct{}, 1), make(chan error, 1)
		h := replicatest.Function(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
			began <- struct{}{}
			<-ctx.Done()
			told <- context.Cause(ctx)
			return nil
		})
		s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Handler: h, Timeout: 24 * time.Hour}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		trusting(s)
		run := func(d time.Duration, loops ...func(context.Context)) {
			ctx, stop := context.WithTimeout(t.Context(), d)
			defer stop()
			wake.Loops(ctx, loops...)
		}
		run(1500*time.Millisecond, s.members.Watch)
		if n := len(s.triggers.Owned()); n == 0 || n == ledger.Stripes {
			t.Errorf("of the stripes %d are its own", n)
		}
		if len(s.wakeGovern) != 1 {
			t.Errorf("peers have come: asks who governs: %d", len(s.wakeGovern))
		}
		<-s.wakeGovern

		_, start := s.work.Reserve(s.plan.Load(), nil)
		start(t.Context(), ledger.Decided{Started: []ledger.Started{
			{Task: &jobs.Task{ID: "1", Job: "j", Pool: naming.DefaultPool, Token: 7}, Until: time.Now().Add(-time.Minute)},
		}})
		<-began
		run(4*time.Second, s.members.Keep)
		run(time.Second, s.work.Keep)
		if st.moves != 1 || len(told) > 0 {
			t.Errorf("a heartbeat: %d attempts are to run longer; told to stop: %d", st.moves, len(told))
		}
		st.dead = true
		run(4*time.Second, s.members.Keep)
		run(time.Second, s.work.Keep)
		if len(told) != 1 || len(s.wakeGovern) != 1 {
			t.Errorf("the session expired: attempts that are told to stop: %d; asks who governs: %d", len(told), len(s.wakeGovern))
		}
		st.reaped = nil
		run(20*time.Second, s.members.Keep, s.members.Watch, func(ctx context.Context) {
			time.Sleep(300 * time.Millisecond) // so that it reaps at other times than those at which peers are read
			s.work.Keep(ctx)
		})
		if st.expired.IsZero() || !slices.ContainsFunc(st.reaped, st.expired.Equal) {
			t.Errorf("the silent peer expired at %v, and what it ran is reaped at %v", st.expired, st.reaped)
		}
	})
}
