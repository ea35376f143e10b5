package api

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
)

// caller is the identity behind a request, and its address.
type caller struct {
	Identity
	from netip.Addr // invalid: unknown
}

type callerKey struct{}

func withCaller(r *http.Request, c caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// by is the caller's name in tasks and rows.
func by(r *http.Request) string {
	c := callerOf(r)
	switch {
	case c.Name != "" && c.from.IsValid():
		return c.Name + "@" + c.from.String()
	case c.Name != "":
		return c.Name
	case c.from.IsValid():
		return "api:" + c.from.String()
	}
	return "api"
}

// printable is text with unprintable characters replaced, at most so many bytes.
func printable(s string, bytes int) string {
	return clip.Text(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s), bytes)
}

// remote is the client's address: the last one of X-Forwarded-For that is no trusted proxy.
func (s *server) remote(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	from := at.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !s.trusts(from) {
			break
		}
		before, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		from = before.Unmap()
	}
	return from.WithZone("")
}

func (s *server) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(s.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}
