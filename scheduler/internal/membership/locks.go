package membership

import (
	"context"
	"errors"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// Locks is what a replica needs of the lock service; *locks.Locker is one.
type Locks interface {
	TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error)
	Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error)
	Release(ctx context.Context, leases ...*locks.Lease) error
	Caps() locks.Caps
	State() locks.State
}

// LockService is the lock service from the view of this replica: whether there is one, and whether it answers.
type LockService struct {
	Locks    Locks // nil: the store's own database is the lock service, its rows are the guards
	Required bool  // while it is away nothing starts; otherwise the rows decide alone
	health   *health
}

// LockService wraps lk; nil is no lock service. Whether it answers is part of the member's health.
func (m *Member) LockService(lk Locks, required bool) *LockService {
	return &LockService{Locks: lk, Required: required, health: &m.health}
}

// Used reports whether there is a lock service.
func (l *LockService) Used() bool { return l.Locks != nil }

// Down reports whether its last call had no answer.
func (l *LockService) Down() bool { return l.health.lockIsDown() }

// Replaced reports whether the rows of the store decide alone: there is no lock service, or it is away.
func (l *LockService) Replaced() bool { return !l.Used() || l.Down() && !l.Required }

// Blocks reports whether nothing may start because the lock service is away.
func (l *LockService) Blocks() bool { return l.Used() && l.Required && l.Down() }

// Name is its name in metrics.
func (l *LockService) Name() string {
	if !l.Used() {
		return "store"
	}
	return l.Locks.Caps().Name
}

// Release releases leases.
func (l *LockService) Release(ctx context.Context, leases ...*locks.Lease) error {
	return l.Locks.Release(ctx, leases...)
}

// Try tries each key. It returns the attempts, of which some may have a lease, and an error if the service did not say of
// each key whether it is busy. The keys may start with "sys/".
func (l *LockService) Try(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	attempts, err := l.Locks.TryAcquire(syskeys.Allow(ctx), requests...)
	for _, a := range attempts {
		if a.Err != nil && !errors.Is(a.Err, locks.ErrBusy) {
			err = a.Err
		}
	}
	return attempts, err
}

// Wait waits for a key until ctx is done, as locks.Locker.Acquire does. The key may start with "sys/".
func (l *LockService) Wait(ctx context.Context, request locks.Request) (*locks.Lease, error) {
	leases, err := l.Locks.Acquire(syskeys.Allow(ctx), request)
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// Meet notes whether the last call had an answer. A service that was not called yet counts as there.
func (l *LockService) Meet() {
	if !l.Used() {
		return
	}
	if st := l.Locks.State(); st.Err != nil {
		l.Failed(st.Err)
	}
}

// Failed notes by the error of a call whether the lock service answers, and reports whether the call failed.
func (l *LockService) Failed(err error) bool {
	if err == nil {
		l.health.lockUp()
		return false
	}
	if !errors.Is(err, context.Canceled) {
		l.health.lockDown(err)
	}
	return true
}

// Condition says whether new work may start, as far as the lock service decides that.
func (l *LockService) Condition() wire.Condition {
	l.health.mu.Lock()
	defer l.health.mu.Unlock()
	c := wire.Condition{Name: "lock", Ready: true}
	if l.health.lock.err != nil {
		c.Ready = !l.Required
		c.Detail = l.health.lock.away()
		if c.Ready {
			c.Detail += "; the store's rows decide alone"
		} else {
			c.Detail += "; nothing starts until it answers"
		}
	}
	return c
}
