package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// Acquire waits until it has all keys of the requests, and returns their leases in the order of the requests.
//
//  1. Enter the queue of each key in this Locker, in the order of the keys.
//  2. When first there, ask the service: free keys are granted in one call, up to the first that is not, where it takes a
//     place in the queue.
//  3. Wait for the grant, and go on with the next key.
//  4. If a lease was lost while others were waited for, release all and begin again.
//
// All ask in the same order, so no two wait for each other. Lockers are served in the order of their places at the
// service (Caps.FIFO), and the waiters of one Locker for a key in the order in which they came: they share one place, which
// goes behind the others after each turn. Where the service has no queue, the first waiter of each Locker tries again, with
// a pause that grows to 250 ms. It waits through an outage of the service, unless l has never reached it.
//
// After an error nothing is held, and the places are given back: in the background, within the call timeout if the service
// answers, else when the session ends. The errors are:
//
//   - ctx has ended: the error matches ctx.Err(). If that ended the wait it also matches what was in the way: most often ErrBusy, which
//     Acquire returns in no other case; ErrUnavailable, ErrRecovering or ErrUnknown if the last call to the service was in vain.
//   - l is closed, or cannot reach the service and never has: ErrUnavailable.
//   - a request is refused: it is invalid, two have the same key, its Owner holds the key with another Mode or Limit, or the backend
//     lacks that one (errors.ErrUnsupported). Nothing was asked for.
//
// The end of a session is no error: Acquire begins again, as with a lease that was lost while it waited for others. So the error never matches
// ErrLost, ErrForced or ErrReleased.
func (l *Locker) Acquire(ctx context.Context, requests ...Request) ([]*Lease, error) {
	reqs, order, err := l.checked(ctx, requests)
	if err == nil {
		err = l.start() //nolint:contextcheck // what it starts outlives the call
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = l.upgrades(reqs)
	}
	if err != nil {
		return nil, fmt.Errorf("locks: acquire: %w", err)
	}
	leases := make([]*Lease, len(reqs))
	for {
		ws := make([]*waiter, len(order))
		for n, i := range order {
			ws[n] = newWaiter(reqs[i])
		}
		err := l.await(ctx, ws)
		for n, i := range order {
			leases[i] = ws[n].lease
		}
		if err == nil && l.begin(leases, reqs) {
			return leases, nil
		}
		releasing, cancel := l.calling(context.WithoutCancel(ctx))
		_ = l.Release(releasing, leases...) // what fails is freed in the background
		cancel()
		if err != nil {
			return nil, fmt.Errorf("locks: acquire: %w", err)
		}
	}
}

// upgrades returns an error if one of the requests would wait for a hold of its own Owner.
func (l *Locker) upgrades(reqs []Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range reqs {
		for h := l.holds[r.Key]; h != nil; h = h.next {
			if r.Owner != "" && h.owner == r.Owner && h.kind != r.kind() {
				return fmt.Errorf("key %s: %s holds it with another mode or limit, which a hold keeps: release it first", r.Key, r.Owner)
			}
		}
	}
	return nil
}

// begin starts the time of leases that have a MaxHold, unless one of them all has ended.
func (l *Locker) begin(leases []*Lease, reqs []Request) (held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		if l.check(lease) != nil {
			return false
		}
	}
	for i, lease := range leases {
		if reqs[i].MaxHold > 0 {
			l.holdAtMost(lease, reqs[i].MaxHold)
		}
	}
	return true
}

// await serves waiters in their order. After an error some may have leases.
func (l *Locker) await(ctx context.Context, ws []*waiter) error {
	var refused error
	began := time.Now()
	for range ws {
		l.opt.Observer.Waiting(l.backend)
	}
	for pause := minPause; ; {
		l.mu.Lock()
		for len(ws) > 0 && l.served(ws[0]) {
			l.opt.Observer.Waited(l.backend, time.Since(began), true)
			ws = ws[1:]
			pause = minPause
		}
		due := l.toAsk(ws)
		l.mu.Unlock()
		if len(ws) == 0 {
			return nil
		}
		news, again := ws[0].news, (<-chan time.Time)(nil)
		if len(due) > 0 {
			err := l.askFor(ctx, due)
			if err == nil {
				refused = nil
				continue
			}
			if ctx.Err() == nil || refused == nil {
				refused = err
			}
			if errors.Is(err, ErrUnavailable) && !l.waitable() {
				l.leaveAll(ws, began)
				return err
			}
			if errors.Is(err, driver.ErrSessionEnded) {
				news = nil // the end of the session is no reason to ask before the pause is over
			}
			again = time.After(pause/2 + rand.N(pause))
			pause = min(pause*3/2, maxPause)
		}
		select {
		case <-news:
		case <-again:
		case <-ctx.Done():
			obstacle := l.leaveAll(ws, began)
			if refused != nil {
				obstacle = refused
			}
			return fmt.Errorf("%w: %w", obstacle, ctx.Err())
		}
	}
}

