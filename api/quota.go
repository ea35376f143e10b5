package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The memory for requests is bounded, in total and per party: a token, or an address without access control. A request
// beyond it waits for a second and is then refused: nothing was done, so it can be repeated.
const (
	maxReads     = 64 // answers that are made, or not taken yet
	maxReadsEach = 16
	firstReads   = 8

	maxBodies     = 32 << 20 // bytes of bodies that have arrived, or are worked on
	maxBodiesEach = 16 << 20
	firstBodies   = 1 << 20
	bodyStep      = 64 << 10 // that a body has at first, at most

	maxStreams     = 100
	maxStreamsEach = 30
	firstStreams   = 10

	maxScrapes     = 8 // that are gathered
	maxScrapesEach = 2

	quotaPatience = time.Second
)

// quota is an amount for all, an amount for each party, and a reserve for parties that have nothing. The zero quota is
// empty.
//
//  1. take what is asked for, if all and the party have as much left
//  2. else wait until something is given back, and try again
//  3. refuse when patience is over
type quota struct {
	whole, each, firsts int64

	mu    sync.Mutex
	taken int64
	by    counts[string] // of parties
	freed chan struct{}  // closed when something is given back; nil: no request waits
}

// take takes n, and waits for room up to patience. full reports that a bound was reached; all, that it was the total.
// give gives n back.
func (q *quota) take(ctx context.Context, party string, n int64, patience time.Duration) (give func(), all, ok bool) {
	var over <-chan time.Time
	for {
		q.mu.Lock()
		all = q.by[party]+n <= q.each
		whole := q.whole
		if q.by[party] == 0 {
			whole += q.firsts
		}
		if all && q.taken+n <= whole {
			if q.by == nil {
				q.by = counts[string]{}
			}
			q.taken += n
			q.by.add(party, n)
			q.mu.Unlock()
			return sync.OnceFunc(func() { q.give(party, n) }), false, true
		}
		if q.freed == nil {
			q.freed = make(chan struct{})
		}
		freed := q.freed
		q.mu.Unlock()
		if over == nil {
			over = time.After(patience)
		}
		select {
		case <-freed:
		case <-over:
			return nil, all, false
		case <-ctx.Done():
			return nil, all, false
		}
	}
}

func (q *quota) give(party string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken -= n
	q.by.add(party, -n)
	if q.freed != nil {
		close(q.freed)
		q.freed = nil
	}
}

// party is the token of a request, or its address without access control.
func (s *server) party(r *http.Request) string {
	who := callerOf(r)
	if s.access != nil {
		return "token " + who.Name
	}
	return "address " + bucketOf(who.from).String()
}

// busy refuses a request for lack of room. Nothing was done.
func busy(w http.ResponseWriter, after time.Duration, all bool, what string, most, each any) error {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(after.Seconds()))))
	message := fmt.Sprintf("%v %s are the most for one token, or one address without tokens, and as much is under way for yours: take the answers that you asked for, and ask again", each, what)
	if all {
		message = fmt.Sprintf("%v %s are the most at once for all, and as much is under way: ask again", most, what)
	}
	return newProblem(http.StatusTooManyRequests, "busy", message)
}

// room holds a place for a request until it ends: a read for its response, a write for its body.
func (s *server) room(w http.ResponseWriter, r *http.Request, path string) (give func(), err error) {
	switch {
	case isWrite(r):
		b := &body{ReadCloser: r.Body, server: s, request: r, w: w, party: s.party(r), most: bodyOf(r, path)}
		if err := b.grow(min(b.most, bodyStep)); err != nil {
			return nil, err
		}
		r.Body = b
		return b.give, nil
	case path == "/api/v1/events", path == "/api/v1/tasks/{id}/logs" && r.URL.Query().Has("follow"): // they have places of their own
		return func() {}, nil
	}
	give, all, ok := s.reads.take(r.Context(), s.party(r), 1, quotaPatience)
	if !ok {
		return nil, busy(w, quotaPatience, all, "reads", maxReads, maxReadsEach)
	}
	return give, nil
}

// body takes room as it arrives, doubling each time, until the request ends.
type body struct {
	io.ReadCloser
	server      *server
	request     *http.Request // as it came
	w           http.ResponseWriter
	party       string
	most        int64 // that it may take
	taken, come int64
}

// grow takes room for n bytes more.
func (b *body) grow(n int64) error {
	_, all, ok := b.server.bodies.take(b.request.Context(), b.party, n, quotaPatience)
	if !ok {
		return busy(b.w, quotaPatience, all, "bytes of bodies", maxBodies, maxBodiesEach)
	}
	b.taken += n
	return nil
}

// Read reads within the room. The error may be that of busy.
func (b *body) Read(p []byte) (int, error) {
	if more := min(b.taken, b.most-b.taken); b.come >= b.taken && more > 0 {
		if err := b.grow(more); err != nil {
			return 0, err
		}
	}
	if room := b.taken - b.come; room > 0 { // else it is at its most, and its reader says so
		p = p[:min(int64(len(p)), room)]
	}
	n, err := b.ReadCloser.Read(p)
	b.come += int64(n)
	return n, err
}

func (b *body) give() { b.server.bodies.give(b.party, b.taken) }

// bodyOf is the size reserved for a body, at least 4 KiB: its declared length, or the maximum of its path.
func bodyOf(r *http.Request, path string) int64 {
	most := int64(maxBody)
	if strings.HasSuffix(path, "/tasks") {
		most = maxListBody
	}
	if r.ContentLength < 0 {
		return most
	}
	return min(max(r.ContentLength, 4<<10), most)
}

// counts is a number per key; keys at zero are removed.
type counts[K comparable] map[K]int64

// add adds n, which may be negative, to a key.
func (c counts[K]) add(key K, n int64) {
	if c[key] += n; c[key] == 0 {
		delete(c, key)
	}
}
