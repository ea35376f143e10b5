package locks

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// TryAcquire tries each key once and does not wait for a holder; it acquires the keys that are free.
// The Attempts are in the order of the requests. It returns within the call timeout. A key that others of l wait for is busy, without a
// call.
//
// It returns an error for the whole batch only if certainly nothing was granted: a request is
// invalid or two have the same key, ctx was done before anything was sent, or the error matches
// ErrUnavailable or ErrRecovering. While the service is unavailable, one call a second reaches it
// and the others fail at once.
func (l *Locker) TryAcquire(ctx context.Context, requests ...Request) ([]Attempt, error) {
	reqs, order, err := l.checked(ctx, requests)
	if err == nil {
		err = l.start() //nolint:contextcheck // what it starts outlives the call
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("locks: acquire: %w", err)
	}
	attempts := make([]Attempt, len(reqs))
	rest := l.joinAll(reqs, order, attempts)
	if len(rest) == 0 {
		return attempts, nil
	}
	began := time.Now()
	calling, cancel := l.calling(ctx)
	defer cancel()
	err = l.onSession(calling, func(s *session) error { return l.ask(calling, s, reqs, rest, attempts) })
	l.opt.Observer.Asked(l.backend, asked(attempts, rest, err, time.Since(began)))
	if err == nil {
		return attempts, nil
	}
	if len(rest) < len(order) { // some have an outcome
		for _, i := range rest {
			attempts[i].Err = fmt.Errorf("%s: %w", reqs[i].Key, unavailable(err))
		}
		return attempts, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("locks: acquire: %w: %w", ctx.Err(), err)
	}
	return nil, fmt.Errorf("locks: acquire: %w", unavailable(err))
}

// checked returns the requests with their full keys, and their indexes in the order of these.
func (l *Locker) checked(ctx context.Context, given []Request) (reqs []Request, order []int, err error) {
	reqs, order = slices.Clone(given), make([]int, len(given))
	for i := range reqs {
		r := &reqs[i]
		if r.Key, err = fullKey(ctx, r.Key); err != nil {
			return nil, nil, err
		}
		if err := r.check(); err != nil {
			return nil, nil, err
		}
		if !r.kind().exclusive() {
			if err := r.kind().supported(l.drv.Caps()); err != nil {
				return nil, nil, fmt.Errorf("key %s: %w", r.Key, err)
			}
		}
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(reqs[a].Key, reqs[b].Key) })
	for n := 1; n < len(order); n++ {
		if key := reqs[order[n]].Key; key == reqs[order[n-1]].Key {
			return nil, nil, fmt.Errorf("key %s: asked for twice", key)
		}
	}
	return reqs, order, nil
}

// joinAll fills in the attempts that join a hold, and those of keys that this Locker waits for, and returns the rest.
func (l *Locker) joinAll(reqs []Request, order []int, attempts []Attempt) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := make([]int, 0, len(order))
	for _, i := range order {
		if attempts[i].Lease = l.join(reqs[i]); attempts[i].Lease != nil {
			continue
		}
		if l.queues[reqs[i].Key] != nil { // a try does not overtake
			attempts[i].Holder, attempts[i].Err = l.ahead(reqs[i].Key, nil)
			continue
		}
		rest = append(rest, i)
	}
	return rest
}

// ask asks the service for reqs[rest...] and fills in the attempts. It returns an error only if
// certainly nothing was granted.
func (l *Locker) ask(ctx context.Context, s *session, reqs []Request, rest []int, attempts []Attempt) error {
	wants := make([]driver.Want, len(rest))
	l.mu.Lock()
	for n, i := range rest {
		wants[n] = reqs[i].want()
		l.inFlight[reqs[i].Key]++
	}
	l.mu.Unlock()
	id := rand.Text()
	results, doubted, err := l.attempt(ctx, s, id, wants)
	err = explain(ctx, err)

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range wants {
		l.landed(w.Key)
	}
	if errors.Is(err, driver.ErrSessionEnded) {
		return err
	}
	if err == nil || !l.givenUp(ctx) {
		l.note(trouble(results, err))
	}
	if certain(err) {
		return err
	}
	if err != nil {
		results = make([]driver.Result, len(wants))
		for n := range results {
			results[n].Err = err
		}
	}
	alive := l.left(s) > 0
	var unsettled []string // keys that may be granted under id, and have no lease
	answered, recovering := false, error(nil)
	for n, i := range rest {
		a := l.record(s, reqs[i], results[n], alive)
		switch doubt := unknown(results[n]) || doubted != nil && doubted[n]; {
		case !doubt:
		case results[n].Token > 0 && a.Lease != nil:
			a.Lease.hold.doubted = id
		default:
			unsettled = append(unsettled, wants[n].Key)
		}
		attempts[i] = a
		answered = answered || !errors.Is(a.Err, ErrRecovering)
		recovering = a.Err
	}
	if len(unsettled) > 0 {
		l.abandon(s, id, unsettled...)
	}
	if !answered {
		return recovering
	}
	return nil
}

