package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What is in memory for clients at once is bounded, for all and for each party: a token, or an address where access
// control is off. Whoever finds no room waits for a moment and is then refused: it has changed nothing, and may ask
// again.
const (
	maxReads     = 64 // answers that are made, or not taken yet
	maxReadsEach = 16

	maxBodies     = 32 << 20 // bytes of bodies that arrive, or are worked on
	maxBodiesEach = 16 << 20

	maxStreams     = 100
	maxStreamsEach = 30

	quotaPatience = time.Second
)

// quota is so much for all and so much for each party. The zero quota has nothing to give.
type quota struct {
	whole, each int64

	mu    sync.Mutex
	taken int64
	by    map[string]int64 // parties that have none are not kept
	freed chan struct{}    // closed when something is given back; nil: nobody waits
}

// take takes n, and waits for room as long as patience. full says whose bound is reached if there is none: all is
// true for that of all parties. give gives n back.
func (q *quota) take(ctx context.Context, party string, n int64, patience time.Duration) (give func(), all, ok bool) {
	var over <-chan time.Time
	for {
		q.mu.Lock()
		all = q.by[party]+n <= q.each
		if all && q.taken+n <= q.whole {
			if q.by == nil {
				q.by = map[string]int64{}
			}
			q.taken += n
			q.by[party] += n
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
	if q.by[party] -= n; q.by[party] == 0 {
		delete(q.by, party)
	}
	if q.freed != nil {
		close(q.freed)
		q.freed = nil
	}
}

// party is who a request counts for.
func (s *server) party(r *http.Request) string {
	who := callerOf(r)
	if s.access != nil {
		return "token " + who.Name
	}
	return "address " + bucketOf(who.from).String()
}

// busy refuses a request that has found no room. It has changed nothing.
func busy(w http.ResponseWriter, after time.Duration, all bool, what string, most, each any) error {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(after.Seconds()))))
	message := fmt.Sprintf("%v %s are the most for one token, or one address without tokens, and as much is under way for yours: take the answers that you asked for, and ask again", each, what)
	if all {
		message = fmt.Sprintf("%v %s are the most at once for all, and as much is under way: ask again", most, what)
	}
	return &problem{status: http.StatusTooManyRequests, code: "busy", message: message}
}

// room holds a place for a request until it is answered: a read for its answer, a write for its body.
func (s *server) room(w http.ResponseWriter, r *http.Request, path string) (give func(), err error) {
	switch {
	case r.Method == http.MethodPost:
		give, all, ok := s.bodies.take(r.Context(), s.party(r), bodyOf(r, path), quotaPatience)
		if !ok {
			return nil, busy(w, quotaPatience, all, "bytes of bodies", maxBodies, maxBodiesEach)
		}
		return give, nil
	case path == "/api/v1/events" || path == "/metrics": // one has places of its own, the other reads nothing
		return func() {}, nil
	}
	give, all, ok := s.reads.take(r.Context(), s.party(r), 1, quotaPatience)
	if !ok {
		return nil, busy(w, quotaPatience, all, "reads", maxReads, maxReadsEach)
	}
	return give, nil
}

// bodyOf is how many bytes a body may take, 4 KiB at least: if the request does not say, the most that its path takes.
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
