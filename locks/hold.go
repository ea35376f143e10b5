package locks

import (
	"fmt"
	"time"
)

// hold is one grant of the service, with all leases that share it. Guarded by the Locker's mu.
type hold struct {
	key     string
	kind    kind
	token   Token
	owner   string // of the Request
	meta    string
	session *session
	leases  []*Lease // not released yet
	first   Lease
	only    [1]*Lease // the leases, while there is one
	doubted string    // the acquisition, if a request for it had no answer and may still arrive
	next    *hold     // another one of the key
	ended   error     // why it ended before it was released
	since   time.Time
}

// obtain makes the hold of a grant. Those that exclude it were evicted before it was granted. It returns nil if one of
// them is later: then this grant was evicted before its answer came. With mu held.
func (l *Locker) obtain(s *session, r Request, token Token) *hold {
	k := r.kind()
	for h := l.holds[r.Key]; h != nil; h = h.next {
		switch {
		case h.kind == k && !k.exclusive():
		case h.token >= token:
			return nil
		default:
			l.force(h)
		}
	}
	h := &hold{key: r.Key, kind: k, token: token, owner: r.Owner, meta: r.Meta, session: s, next: l.holds[r.Key], since: time.Now()}
	l.opt.Observer.Held(l.backend)
	l.holds[r.Key] = h
	if q := l.queues[r.Key]; q != nil && r.Owner != "" {
		for _, w := range q.waiters { // it may join
			w.tell()
		}
	}
	return h
}

// find returns the hold of a key under a token, or nil. With mu held.
func (l *Locker) find(key string, token Token) *hold {
	h := l.holds[key]
	for h != nil && h.token != token {
		h = h.next
	}
	return h
}

// forget takes out a hold that was released or evicted: from now on a delayed request for it must not be granted. With mu held.
func (l *Locker) forget(h *hold) {
	if h.doubted != "" {
		l.abandon(h.session, h.doubted, h.key)
	}
	first := l.holds[h.key]
	switch {
	case first != h:
		for first != nil && first.next != h {
			first = first.next
		}
		if first != nil {
			first.next = h.next
		}
	case h.next == nil:
		delete(l.holds, h.key)
	default:
		l.holds[h.key] = h.next
	}
}

// force ends a hold that was evicted. With mu held.
func (l *Locker) force(h *hold) {
	l.forget(h)
	cause := fmt.Errorf("%w: %s", ErrForced, h.key)
	l.opt.Observer.Lost(l.backend, 1, cause)
	l.freed(h)
	h.finish(cause)
	l.resume(h)
}

// freed tells the observer of the end of a hold.
func (l *Locker) freed(h *hold) { l.opt.Observer.Freed(l.backend, time.Since(h.since)) }

// finish ends the hold and all its leases.
func (h *hold) finish(cause error) {
	h.ended = cause
	for _, lease := range h.leases {
		lease.end(cause)
	}
}

// excluding returns a hold of this Locker that the request has to wait for, or nil. With mu held.
func (l *Locker) excluding(r Request) *hold {
	for h := l.holds[r.Key]; h != nil; h = h.next {
		if h.kind.exclusive() || h.kind != r.kind() {
			return h
		}
	}
	return nil
}

// joinable returns the hold that the request joins, or nil. With mu held.
func (l *Locker) joinable(r Request) *hold {
	if r.Owner == "" {
		return nil
	}
	for h := l.holds[r.Key]; h != nil; h = h.next {
		if h.owner == r.Owner && h.kind == r.kind() && l.left(h.session) > 0 {
			return h
		}
	}
	return nil
}

// join returns a Lease that shares the hold that the request joins, or nil. With mu held.
func (l *Locker) join(r Request) *Lease {
	if h := l.joinable(r); h != nil {
		return l.share(h, r)
	}
	return nil
}
