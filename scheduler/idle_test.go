package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// asked is a store that counts what a replica asks while there is nothing to do: each of these calls is one statement then.
type asked struct {
	ledger.Store
	readies, overdue, running, events, expired, peers, beats atomic.Int64
}

func (a *asked) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	a.readies.Add(1)
	return a.Store.Ready(ctx, now)
}

func (a *asked) Overdue(ctx context.Context, until time.Time, limit int) ([]ledger.Upcoming, error) {
	a.overdue.Add(1)
	return a.Store.Overdue(ctx, until, limit)
}

func (a *asked) Running(ctx context.Context, session string) (ledger.Running, error) {
	a.running.Add(1)
	return a.Store.Running(ctx, session)
}

func (a *asked) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	a.events.Add(1)
	return a.Store.Notify(ctx, n)
}

func (a *asked) EndExpired(ctx context.Context, now ledger.Judge, limit int) ([]jobs.Task, time.Time, error) {
	a.expired.Add(1)
	return a.Store.EndExpired(ctx, now, limit)
}

func (a *asked) Peers(ctx context.Context) ([]ledger.Peer, error) {
	a.peers.Add(1)
	return a.Store.Peers(ctx)
}

func (a *asked) Beat(ctx context.Context, session string) (time.Time, error) {
	a.beats.Add(1)
	return a.Store.Beat(ctx, session)
}

// counts are the calls since the last call of it.
func (a *asked) counts() (all, looks int64) {
	for _, n := range []*atomic.Int64{&a.overdue, &a.running, &a.events, &a.expired} {
		looks += n.Swap(0)
	}
	return looks + a.readies.Swap(0) + a.peers.Swap(0) + 2*a.beats.Swap(0), looks // a heartbeat reads the time, too
}

// An idle replica sends fewer than 5 statements a second: one look for all that its loops would look for.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &asked{Store: &memstore.Store{Database: memstore.New()}}
		day := jobs.Job{Schedule: "@daily", Handler: quick{new(atomic.Int64)}}
		runs(t, st, jobs.Set{Jobs: map[string]jobs.Job{"a": day, "b": day}}, Options{ID: "one"})
		time.Sleep(5 * time.Second)
		st.counts()
		time.Sleep(time.Minute)
		if all, looks := st.counts(); all >= 5*60 || looks > 0 {
			t.Errorf("%d calls in a minute, %d of them looks besides the one of the poll", all, looks)
		}
	})
}
