package locks

import (
	"fmt"
	"slices"
)

// hold is one grant of the service, with all leases that share it. Guarded by the Locker's mu.
type hold struct {
	key     string
	kind    kind
	token   Token
	owner   string // of the Request
	session *session
	leases  map[*Lease]struct{} // not released yet
	doubted string              // the acquisition, if a request for it had no answer and may still arrive
	ended   error               // why it ended before it was released
}

// obtain makes the hold of a grant. Those that exclude it were evicted before it was granted. It returns nil if one of
// them is later: then this grant was evicted before its answer came. With mu held.
func (l *Locker) obtain(s *session, r Request, token Token) *hold {
	k := r.kind()
	for _, h := range slices.Clone(l.holds[r.Key]) {
		switch {
		case h.kind == k && !k.alone():
		case h.token >= token:
			return nil
		default:
			l.force(h)
		}
	}
	h := &hold{key: r.Key, kind: k, token: token, owner: r.Owner, session: s, leases: map[*Lease]struct{}{}}
	l.holds[r.Key] = append(l.holds[r.Key], h)
	return h
}

// find returns the hold of a key under a token, or nil. With mu held.
func (l *Locker) find(key string, token Token) *hold {
	for _, h := range l.holds[key] {
		if h.token == token {
			return h
		}
	}
	return nil
}

// forget takes out a hold that was released or evicted. With mu held.
func (l *Locker) forget(h *hold) {
	rest := slices.DeleteFunc(l.holds[h.key], func(other *hold) bool { return other == h })
	if len(rest) == 0 {
		delete(l.holds, h.key)
	} else {
		l.holds[h.key] = rest
	}
}

// force ends a hold that was evicted. With mu held.
func (l *Locker) force(h *hold) {
	l.forget(h)
	cause := fmt.Errorf("%w: %s", ErrForced, h.key)
	l.opt.Observer.Lost(l.backend, 1, cause)
	h.finish(cause)
	l.resume(h)
}

// finish ends the hold and all its leases.
func (h *hold) finish(cause error) {
	h.ended = cause
	for lease := range h.leases {
		lease.cancel(cause)
	}
}

// excluding returns a hold of this Locker that the request has to wait for, or nil. With mu held.
func (l *Locker) excluding(r Request) *hold {
	for _, h := range l.holds[r.Key] {
		if h.kind.alone() || h.kind != r.kind() {
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
	for _, h := range l.holds[r.Key] {
		if h.owner == r.Owner && h.kind == r.kind() && l.left(h.session) > 0 {
			return h
		}
	}
	return nil
}

// join returns a Lease that shares the hold that the request joins, or nil. With mu held.
func (l *Locker) join(r Request) *Lease {
	if h := l.joinable(r); h != nil {
		return l.share(h)
	}
	return nil
}
