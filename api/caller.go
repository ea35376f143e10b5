package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
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
		if !among(s.proxies, from) {
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

// among reports whether an address is in one of the networks.
func among(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// identify returns the caller. Without access the error is 401, or 429 after too many bad tokens from one address.
func (s *server) identify(w http.ResponseWriter, r *http.Request) (caller, error) {
	who := caller{from: s.remote(r)}
	if s.access == nil {
		who.Role = Admin
		identified(r.Context(), "")
		return who, nil
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return who, unauthorized(w, `Bearer realm="lockstep"`, "a token is needed: Authorization: Bearer …")
	}
	secret, ok := bearer(given)
	if !ok {
		return who, unauthorized(w, `Bearer realm="lockstep", error="invalid_request"`, "the header must be one, as in Authorization: Bearer …")
	}
	var err error
	who.Identity, err = s.access.Identify(secret)
	switch {
	case err == nil:
		identified(r.Context(), who.Name)
		return who, nil
	case errors.Is(err, jobs.ErrUnavailable):
		return who, err
	}
	now := time.Now()
	wait, failures := s.logins.failed(who.from, now)
	if failures > 0 {
		s.log.WarnContext(r.Context(), "bad tokens refused", "count", failures, "last_from", who.from.String())
	}
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return who, newProblem(http.StatusTooManyRequests, "too_many_requests", "too many bad tokens from your address")
	}
	message := errUnknownToken.Error()
	if errors.Is(err, ErrExpired) {
		message = err.Error()
	}
	return who, unauthorized(w, `Bearer realm="lockstep", error="invalid_token"`, message)
}

var bearerToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

func bearer(given []string) (secret string, ok bool) {
	scheme, secret, _ := strings.Cut(given[0], " ")
	secret = strings.Trim(secret, " ")
	return secret, len(given) == 1 && strings.EqualFold(scheme, "Bearer") && bearerToken.MatchString(secret)
}

func unauthorized(w http.ResponseWriter, challenge, message string) error {
	w.Header().Set("WWW-Authenticate", challenge)
	return newProblem(http.StatusUnauthorized, "unauthorized", message)
}

func forbidden(have, need Role) error {
	return newProblem(http.StatusForbidden, "forbidden", fmt.Sprintf("this needs the role %s, and the token has the role %s", need, have))
}
