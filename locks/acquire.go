package locks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	minPause = 5 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// Acquire waits until it has all keys of the requests, and returns their leases in the order of the requests.
//
//  1. Enter the line of each key in this Locker, in the order of the keys.
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
// answers, else when the session ends. If ctx ends the wait, the error matches ctx.Err() and the last obstacle, most often
// ErrBusy. It matches errors.ErrUnsupported if the backend lacks a Mode or Limit, and ErrUnavailable if l is closed. A request
// is refused if its Owner holds the key with another Mode or Limit.
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
		if err == nil && l.allHeld(leases) {
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

func (l *Locker) allHeld(leases []*Lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		if l.check(lease) != nil {
			return false
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
		var again <-chan time.Time
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
			again = time.After(pause/2 + rand.N(pause))
			pause = min(pause*3/2, maxPause)
		}
		select {
		case <-ws[0].news:
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

// toAsk returns the first of ws, in line, if it must ask the service; and with it those behind it that can be asked for in the
// same call, since no other waiter here is before them. With mu held.
func (l *Locker) toAsk(ws []*waiter) []*waiter {
	if len(ws) == 0 {
		return nil
	}
	n := l.enter(ws[0])
	if !n.due(ws[0]) {
		return nil
	}
	count := 1
	for ; count < len(ws); count++ {
		w := ws[count]
		other := l.lines[w.request.Key]
		sameCall := other != nil && other.first() == w && n.place != nil && other.place != nil && other.place.id == n.place.id
		if !sameCall && (other != nil || n.place != nil || l.joinable(w.request) != nil) {
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
		if n := l.lines[w.request.Key]; w.inLine && n.place == nil {
			l.leave(w)
		}
	}
	l.mu.Unlock()
	if outcome == (Asked{}) { // no call was made
		outcome.Unavailable = len(due)
	}
	outcome.Took = time.Since(began)
	l.opt.Observer.Asked(l.backend, outcome)
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
		l.grant(l.lines[reqs[kept].Key], attempts[kept].Lease)
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

// leaveAll takes waiters out of their lines, and returns what the first of them waits for.
func (l *Locker) leaveAll(ws []*waiter, began time.Time) (obstacle error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := ws[0].request.Key
	obstacle = fmt.Errorf("%w: %s: others wait before it", ErrBusy, key)
	if n := l.lines[key]; n != nil && n.holder != nil {
		obstacle = busy(n.holder)
	}
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
