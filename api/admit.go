package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

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
