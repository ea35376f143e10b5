package locks

import "slices"

// line has the waiters of this Locker for one key, in the order in which they came. They share one place in the queue of
// the service: the grant goes to the first of them. Guarded by the Locker's mu.
//
//	place, after   what comes next
//	nil    nil     the first waiter asks for a place
//	set    nil     its answer, or its grant; then the next waiter asks at once if it may hold the key too,
//	nil    set     else after the end of that hold: its release asks for a place behind those of others
type line struct {
	waiters []*waiter
	place   *place
	after   *hold
	holder  *Info // one that the place waits for, as last heard
}

// place is a request for the first waiter of a line.
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
	inLine  bool
	lease   *Lease        // once it was granted
	news    chan struct{} // holds one element once something has changed for it
}

func newWaiter(r Request) *waiter { return &waiter{request: r, news: make(chan struct{}, 1)} }

func (w *waiter) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// first is the waiter that is served next, or nil.
func (n *line) first() *waiter {
	if len(n.waiters) == 0 {
		return nil
	}
	return n.waiters[0]
}

// tell wakes the first waiter.
func (n *line) tell() {
	if w := n.first(); w != nil {
		w.tell()
	}
}

// due reports whether w is first and must ask the service.
func (n *line) due(w *waiter) bool {
	return n.first() == w && n.after == nil && (n.place == nil || n.place.state == unanswered)
}

// enter makes w the last waiter for its key, unless it is one. With mu held, as all below.
func (l *Locker) enter(w *waiter) *line {
	n := l.lines[w.request.Key]
	if n == nil {
		n = &line{}
		if !l.fifo { // no place to lose while this Locker has the key
			n.after = l.excluding(w.request)
		}
		l.lines[w.request.Key] = n
	}
	if !w.inLine {
		w.inLine = true
		n.waiters = append(n.waiters, w)
	}
	return n
}

// leave takes w out. The next waiter inherits its place if that is of its kind.
func (l *Locker) leave(w *waiter) {
	if !w.inLine {
		return
	}
	w.inLine = false
	key := w.request.Key
	n := l.lines[key]
	first := n.first() == w
	n.waiters = slices.DeleteFunc(n.waiters, func(other *waiter) bool { return other == w })
	if !first {
		return
	}
	switch p := n.place; {
	case p == nil || p.state == asking: // the answer will tell
	case !n.inherits():
		l.giveUp(key, n)
	case n.first().request.Meta != w.request.Meta:
		p.state = unanswered // asked again, with that
	}
	n.tell()
	l.tidy(key, n)
}

// inherits reports whether the first waiter is of the kind of the place.
func (n *line) inherits() bool {
	w := n.first()
	return w != nil && w.request.kind() == n.place.kind
}

// tidy forgets a line without waiters and without a call under way.
func (l *Locker) tidy(key string, n *line) {
	if len(n.waiters) == 0 && n.place == nil && l.lines[key] == n {
		delete(l.lines, key)
	}
}

// grant gives the lease of a new hold to the first waiter, and a share of the hold to all that join it.
func (l *Locker) grant(n *line, lease *Lease) {
	h := lease.hold
	first := n.first()
	first.lease = lease
	n.waiters = slices.DeleteFunc(n.waiters, func(w *waiter) bool {
		if w != first && l.joinable(w.request) == h {
			w.lease = l.share(h, w.request)
		}
		if w.lease != nil {
			w.inLine = false
			w.tell()
		}
		return w.lease != nil
	})
	if next := n.first(); next != nil && (h.kind.exclusive() || next.request.kind() != h.kind) {
		n.after = h
	}
	n.tell()
	l.tidy(h.key, n)
}

// awaiting returns the line whose first waiter waits for the end of h, or nil.
func (l *Locker) awaiting(h *hold) *line {
	if h == nil {
		return nil
	}
	if n := l.lines[h.key]; n != nil && n.after == h {
		return n
	}
	return nil
}

// resume lets the first waiter ask, once the hold that it waited for has ended.
func (l *Locker) resume(h *hold) {
	if n := l.awaiting(h); n != nil {
		n.after = nil
		n.tell()
	}
}

// restart makes all lines ask on the next session: their places ended with this one.
func (l *Locker) restart() {
	for key, n := range l.lines {
		n.place, n.after = nil, nil
		n.tell()
		l.tidy(key, n)
	}
}

// giveUp abandons the place of a line, in the background.
func (l *Locker) giveUp(key string, n *line) {
	p := n.place
	n.place = nil
	if !p.session.ended {
		l.abandon(p.session, p.id, key)
	}
}
