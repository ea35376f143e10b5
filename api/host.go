package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

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
