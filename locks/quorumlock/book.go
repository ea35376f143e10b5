package quorumlock

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// ballot names a vote, and the holding that it may become.
type ballot struct {
	key, kind string
	number    int64 // of the session: one for each attempt
}

// The kinds: see holders in namespace.lua.
const (
	aloneKind  = "x"
	sharedKind = "s"
)

func kindOf(w driver.Want) string {
	if w.Shared {
		return sharedKind
	}
	return aloneKind
}

// candidacy is an attempt without an outcome: a majority may have voted for it, or may still do.
type candidacy struct {
	ballot
	doubt mask // the servers that did not answer at some time
}

// holding is what was granted.
type holding struct {
	candidacy
	acquisition string
	token       driver.Token
	on          mask   // the servers that have confirmed it, as long as the session is installed there
	value       string // as servers keep it
	freeing     int    // releases that were sent, or are about to be: it counts no more
}

// request is what one acquisition asks of a key.
type request struct{ acquisition, key string }

// book has what the session holds and what it may hold. Guarded by the session's mu.
type book struct {
	last      int64 // ballot
	granted   map[request]*holding
	under     map[driver.Held]*holding
	unclear   map[request]candidacy
	asking    map[string]chan struct{} // keys that a call asks for
	contended map[string]time.Time     // keys that others wanted, too, and when
	abandoned map[string]time.Time     // acquisitions, and when
	evicted   bool                     // a key may be gone: until the next Check
}

func newBook() book {
	return book{
		granted: map[request]*holding{}, under: map[driver.Held]*holding{}, unclear: map[request]candidacy{},
		asking: map[string]chan struct{}{}, contended: map[string]time.Time{}, abandoned: map[string]time.Time{},
	}
}

// abandon has the session refuse an acquisition for one ttl.
func (b *book) abandon(acquisition string, ttl time.Duration) {
	for id := range b.abandoned {
		if !b.refuses(id, ttl) {
			delete(b.abandoned, id)
		}
	}
	b.abandoned[acquisition] = time.Now()
}

// refuses reports whether an acquisition was abandoned within the last ttl.
func (b *book) refuses(acquisition string, ttl time.Duration) bool {
	at, abandoned := b.abandoned[acquisition]
	return abandoned && time.Since(at) < ttl
}

// candidate returns the attempt of a request that has no outcome yet, or a new one.
func (b *book) candidate(acquisition string, w driver.Want) candidacy {
	if c, ok := b.unclear[request{acquisition, w.Key}]; ok && c.kind == kindOf(w) {
		return c
	}
	b.last++
	return candidacy{ballot: ballot{w.Key, kindOf(w), b.last}}
}

func (b *book) hold(h *holding) {
	delete(b.unclear, request{h.acquisition, h.key})
	b.granted[request{h.acquisition, h.key}] = h
	b.under[driver.Held{Key: h.key, Token: h.token}] = h
}

func (b *book) forget(h *holding) {
	if b.granted[request{h.acquisition, h.key}] == h {
		delete(b.granted, request{h.acquisition, h.key})
	}
	delete(b.under, driver.Held{Key: h.key, Token: h.token})
}

// line makes s fit into one field of a record.
func line(s string) string { return strings.ReplaceAll(s, "\n", " ") }

func valueOf(token driver.Token, since int64, owner, meta string) string {
	return fmt.Sprintf("%d\n%d\n%s\n%s", token, since, owner, meta)
}
