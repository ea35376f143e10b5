package api

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxVisits is how many requests without a good token are under way at once.
	maxVisits = 256
	// visitTime is for a client without a token to take an answer.
	visitTime = 5 * time.Second
)

// visits bounds the requests that have shown no good token, which anyone can send: of what the page is made, of
// health, and what is refused. Where there are too many, the connection with the most of them goes for the new one, the one
// that is there longest of several, and one that has shown a token only where there is no other. A request of that
// connection itself is refused, and so is one where the server's connections are not known.
//
// The zero visits is ready.
type visits struct {
	mu  sync.Mutex
	of  counts[any] // of a connection, or an address where the connection is not known
	all int64
}

// enter counts a request. leave takes it back.
func (v *visits) enter(r *http.Request, from netip.Addr) (leave func(), ok bool) {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	var key any = bucketOf(from)
	if c != nil {
		key = c
	}
	v.mu.Lock()
	var victim *connection
	if v.all >= maxVisits {
		most := v.most()
		if most == nil || most == c {
			v.mu.Unlock()
			return nil, false
		}
		victim = most
		v.all -= v.of[victim]
		delete(v.of, victim)
	}
	if v.of == nil {
		v.of = counts[any]{}
	}
	v.of.add(key, 1)
	v.all++
	v.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
		victim.of.note("a connection was closed: too many requests without a token are under way", "from", victim.RemoteAddr().String())
	}
	return sync.OnceFunc(func() { v.leave(key) }), true
}

// most is the connection that goes; nil if there is none. The caller holds v.mu.
func (v *visits) most() (most *connection) {
	var n int64
	var known bool
	for key, count := range v.of {
		c, ok := key.(*connection)
		if !ok {
			continue
		}
		has := c.isKnown()
		switch {
		case most == nil, known && !has:
		case has && !known, count < n, count == n && !c.since.Before(most.since):
			continue
		}
		most, n, known = c, count, has
	}
	return most
}

func (v *visits) leave(key any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of[key] == 0 { // its connection had to go
		return
	}
	v.all--
	v.of.add(key, -1)
}

type visitKey struct{}

// visit counts a request as one of visits until it shows a good token, or is answered.
func (s *server) visit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := s.visits.enter(r, s.remote(r))
		if !ok {
			tooMany(w, r)
			return
		}
		defer leave()
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			unread(w, r)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, leave)))
		taken(w, r)
	})
}

// taken waits until the client has taken the answer, or time is over. With HTTP/2 a short one is sent only after its
// handler has returned, and would count for nobody.
func taken(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor >= 2 {
		_ = http.NewResponseController(w).Flush() // a client that has gone needs no answer
	}
}

// identified ends the visit of a request that has shown a good token, and makes its connection no stranger's.
func identified(ctx context.Context, party string) {
	if leave, ok := ctx.Value(visitKey{}).(func()); ok {
		leave()
	}
	welcome(ctx, party)
}

// soon ends an answer that the client does not take. It does so where the server sets a deadline for each answer.
func soon(w http.ResponseWriter, r *http.Request) {
	if _, own := r.Context().Value(connectionKey{}).(*connection); own || r.ProtoMajor >= 2 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(visitTime))
	}
}

// tooMany refuses a request in so few bytes that no client holds up the answer.
func tooMany(w http.ResponseWriter, r *http.Request) {
	unread(w, r)
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusTooManyRequests)
}
