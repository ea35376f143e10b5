package api

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxAnonymous is how many requests without a good token are under way at once.
	maxAnonymous = 256
	// anonymousTime is the time for a client without a token to receive a response.
	anonymousTime = 5 * time.Second
)

// anonymousRequests bounds requests without a good token: for the page's files, for health, and those that are refused.
// If there are too many, the connection with the most of them is evicted (the oldest of several; an authenticated one
// only if there is no other). A new request of that connection itself is refused, and so is one whose connection is
// unknown.
//
// The zero value is ready.
type anonymousRequests struct {
	mu  sync.Mutex
	of  counts[any] // of a connection, or an address where the connection is not known
	all int64
}

// enter counts a request until leave.
func (v *anonymousRequests) enter(r *http.Request, from netip.Addr) (leave func(), ok bool) {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	var key any = bucketOf(from)
	if c != nil {
		key = c
	}
	v.mu.Lock()
	var evicted *connection
	if v.all >= maxAnonymous {
		most := v.most()
		if most == nil || most == c {
			v.mu.Unlock()
			return nil, false
		}
		evicted = most
		v.all -= v.of[evicted]
		delete(v.of, evicted)
	}
	if v.of == nil {
		v.of = counts[any]{}
	}
	v.of.add(key, 1)
	v.all++
	v.mu.Unlock()
	if evicted != nil {
		_ = evicted.Close()
		evicted.of.note("connection evicted: too many requests without a token are under way", "from", evicted.RemoteAddr().String())
	}
	return sync.OnceFunc(func() { v.leave(key) }), true
}

// most is the connection to evict; nil if there is none. The caller holds v.mu.
func (v *anonymousRequests) most() (most *connection) {
	for key := range v.of {
		if c, ok := key.(*connection); ok && (most == nil || v.before(c, most)) {
			most = c
		}
	}
	return most
}

// before reports whether a is evicted before b.
func (v *anonymousRequests) before(a, b *connection) bool {
	if known := b.isAuthenticated(); a.isAuthenticated() != known {
		return known
	}
	if more := v.of[a] - v.of[b]; more != 0 {
		return more > 0
	}
	return a.since.Before(b.since)
}

func (v *anonymousRequests) leave(key any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of[key] == 0 { // its connection was evicted
		return
	}
	v.all--
	v.of.add(key, -1)
}

type anonymousKey struct{}

// boundAnonymous counts a request as anonymous until it presents a good token or ends.
func (s *server) boundAnonymous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := s.anonymous.enter(r, s.remote(r))
		if !ok {
			tooMany(w, r)
			return
		}
		defer leave()
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			unread(w, r)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), anonymousKey{}, leave)))
		taken(w, r)
	})
}

// taken waits until the client has received the response, or time is over. With HTTP/2 a short one is sent after its
// handler has returned, when it is no longer counted.
func taken(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor >= 2 {
		_ = http.NewResponseController(w).Flush() // a client that has gone needs no answer
	}
}

// identified stops counting a request with a good token, and marks its connection as authenticated.
func identified(ctx context.Context, party string) {
	if leave, ok := ctx.Value(anonymousKey{}).(func()); ok {
		leave()
	}
	authenticate(ctx, party)
}

// soon sets a short write deadline, if the server sets one for each response.
func soon(w http.ResponseWriter, r *http.Request) {
	if _, own := r.Context().Value(connectionKey{}).(*connection); own || r.ProtoMajor >= 2 {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(anonymousTime))
	}
}

// tooMany refuses a request in so few bytes that no client can block it.
func tooMany(w http.ResponseWriter, r *http.Request) {
	unread(w, r)
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusTooManyRequests)
}
