package quorumlock

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/refusals"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// ballot names a vote, and the holding that it may become.
type ballot struct {
	key, kind string
	number    int64 // of the session: one for each attempt
}

// attempt asks the servers for one key under one ballot.
type attempt struct {
	ballot
	inFlight mask // the servers where a request for it may still arrive
}

// holding is what was granted.
type holding struct {
	attempt
	acquisition string
	token       driver.Token
	on          mask   // the servers that have confirmed it, as long as the session is installed there
	value       string // as the servers store it
	freeing     int    // releases that were sent, or are about to be: while there are any, it does not count as held
}

// request is what one acquisition asks of a key.
type request struct{ acquisition, key string }

// book has what the session holds and what it may hold. Guarded by the session's mu.
type book struct {
	last      int64 // ballot
	granted   map[request]*holding
	under     map[driver.Held]*holding // the same holdings
	undecided map[request]attempt      // without an outcome: a majority may have voted for it, or may still do
	locked    map[string]chan struct{} // keys that a call asks for; closed when it is over
	contended map[string]time.Time     // keys that others wanted, too, and when
	abandoned refusals.List            // acquisitions
	evicted   bool                     // a key may be gone: until the next Check
}

func newBook() book {
	return book{
		granted: map[request]*holding{}, under: map[driver.Held]*holding{}, undecided: map[request]attempt{},
		locked: map[string]chan struct{}{}, contended: map[string]time.Time{},
	}
}

// attemptOf returns the undecided attempt of a request, or a new one.
func (b *book) attemptOf(acquisition string, w driver.Want) attempt {
	if a, ok := b.undecided[request{acquisition, w.Key}]; ok && a.kind == kindOf(w) {
		return a
	}
	b.last++
	return attempt{ballot: ballot{w.Key, kindOf(w), b.last}}
}

func (b *book) hold(h *holding) {
	delete(b.undecided, request{h.acquisition, h.key})
	b.granted[request{h.acquisition, h.key}] = h
	b.under[driver.Held{Key: h.key, Token: h.token}] = h
}

func (b *book) forget(h *holding) {
	if b.granted[request{h.acquisition, h.key}] == h {
		delete(b.granted, request{h.acquisition, h.key})
	}
	delete(b.under, driver.Held{Key: h.key, Token: h.token})
}
