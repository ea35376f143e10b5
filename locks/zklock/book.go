package zklock

import (
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/refusals"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// holding is what an acquisition of this session has of a key.
//
//	fresh ──▶ unsure: asked, no answer yet ──▶ held, or waiting ──▶ held ──▶ dropped: released, abandoned, or gone
type holding struct {
	driver.Place
	kind kind

	mu      sync.Mutex // held during its requests
	state   state
	meta    string
	id      string       // of its nodes, unique for ever
	node    string       // that of its place, or of its holding, if others may hold the key beside it
	token   driver.Token // 0 unless it is held
	version int32        // of the key's container, if it is held alone
	next    string       // the place behind it when it last read the queue
	blocker string       // the node that it waits for
	watch   <-chan zk.Event
	dropped chan struct{}
}

type state int

const (
	fresh state = iota
	unsure
	waiting
	held
)

// book has the holdings of a session. Only this process acts in the session, so it knows them all.
type book struct {
	mu        sync.Mutex
	holdings  map[driver.Place]*holding
	held      map[driver.Held]*holding
	queues    map[string]struct{} // keys that had a queue when they were last asked for: a guess
	abandoned refusals.List       // acquisitions
	made      int64               // ids so far
}

func newBook() book {
	return book{
		holdings: map[driver.Place]*holding{}, held: map[driver.Held]*holding{},
		queues: map[string]struct{}{},
	}
}

// claim returns the holding of an acquisition, locked.
func (s *session) claim(acquisition string, w driver.Want) (*holding, error) {
	for {
		h, err := s.entry(acquisition, w)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		if !h.isDropped() {
			return h, nil
		}
		h.mu.Unlock()
	}
}

// entry returns the holding of an acquisition, and begins one unless it was abandoned.
func (s *session) entry(acquisition string, w driver.Want) (*holding, error) {
	b := &s.book
	b.mu.Lock()
	defer b.mu.Unlock()
	p := driver.Place{Acquisition: acquisition, Key: w.Key}
	h := b.holdings[p]
	if h == nil {
		if b.abandoned.Has(acquisition) {
			return nil, driver.ErrAbandoned
		}
		h = &holding{Place: p, kind: kindOf(w), id: s.nextID(), meta: w.Meta, dropped: make(chan struct{})}
		b.holdings[p] = h
	}
	return h, nil
}

// nextID makes the id of the nodes of one attempt. With mu of the book held.
func (s *session) nextID() string {
	s.book.made++
	return fmt.Sprintf("%s-%d", s.ID(), s.book.made)
}

// find returns the holding of a place, or of what is held, locked; nil if there is none.
func (s *session) find(p driver.Place) *holding {
	s.book.mu.Lock()
	h := s.book.holdings[p]
	s.book.mu.Unlock()
	return h.locked()
}

func (s *session) findHeld(held driver.Held) *holding {
	s.book.mu.Lock()
	h := s.book.held[held]
	s.book.mu.Unlock()
	if h = h.locked(); h != nil && h.token != held.Token {
		h.mu.Unlock()
		return nil
	}
	return h
}

func (h *holding) locked() *holding {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	if h.isDropped() {
		h.mu.Unlock()
		return nil
	}
	return h
}

func (h *holding) isDropped() bool {
	select {
	case <-h.dropped:
		return true
	default:
		return false
	}
}

// won enters a grant.
func (s *session) won(h *holding, zxid int64, version int32) driver.Result {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	h.state, h.token, h.version = held, driver.Token(zxid), version
	h.watch, h.blocker = nil, ""
	s.book.held[driver.Held{Key: h.Key, Token: h.token}] = h
	return driver.Result{Token: h.token}
}

// lost enters that a holding is gone, and that it may ask anew.
func (s *session) lost(h *holding) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	delete(s.book.held, driver.Held{Key: h.Key, Token: h.token})
	h.state, h.token, h.node, h.next, h.watch, h.blocker, h.id = fresh, 0, "", "", nil, "", s.nextID()
}

// drop ends a holding. With its mu held.
func (s *session) drop(h *holding) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	if h.isDropped() {
		return
	}
	delete(s.book.held, driver.Held{Key: h.Key, Token: h.token})
	delete(s.book.holdings, h.Place)
	close(h.dropped)
}

// guessed is how many keys are remembered for their queues.
const guessed = 1024

// queued says whether a key has a queue.
func (b *book) queued(key string, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !has {
		delete(b.queues, key)
		return
	}
	if len(b.queues) >= guessed {
		clear(b.queues)
	}
	b.queues[key] = struct{}{}
}

// guess reports whether a key may have a queue.
func (b *book) guess(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, has := b.queues[key]
	return has
}

// refuse has the session ask for nothing more under an acquisition, for one ttl.
func (s *session) refuse(acquisition string) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.book.abandoned.Add(acquisition, s.ttl)
}

// record is what the node of a holding says.
func (s *session) record(h *holding) []byte { return record{h.id, s.owner, h.meta, s.ttl}.bytes() }