// attempt asks once, and again if the outcome is unknown and there is time: for the same id the service gives the same
// answer. doubted are the keys for which one of two requests has no answer, and may still arrive; nil if there was no second one.
func (l *Locker) attempt(ctx context.Context, s *session, id string, wants []driver.Want) (results []driver.Result, doubted []bool, err error) {
	results, err = l.askDriver(ctx, s, id, wants)
	if ctx.Err() != nil || certain(err) || err == nil && !slices.ContainsFunc(results, unknown) {
		return results, nil, err
	}
	again, err2 := l.askDriver(ctx, s, id, wants)
	if errors.Is(err2, driver.ErrSessionEnded) {
		return nil, nil, err2
	}
	doubted = make([]bool, len(wants))
	for n := range wants {
		first, second := driver.Result{Err: err}, driver.Result{Err: err2}
		if err == nil {
			first = results[n]
		}
		if err2 == nil {
			second = again[n]
			if second.Err != nil && (first.Token > 0 || certain(second.Err)) { // the second request tells nothing about the first
				again[n] = first
			}
		}
		doubted[n] = unknown(first) || unknown(second)
	}
	if err2 != nil {
		return results, doubted, err
	}
	return again, doubted, nil
}

// askDriver is one call. A key without an outcome has an unknown one.
func (l *Locker) askDriver(ctx context.Context, s *session, id string, wants []driver.Want) ([]driver.Result, error) {
	results, err := s.drv.TryAcquire(ctx, id, wants)
	for i, r := range results {
		if r.Token <= 0 && r.Holder == nil && r.Err == nil {
			results[i] = driver.Result{Err: l.noOutcome()}
		}
	}
	return results, err
}

func (l *Locker) noOutcome() error {
	return fmt.Errorf("backend %s answered without an outcome, which is a fault of it", l.backend)
}

// certain reports whether err says that nothing was granted.
func certain(err error) bool {
	return errors.Is(err, driver.ErrUnreachable) || errors.Is(err, ErrRecovering) || errors.Is(err, driver.ErrSessionEnded) ||
		errors.Is(err, driver.ErrAbandoned)
}

// unknown reports whether the key may have been granted without an answer.
func unknown(r driver.Result) bool { return r.Err != nil && !certain(r.Err) }

// trouble is the error that an answer tells about the service: nil if it answered for at least one key.
func trouble(results []driver.Result, err error) error {
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err == nil {
			return nil
		}
		err = r.Err
	}
	return err
}

// record turns the outcome for one key into an Attempt. With mu held.
func (l *Locker) record(s *session, r Request, res driver.Result, alive bool) Attempt {
	switch {
	case certain(res.Err):
		return Attempt{Err: fmt.Errorf("%s: %w", r.Key, unavailable(res.Err))}
	case res.Err != nil:
		return Attempt{Err: fmt.Errorf("%w: %s: %w", ErrUnknown, r.Key, res.Err)}
	case res.Holder != nil:
		if joined := l.join(r); joined != nil {
			return Attempt{Lease: joined}
		}
		l.freeUnexpected(s, r.Key, res.Holder)
		return Attempt{Holder: res.Holder, Err: busy(res.Holder)}
	case !alive:
		return Attempt{Err: fmt.Errorf("%w: %s: the session ended meanwhile", ErrUnknown, r.Key)}
	}
	h := l.obtain(s, r, res.Token)
	if h == nil {
		holder := l.infoOf(l.holds[r.Key])
		return Attempt{Holder: holder, Err: busy(holder)}
	}
	return Attempt{Lease: l.share(h, r)}
}
