package work

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

const (
	// busyLimit is how long a claim waits behind a holder of the pool's lock that gives it to nobody: it may have ended, or hang.
	busyLimit = 250 * time.Millisecond
	// turnsLimit is how long it waits at most, while others have their turns.
	turnsLimit = time.Second
	// vainFor is how long claims do not wait for a lock that one has waited for in vain.
	vainFor = time.Second
)

// claimLock is the lock of a pool's claims, from the view of one feeder. It keeps the replicas from claiming the same rows at once; what
// is claimed, the rows decide. So a busy lock is waited for in the order of the lock service's queue, and not for long: for busyLimit,
// and as long as the other replicas take for a claim each, but no longer than turnsLimit. Then the rows decide alone, and for vainFor the
// lock is tried without a wait: its holder, or a replica before this one in the queue, may have ended, and then it is busy until the ttl is over.
//
// The rows decide alone, too, while the lock service is away, unless the replica must wait for it.
type claimLock struct {
	executor *Executor
	pool     string
	vain     time.Time // until then it is only tried
}

// take takes the lock, or leaves the decision to the rows; unlock is to be called after the claim in both cases. claim is how long
// the last claim took. It returns an error if ctx is done, or the replica has to wait for a lock service that does not answer.
func (c *claimLock) take(ctx context.Context, claim time.Duration) (unlock func(), err error) {
	e, nothing := c.executor, func() {}
	if e.locks.Replaced() {
		return nothing, nil
	}
	ask, limit := c.wait, min(busyLimit+time.Duration(e.member.Others())*claim, turnsLimit)
	if time.Now().Before(c.vain) {
		ask, limit = c.try, busyLimit
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	lease, err := ask(asking)
	late := asking.Err() != nil && ctx.Err() == nil
	cancel()
	switch {
	case lease != nil: // also when it came late: nothing else would release it
		e.locks.Failed(nil)
		c.vain = time.Time{}
		return func() { c.give(ctx, lease) }, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, locks.ErrBusy), late && !e.locks.Required: // the next try finds out whether the service is down
		if late {
			c.vain = time.Now().Add(vainFor)
		}
		return nothing, nil
	case e.locks.Failed(err) && e.locks.Required:
		return nil, err
	}
	return nothing, nil
}

func (c *claimLock) request() locks.Request {
	return locks.Request{Key: "sys/pool/" + c.pool, Meta: c.executor.opt.ID}
}

func (c *claimLock) wait(ctx context.Context) (*locks.Lease, error) {
	return c.executor.locks.Wait(ctx, c.request())
}

func (c *claimLock) try(ctx context.Context) (*locks.Lease, error) {
	attempts, err := c.executor.locks.Try(ctx, c.request())
	if err != nil {
		return nil, err
	}
	return attempts[0].Lease, attempts[0].Err
}

func (c *claimLock) give(ctx context.Context, lease *locks.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = c.executor.locks.Release(ctx, lease) // a lost lease ends by itself, and correctness does not depend on it
}
