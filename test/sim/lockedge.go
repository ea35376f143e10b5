package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// lockEdge is the connection between one process and the lock service: a driver.
type lockEdge struct {
	*memlock.Service
	w       *world
	index   int
	process *process

	mu      sync.Mutex
	session string // the last one
}

// Caps are those of a service that all machines share.
func (l *lockEdge) Caps() driver.Caps {
	return driver.Caps{Name: "simulated", FIFO: true, Shared: true, Limit: true, Volatile: true}
}

func (l *lockEdge) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	return lockCall(ctx, l, func(ctx context.Context) (driver.Session, error) {
		s, err := l.Service.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		l.session = s.ID()
		l.mu.Unlock()
		return &lockSession{s, l}, nil
	})
}

func (l *lockEdge) lastSession() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

type lockSession struct {
	driver.Session
	l *lockEdge
}

var errNoAnswer = errors.New("simulated: the answer was lost")

func lockCall[T any](ctx context.Context, l *lockEdge, act func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if !l.process.goOn() {
		return none, fmt.Errorf("%w: dead", driver.ErrUnreachable)
	}
	back := time.Duration(0) // how long the answer takes
	switch kind, by := l.w.weather.strikes(l.index, lockRefuse, lockLoses, lockSlow); {
	case kind == lockRefuse:
		return none, fmt.Errorf("%w: simulated", driver.ErrUnreachable)
	case kind == lockLoses:
		if l.w.weather.coin() {
			_, _ = act(context.WithoutCancel(ctx))
		}
		if l.w.weather.coin() {
			<-ctx.Done()
		}
		l.process.goOn()
		return none, errNoAnswer
	case kind == lockSlow && l.w.weather.coin():
		back = by
	case kind == lockSlow:
		if l.wait(ctx, by); ctx.Err() != nil {
			return none, errNoAnswer
		}
	}
	got, err := act(ctx)
	l.wait(ctx, back) // a caller without a processor finds it after it has stopped waiting
	if !l.process.goOn() {
		return none, errNoAnswer
	}
	return got, err
}

func (l *lockEdge) wait(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-l.process.dead:
	}
}

func (s *lockSession) Renew(ctx context.Context, sample []driver.Held) (bool, error) {
	return lockCall(ctx, s.l, func(ctx context.Context) (bool, error) { return s.Session.Renew(ctx, sample) })
}

func (s *lockSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	if kind, _ := s.l.w.weather.strikes(s.l.index, lockBusy); kind != "" {
		results := make([]driver.Result, len(wants))
		for i, w := range wants {
			results[i].Holder = &driver.Info{Key: w.Key, Token: 1, Session: "a user"}
		}
		return results, nil
	}
	return lockCall(ctx, s.l, func(ctx context.Context) ([]driver.Result, error) {
		return s.Session.TryAcquire(ctx, acquisition, wants)
	})
}

func (s *lockSession) Queue() driver.Queue { return lockQueue{s.Session.Queue(), s.l} }

// lockQueue is the side of a session that waits.
type lockQueue struct {
	driver.Queue
	l *lockEdge
}

func (q lockQueue) Acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	return lockCall(ctx, q.l, func(ctx context.Context) ([]driver.Result, error) {
		return q.Queue.Acquire(ctx, acquisition, release, wants)
	})
}

func (q lockQueue) Look(ctx context.Context, places []driver.Place) ([]driver.Result, error) {
	return lockCall(ctx, q.l, func(ctx context.Context) ([]driver.Result, error) { return q.Queue.Look(ctx, places) })
}

func (s *lockSession) Abandon(ctx context.Context, acquisition string, keys []string) error {
	_, err := lockCall(ctx, s.l, func(ctx context.Context) (nothing, error) {
		return nothing{}, s.Session.Abandon(ctx, acquisition, keys)
	})
	return err
}

func (s *lockSession) Release(ctx context.Context, held []driver.Held) error {
	_, err := lockCall(ctx, s.l, func(ctx context.Context) (nothing, error) { return nothing{}, s.Session.Release(ctx, held) })
	return err
}

func (s *lockSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	return lockCall(ctx, s.l, func(ctx context.Context) ([]bool, error) { return s.Session.Check(ctx, held) })
}

func (s *lockSession) Close(ctx context.Context) error {
	_, err := lockCall(ctx, s.l, func(ctx context.Context) (nothing, error) { return nothing{}, s.Session.Close(ctx) })
	return err
}
