package locks

import (
	"context"
	"time"
)

// share adds one more Lease, for a request that is granted or joins. With the Locker's mu held.
func (l *Locker) share(h *hold, r Request) *Lease {
	lease := &h.first // one allocation for both
	if len(h.leases) > 0 {
		lease = new(Lease)
	} else { // it is new: one whose last lease was released is not joined
		h.leases = h.only[:0]
	}
	lease.locker, lease.hold = l, h
	h.leases = append(h.leases, lease)
	if r.MaxHold > 0 {
		l.holdAtMost(lease, r.MaxHold)
	}
	return lease
}

// Lease is one holding of a key. It ends, for good, when it is released, lost or forced.
// It is safe for concurrent use.
type Lease struct {
	locker   *Locker
	hold     *hold
	released error // matches ErrReleased once it was
	maxHold  *maxHold
	// Made when it is asked for, guarded by the Locker's mu. The only context that is kept: it does not bound calls, it is the
	// signal that the lease ended.
	ctx    context.Context //nolint:containedctx // see above
	cancel context.CancelCauseFunc
}

// why is the cause with which the lease is known to have ended, or nil. With the Locker's mu held.
func (l *Lease) why() error {
	if l.released != nil {
		return l.released
	}
	return l.hold.ended
}

// end gives the signal. With the Locker's mu held.
func (l *Lease) end(cause error) {
	if l.cancel != nil {
		l.cancel(cause)
	}
}

// Key is the held key.
func (l *Lease) Key() string { return l.hold.key }

// Token is the fencing token of this holding.
func (l *Lease) Token() Token { return l.hold.token }

// Context is done when the lease ends; its cause matches ErrLost, ErrForced or ErrReleased. The
// signal may come late in a process that was stopped or suspended: Check and the token do not
// depend on it.
func (l *Lease) Context() context.Context {
	l.locker.mu.Lock()
	defer l.locker.mu.Unlock()
	if l.ctx == nil {
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
		if cause := l.locker.check(l); cause != nil {
			l.cancel(cause)
		}
	}
	return l.ctx
}

// Deadline is the time until which the lease may be trusted without another renewal. Each renewal extends
// it, up to the end of MaxHold; it means nothing once the lease has ended. It is for messages, and shows that the lease was
// renewed. The clock of a time.Time stops while the machine sleeps: decide by Left.
func (l *Lease) Deadline() time.Time {
	l.locker.mu.Lock()
	defer l.locker.mu.Unlock()
	deadline := l.hold.session.deadline()
	if m := l.maxHold; m != nil && m.end.Until() < deadline.Until() {
		deadline = m.end
	}
	return deadline.Time()
}

// Left is how long the lease may be trusted from now on without another renewal: 0 once it has ended, at most the ttl of its
// session, and at most the rest of its MaxHold. Time in which the machine sleeps counts. Ask again instead of keeping it: each renewal
// extends it, and Release or an eviction ends it.
func (l *Lease) Left() time.Duration {
	l.locker.mu.Lock()
	defer l.locker.mu.Unlock()
	if l.locker.check(l) != nil {
		return 0
	}
	left := l.locker.left(l.hold.session)
	if m := l.maxHold; m != nil {
		left = min(left, m.end.Until())
	}
	return max(left, 0)
}

// Check returns nil while the lease may be trusted, else an error that matches ErrLost, ErrForced or
// ErrReleased. It makes no call: use it before each side effect.
func (l *Lease) Check() error {
	l.locker.mu.Lock()
	defer l.locker.mu.Unlock()
	return l.locker.check(l)
}

// check is Check with mu held.
func (l *Locker) check(lease *Lease) error {
	if err := l.ended(lease); err != nil || lease.maxHold == nil {
		return err
	}
	return lease.maxHold.over()
}

// ended says why the lease has ended, or nil. With mu held.
func (l *Locker) ended(lease *Lease) error {
	if lease.released == nil && lease.hold.ended == nil {
		l.left(lease.hold.session)
	}
	return lease.why()
}

// Release frees the key, unless other leases share the hold. It returns nil if this
// Lease was released before, and an error that matches ErrLost if it was lost before: then nothing
// is freed. After any other error the key is freed in the background, or by
// the end of the session. The lease's context ends before the service is asked. A nil Lease returns nil.
func (l *Lease) Release(ctx context.Context) error {
	if l == nil || l.locker == nil {
		return nil
	}
	return l.locker.Release(ctx, l)
}
