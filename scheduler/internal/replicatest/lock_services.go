package replicatest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// LockerOf is a client of the service that is closed with the test.
func LockerOf(t *testing.T, service driver.Driver) *locks.Locker {
	t.Helper()
	l, err := locks.New(service, locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// Mute is a lock service that takes requests, and whose answers are lost.
type Mute struct{}

// TryAcquire has no answer for any key.
func (Mute) TryAcquire(_ context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	return slices.Repeat([]locks.Attempt{{Err: locks.ErrUnknown}}, len(requests)), nil
}

// Acquire has no answer for as long as it waits.
func (Mute) Acquire(ctx context.Context, _ ...locks.Request) ([]*locks.Lease, error) {
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", locks.ErrUnknown, ctx.Err())
}

// Release does nothing.
func (Mute) Release(context.Context, ...*locks.Lease) error { return nil }

// Caps has a name.
func (Mute) Caps() locks.Caps { return locks.Caps{Name: "mute"} }

// State is that of a service that answers.
func (Mute) State() locks.State { return locks.State{} }

// Locks is what a replica needs of a lock service.
type Locks interface {
	TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error)
	Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error)
	Release(ctx context.Context, leases ...*locks.Lease) error
	Caps() locks.Caps
	State() locks.State
}

// Scripted is a lock service with given answers, which notes what it was asked for.
type Scripted struct {
	Locks
	Answer func(ctx context.Context) ([]locks.Attempt, error)
	Asked  []locks.Request
	Waits  int // calls of Acquire among them
}

// Caps has a name.
func (*Scripted) Caps() locks.Caps { return locks.Caps{Name: "scripted"} }

// State is that of a service that answers.
func (*Scripted) State() locks.State { return locks.State{} }

// TryAcquire notes the requests, and gives the answer.
func (s *Scripted) TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	s.Asked = append(s.Asked, requests...)
	if s.Answer != nil {
		return s.Answer(ctx)
	}
	return s.Locks.TryAcquire(ctx, requests...)
}

// Acquire notes the requests, and waits where the answer is none that ends the wait.
func (s *Scripted) Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error) {
	s.Asked = append(s.Asked, requests...)
	s.Waits++
	if s.Answer == nil {
		return s.Locks.Acquire(ctx, requests...)
	}
	attempts, err := s.Answer(ctx)
	if err == nil && attempts[0].Lease != nil {
		return []*locks.Lease{attempts[0].Lease}, nil
	}
	if err == nil {
		err = attempts[0].Err
	}
	<-ctx.Done()
	return nil, fmt.Errorf("%w: %w", err, ctx.Err())
}
