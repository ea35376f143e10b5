package locks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// lookEvery is how late a grant is found whose notification was lost.
const lookEvery = time.Second

// take makes the places that the service is asked for, for waiters that are due, and returns the id of the acquisition.
// With mu held.
func (l *Locker) take(s *session, ws []*waiter) (id string, places []*place) {
	if p := l.queues[ws[0].request.Key].place; p != nil && p.session == s { // unanswered
		id = p.id
	} else {
		id = rand.Text()
	}
	for _, w := range ws {
		q := l.queues[w.request.Key]
		if q.place == nil || q.place.id != id {
			q.place = &place{id: id, kind: w.request.kind(), session: s}
		}
		q.place.state = asking
		q.place.asks++
		places = append(places, q.place)
	}
	return id, places
}

// queueUp asks for the keys of waiters that are due, in their order, up to the first that is not free; there it takes a
// place. The error says why the first waiter was not granted, and not queued.
func (l *Locker) queueUp(ctx context.Context, s *session, due []*waiter) (Asked, error) {
	l.mu.Lock()
	due = slices.DeleteFunc(slices.Clone(due), func(w *waiter) bool { return !w.waits }) // granted, while an earlier call was under way
	if len(due) == 0 {
		l.mu.Unlock()
		return Asked{}, nil
	}
	id, places := l.take(s, due)
	l.mu.Unlock()
	results, err := s.queue.Acquire(ctx, id, nil, wants(due))
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answer(ctx, due, places, results, err)
}

func wants(ws []*waiter) []driver.Want {
	wants := make([]driver.Want, len(ws))
	for i, w := range ws {
		wants[i] = w.request.want()
	}
	return wants
}

// answer takes in what the service said about places. With mu held, as all below.
func (l *Locker) answer(ctx context.Context, ws []*waiter, places []*place, results []driver.Result, err error) (outcome Asked, refused error) {
	err = explain(ctx, err)
	if at := slices.IndexFunc(results, ungranted); at >= 0 && !results[at].Queued && results[at].Err == nil {
		results[at] = driver.Result{Err: l.noOutcome()} // only those behind it are not asked for
	}
	if !errors.Is(err, driver.ErrSessionEnded) && (err == nil || !l.givenUp(ctx)) {
		l.note(trouble(results, err))
	}
	for i, p := range places {
		key := ws[i].request.Key
		r := driver.Result{Err: err}
		if err == nil {
			r = results[i]
		}
		why := outcome.count(key, r)
		if i == 0 {
			refused = why
		}
		q := l.queues[key]
		if q == nil || q.place != p { // the notification came first, or the session has ended
			continue
		}
		switch {
		case r.Token > 0:
			l.won(key, q, r.Token)
		case r.Queued:
			q.holder, p.state = r.Holder, queued
			if !p.session.queued {
				p.session.queued = true
				l.wake() // starts look
			}
		case r.Err != nil && !certain(r.Err):
			p.state, p.doubted = unanswered, true
		case p.asks > 1 && r.Err != nil && !errors.Is(r.Err, driver.ErrAbandoned): // this request had no effect; an earlier one may have
			p.state = unanswered
		case p.asks > 1:
			l.giveUp(key, q)
		default: // not asked for, or refused
			q.place = nil
		}
		if q.place == p && !q.inherits() { // the waiter that asked has left
			l.giveUp(key, q)
		}
		if q.first() != ws[i] {
			q.tell()
		}
		l.tidy(key, q)
	}
	return outcome, refused
}

func ungranted(r driver.Result) bool { return r.Token <= 0 }

// count adds the outcome for a key, and returns why it was neither granted nor queued.
func (a *Asked) count(key string, r driver.Result) error {
	switch {
	case r.Token > 0:
		a.Granted++
	case r.Queued:
		a.Queued++
	case errors.Is(r.Err, driver.ErrSessionEnded):
		return r.Err // nothing was done: onSession asks again
	case certain(r.Err):
		a.Unavailable++
		return fmt.Errorf("%s: %w", key, unavailable(r.Err))
	case r.Err != nil:
		a.Unknown++
		return fmt.Errorf("%w: %s: %w", ErrUnknown, key, r.Err)
	}
	return nil
}

// won gives a grant to the first waiter of a queue. It is freed if none of its kind is there.
func (l *Locker) won(key string, q *waitQueue, token Token) {
	p := q.place
	if l.left(p.session) <= 0 { // its end has cleared the place
		return
	}
	if !q.inherits() {
		l.giveUp(key, q)
		q.tell()
		return
	}
	q.place = nil
	h := l.obtain(p.session, q.first().request, token)
	if h == nil { // evicted before its answer came
		q.tell()
		return
	}
	if p.doubted {
		h.doubted = p.id
	}
	l.grant(q, l.share(h, q.first().request))
}

// notified takes in a grant of a place. A place that is gone was granted before, or given up.
func (l *Locker) notified(s *session, g driver.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queues[g.Key]; q != nil && q.place != nil && q.place.id == g.Acquisition && q.place.session == s {
		l.won(g.Key, q, g.Token)
		l.tidy(g.Key, q)
	}
}

// look finds grants whose notification was lost, while the session has places:
//
//  1. wait for a second;
//  2. ask what became of its places, in one call, and take in what is granted or gone.
func (l *Locker) look(ctx context.Context, s *session) {
	for {
		select {
		case <-ctx.Done():
		case <-s.over:
		case <-time.After(lookEvery):
		}
		l.mu.Lock()
		places, asks := l.queuedAt(s)
		if s.ended || ctx.Err() != nil || len(places) == 0 {
			s.looking, s.queued = false, len(places) > 0
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		calling, cancel := l.calling(ctx)
		results, err := s.queue.Look(calling, places)
		cancel()
		if errors.Is(err, driver.ErrSessionEnded) {
			l.lose(s, err)
		}
		if err == nil { // the next renewal notes whether the service is available
			l.seen(s, places, asks, results)
		}
	}
}

// queuedAt lists the queued places of a session, and how often each was asked for.
func (l *Locker) queuedAt(s *session) (places []driver.Place, asks []int) {
	for key, q := range l.queues {
		if p := q.place; p != nil && p.session == s && p.state == queued {
			places, asks = append(places, driver.Place{Acquisition: p.id, Key: key}), append(asks, p.asks)
		}
	}
	return places, asks
}

// seen takes in what became of places that were asked for so often.
func (l *Locker) seen(s *session, places []driver.Place, asks []int, results []driver.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range results {
		key := places[i].Key
		q := l.queues[key]
		if q == nil || q.place == nil || q.place.id != places[i].Acquisition || q.place.session != s {
			continue
		}
		switch {
		case r.Token > 0:
			l.won(key, q, r.Token)
		case r.Queued:
			q.holder = r.Holder
		case errors.Is(r.Err, driver.ErrNotQueued) && q.place.asks == asks[i]: // evicted, or granted and evicted; not asked for again since
			q.place = nil
			q.tell()
		}
		l.tidy(key, q)
	}
}