// served reports whether w has its lease, perhaps by joining one just now. With mu held.
func (l *Locker) served(w *waiter) bool {
	if w.lease == nil {
		if w.lease = l.join(w.request); w.lease != nil {
			l.leave(w)
		}
	}
	return w.lease != nil
}

// toAsk returns the first of ws, in its queue, if it must ask the service; and with it those behind it that can be asked for in the
// same call, since no other waiter here is before them. With mu held.
func (l *Locker) toAsk(ws []*waiter) []*waiter {
	if len(ws) == 0 {
		return nil
	}
	q := l.enter(ws[0])
	if !q.due(ws[0]) {
		return nil
	}
	count := 1
	for ; count < len(ws); count++ {
		w := ws[count]
		other := l.queues[w.request.Key]
		sameCall := other != nil && other.first() == w && q.place != nil && other.place != nil && other.place.id == q.place.id
		if !sameCall && (other != nil || q.place != nil || l.joinable(w.request) != nil) {
			break
		}
		l.enter(w)
	}
	return ws[:count]
}

// askFor asks for the keys of waiters that are due. The error says why the first of them was not granted, and not queued.
func (l *Locker) askFor(ctx context.Context, due []*waiter) error {
	calling, cancel := l.calling(ctx)
	defer cancel()
	began := time.Now()
	var outcome Asked
	err := l.onSession(calling, func(s *session) (err error) {
		if s.queue == nil {
			outcome, err = l.poll(calling, s, due)
		} else {
			outcome, err = l.queueUp(calling, s, due)
		}
		return err
	})
	l.mu.Lock()
	for _, w := range due[1:] { // what is not asked for does not wait yet
		if q := l.queues[w.request.Key]; w.waits && q.place == nil {
			l.leave(w)
		}
	}
	l.mu.Unlock()
	if outcome == (Asked{}) { // no call was made
		if err == nil {
			return nil // all were granted meanwhile
		}
		outcome.Unavailable = len(due)
	}
	outcome.Took = time.Since(began)
	l.opt.Observer.Asked(l.backend, outcome)
	if errors.Is(err, driver.ErrSessionEnded) { // also the second one
		return unavailable(err)
	}
	return err
}

// poll asks once for keys, without a place, and keeps those before the first that is not free.
func (l *Locker) poll(ctx context.Context, s *session, due []*waiter) (Asked, error) {
	reqs, all, attempts := make([]Request, len(due)), make([]int, len(due)), make([]Attempt, len(due))
	for i, w := range due {
		reqs[i], all[i] = w.request, i
	}
	err := l.ask(ctx, s, reqs, all, attempts)
	outcome := asked(attempts, all, err, 0)
	if err != nil {
		return outcome, err
	}
	l.mu.Lock()
	kept := 0
	for ; kept < len(due) && attempts[kept].Lease != nil; kept++ {
		l.grant(l.queues[reqs[kept].Key], attempts[kept].Lease)
	}
	if kept < len(due) {
		l.queues[reqs[kept].Key].holder = attempts[kept].Holder
	}
	l.mu.Unlock()
	var rest []*Lease
	for _, a := range attempts[kept:] {
		rest = append(rest, a.Lease)
	}
	_ = l.Release(ctx, rest...) // what fails is freed in the background
	if kept == 0 {
		return outcome, attempts[0].Err
	}
	return outcome, nil
}

// leaveAll takes waiters out of their queues, and returns what the first of them waits for.
func (l *Locker) leaveAll(ws []*waiter, began time.Time) (obstacle error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, obstacle = l.ahead(ws[0].request.Key, ws[0])
	for _, w := range ws {
		l.leave(w)
		l.opt.Observer.Waited(l.backend, time.Since(began), false)
	}
	return obstacle
}

// waitable reports whether waiting for an unavailable service makes sense.
func (l *Locker) waitable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.closed && l.health.reached
}
