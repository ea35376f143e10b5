package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
)

// Options of the API. The zero value works.
type Options struct {
	Hosts  []string     // further names and addresses (without port) that requests may be addressed to
	Logger *slog.Logger // gets errors that answer 500, and counts of refused tokens; default: none

	// Access identifies tokens. Default: no authentication.
	Access Access

	// TrustedProxies are addresses whose X-Forwarded-For names the client. Default: none.
	TrustedProxies []netip.Prefix

	// Conditions of /readyz besides those of the replica. It is called for each request.
	Conditions func() []wire.Condition

	// Metrics serves GET /metrics, for the role Viewer. Default: no such path.
	Metrics http.Handler

	// Page serves GET /, /dead-letters, /jobs/{name} and /static/{file} without authentication: it must hold no data. It sets its own
	// Content-Security-Policy, since the API's forbids everything. Default: no such paths.
	Page http.Handler
}

// Handler is the API.
type Handler struct {
	http.Handler
	server     *server
	incomplete error // of what New was given
}

// Flush writes counted refusals to the audit. That happens within half a minute by itself; a program that ends calls
// Flush after serving, before it closes the store. Entries that cannot be written are logged.
func (h *Handler) Flush(ctx context.Context) {
	left, err := h.server.refused.close()
	for _, e := range left {
		h.server.unaudited(ctx, e, err)
	}
}

// New returns the API over b. It sees full paths: a program that mounts it below a path strips that path. If b is
// incomplete, every request is answered with an error, the log has it at once, and [Serve] returns it.
func New(b Backend, o Options) *Handler {
	s := newAPI(b, o)
	if s.store == nil {
		err := errors.New("api: New: Backend.Store is nil")
		s.log.Error("API backend incomplete", "error", err)
		return &Handler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.refuse(w, r, newProblem(http.StatusInternalServerError, "incomplete", err.Error()))
		}), server: s, incomplete: err}
	}
	return &Handler{Handler: s.handler(o.Hosts), server: s}
}

func newAPI(b Backend, o Options) *server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if nilcheck.IsNil(b.Replica) {
		b.Replica = noReplica{}
	}
	var sides ledger.Sides
	if !nilcheck.IsNil(b.Store) {
		sides = b.Store.Sides()
	}
	s := &server{
		store: sides.API, Replica: b.Replica, Locks: b.Locks, Reload: b.Reload, log: o.Logger, access: o.Access, proxies: o.TrustedProxies, conditions: o.Conditions,
		metrics: o.Metrics, page: o.Page, patience: streamPatience,
	}
	if b.Audit {
		s.audit = sides.Audit
	}
	s.refused.write = s.record
	s.reads = quota{whole: maxReads, each: maxReadsEach, firsts: firstReads}
	s.bodies = quota{whole: maxBodies, each: maxBodiesEach, firsts: firstBodies}
	s.streams = quota{whole: maxStreams, each: maxStreamsEach, firsts: firstStreams}
	s.follows = quota{whole: maxFollows, each: maxFollowsEach, firsts: firstFollows}
	s.claims = quota{whole: maxClaims, each: maxClaimsEach, firsts: firstClaims}
	s.scrapes = quota{whole: maxScrapes, each: maxScrapesEach}
	s.watch = newWatch(s.overview, explain, s.storeUp)
	return s
}

func (s *server) handler(hosts []string) http.Handler {
	origin := http.NewCrossOriginProtection() // lets all reads pass
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, errCrossOrigin)
	}))
	return secure(s.boundAnonymous(s.knownHosts(hosts, origin.Handler(s.ownReads(http.HandlerFunc(s.route))))))
}

type server struct {
	store         ledger.API
	audit         ledger.Audit // nil: writes are not audited
	Replica       Replica
	Locks         Locks
	Reload        func(ctx context.Context, activate bool) (wire.Reloaded, error) // nil: there is nothing to load again
	log           *slog.Logger
	access        Access // nil: every client may do everything
	logins        logins
	proxies       []netip.Prefix
	conditions    func() []wire.Condition // may be nil
	metrics, page http.Handler            // nil: their paths are not served
	watch         *watch
	reads, bodies quota
	streams       quota
	scrapes       quota
	claims        quota
	follows       quota
	anonymous     anonymousRequests
	refused       refused
	patience      time.Duration // for a client to take an event
}

// secure adds the headers that restrict what a browser does with a response.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// knownHosts refuses requests with a foreign Host. An address is accepted if it is the connection's own: only names can
// be pointed elsewhere (DNS rebinding).
func (s *server) knownHosts(more []string, next http.Handler) http.Handler {
	names := []string{"localhost"}
	for _, name := range more {
		names = append(names, hostname(name))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		ip, err := netip.ParseAddr(host)
		if r.Host == "" && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz") {
			next.ServeHTTP(w, r) // load balancers may probe with HTTP/1.0, which has no Host; browsers cannot
			return
		}
		if err == nil && (ip.IsLoopback() || ip.Unmap() == arrivedAt(r)) || slices.Contains(names, host) {
			next.ServeHTTP(w, r)
			return
		}
		s.refuse(w, r, newProblem(http.StatusForbidden, "foreign_host", "the host "+quote(r.Host)+" is not allowed; add it to server.hosts of the file, or Options.Hosts of the program"))
	})
}

// hostname is hostport without port, brackets, final dot and upper case.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func arrivedAt(r *http.Request) netip.Addr {
	if tcp, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

var errCrossOrigin = newProblem(http.StatusForbidden, "cross_origin", "the request comes from a page of another origin")

// ownReads refuses requests that a browser sends for a page of another site. That page could not read the response, but
// could use up its user's quota.
func (s *server) ownReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics"
		if data && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			s.refuse(w, r, errCrossOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}
