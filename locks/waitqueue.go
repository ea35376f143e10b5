package locks

import "slices"

// waitQueue has the waiters of this Locker for one key, in the order in which they came. They share one place in the queue of
// the service: the grant goes to the first of them. Guarded by the Locker's mu.
//
//	place, after   what comes next
//	nil    nil     the first waiter asks for a place
//	set    nil     its answer, or its grant; then the next waiter asks at once if it may hold the key too,
//	nil    set     else after the end of that hold: its release asks for a place behind those of others
type waitQueue struct {
	waiters []*waiter
	place   *place
	after   *hold
	holder  *Info // one that the place waits for, as last heard
}

// place is a request for the first waiter of a waitQueue.
//
//	asking ──▶ queued ──▶ granted
//	   └──▶ unanswered ──▶ asking again, under the same id, until that is answered
//
// When it is queued or granted, it is given up if no waiter is left, or the first one is of another kind.
type place struct {
	id      string // of the acquisition
	kind    kind
	session *session
	state   placeState
	asks    int  // calls that asked for it; after the first one the service may have it
	doubted bool // one of its calls had no answer, and may still arrive
}

type placeState uint8

const (
	asking placeState = iota
	queued
	unanswered
)

// waiter is a request that waits here.
type waiter struct {
	request Request
	waits   bool          // it is in the queue of its key
	lease   *Lease        // once it was granted
	news    chan struct{} // holds one element once something has changed for it
}

// newWaiter has no MaxHold: its time begins when Acquire has all keys.
func newWaiter(r Request) *waiter {
	r.MaxHold = 0
	return &waiter{request: r, news: make(chan struct{}, 1)}
}

func (w *waiter) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// first is the waiter that is served next, or nil.
func (q *waitQueue) first() *waiter {
	if len(q.waiters) == 0 {
		return nil
	}
	return q.waiters[0]
}

// tell wakes the first waiter.
func (q *waitQueue) tell() {
	if w := q.first(); w != nil {
		w.tell()
	}
}

// due reports whether w is first and must ask the service.
func (q *waitQueue) due(w *waiter) bool {
	return q.first() == w && q.after == nil && (q.place == nil || q.place.state == unanswered)
}

// enter makes w the last waiter for its key, unless it is one. With mu held, as all below.
func (l *Locker) enter(w *waiter) *waitQueue {
	q := l.queues[w.request.Key]
	if q == nil {
		q = &waitQueue{}
		if !l.fifo { // no place to lose while this Locker has the key
			q.after = l.excluding(w.request)
		}
		l.queues[w.request.Key] = q
	}
	if !w.waits {
		w.waits = true
		q.waiters = append(q.waiters, w)
	}
	return q
}

// leave takes w out. The next waiter inherits its place if that is of its kind.
func (l *Locker) leave(w *waiter) {
	if !w.waits {
		return
	}
	w.waits = false
	key := w.request.Key
	q := l.queues[key]
	first := q.first() == w
	q.waiters = slices.DeleteFunc(q.waiters, func(other *waiter) bool { return other == w })
	if !first {
		return
	}
	switch p := q.place; {
	case p == nil || p.state == asking: // the answer will tell
	case !q.inherits():
		l.giveUp(key, q)
	case q.first().request.Meta != w.request.Meta:
		p.state = unanswered // asked again, with that
	}
	q.tell()
	l.tidy(key, q)
}

// inherits reports whether the first waiter is of the kind of the place.
func (q *waitQueue) inherits() bool {
	w := q.first()
	return w != nil && w.request.kind() == q.place.kind
}

// tidy forgets a queue without waiters and without a call under way.
func (l *Locker) tidy(key string, q *waitQueue) {
	if len(q.waiters) == 0 && q.place == nil && l.queues[key] == q {
		delete(l.queues, key)
	}
}

// grant gives the lease of a new hold to the first waiter, and a share of the hold to all that join it. The lease may have ended by
// now, and then nothing is to come that would let the next waiter go on.
func (l *Locker) grant(q *waitQueue, lease *Lease) {
	h := lease.hold
	first := q.first()
	first.lease = lease
	q.holder = nil
	q.waiters = slices.DeleteFunc(q.waiters, func(w *waiter) bool {
		if w != first && l.joinable(w.request) == h {
			w.lease = l.share(h, w.request)
		}
		if w.lease != nil {
			w.waits = false
			w.tell()
		}
		return w.lease != nil
	})
	if next := q.first(); next != nil && lease.why() == nil && (h.kind.exclusive() || next.request.kind() != h.kind) {
		q.after = h
	}
	q.tell()
	l.tidy(h.key, q)
}

// firstAwaiting returns the first queue that still waits for the end of one of holds, or nil.
func (l *Locker) firstAwaiting(holds []*hold) *waitQueue {
	for _, h := range holds {
		if q := l.awaiting(h); q != nil {
			return q
		}
	}
	return nil
}

// awaiting returns the queue whose first waiter waits for the end of h, or nil.
func (l *Locker) awaiting(h *hold) *waitQueue {
	if q := l.queues[h.key]; q != nil && q.after == h {
		return q
	}
	return nil
}

// resume lets the first waiter ask, once the hold that it waited for has ended.
func (l *Locker) resume(h *hold) {
	if q := l.awaiting(h); q != nil {
		q.after = nil
		q.tell()
	}
}

// restart makes the waiters of all queues ask on the next session: their places ended with this one.
func (l *Locker) restart() {
	for key, q := range l.queues {
		q.place, q.after = nil, nil
		q.tell()
		l.tidy(key, q)
	}
}

// giveUp abandons the place of a queue, in the background.
func (l *Locker) giveUp(key string, q *waitQueue) {
	p := q.place
	q.place = nil
	if !p.session.ended {
		l.abandon(p.session, p.id, key)
	}
}
