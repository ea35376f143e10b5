package httphandler

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var (
	methods      = []string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
	tokenPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	// ours are headers that belong to the task or to the connection.
	ours = []string{
		"Idempotency-Key", "Traceparent", "Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
)

// New returns a handler for r. All problems are reported at once, as [jobs.ErrInvalid].
//
// Refused here, or at the connection where the host is a name: link-local addresses (where clouds
// answer with credentials), other addresses of metadata services, multicast, unspecified and
// reserved ones, also as IPv6 addresses that gateways and tunnels make IPv4 of. Loopback and private
// addresses are fine.
func New(r Request) (*Handler, error) {
	var problems []error
	refuse := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: "+format, append([]any{jobs.ErrInvalid}, args...)...))
	}
	r.Method = strings.ToUpper(cmp.Or(r.Method, http.MethodPost))
	r.Timeout = cmp.Or(r.Timeout, DefaultTimeout)
	h := &Handler{request: r, header: http.Header{"User-Agent": {"lockstep"}}}
	if !slices.Contains(methods, r.Method) {
		refuse("the method %.20q is not one of %s", r.Method, strings.Join(methods, ", "))
	}
	var err error
	if h.url, err = parseURL(r.URL); err != nil {
		refuse("url: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if problem := checkHeader(name, r.Headers[name]); problem != "" {
			refuse("headers: %s", problem)
			continue
		}
		key := spelled(name)
		if h.header[key] != nil && key != "User-Agent" {
			refuse("headers: %s is given twice", key)
		}
		h.header[key] = []string{r.Headers[name]}
	}
	for _, status := range r.ExpectStatus {
		if status < 200 || status > 599 {
			refuse("expect_status: %d is out of range 200–599", status)
		}
	}
	if r.Timeout < 0 || r.Timeout > duration.Max {
		refuse("timeout: %v is out of range 0–1 year", r.Timeout)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	h.hidden = hide(h.url, r.SecretPath, r.Headers)
	if h.url.Scheme == "https" {
		_, _ = x509.SystemCertPool() // read once, for good: not when no descriptors may be left to read them
	}
	return h, nil
}

// parseURL never repeats what it was given: a URL may have a secret in it.
func parseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("it is missing; write it as in http://app.internal/mail")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it cannot be read; write it as in http://app.internal:8080/mail, with special characters as %XX")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the scheme %.20q is not http or https", u.Scheme)
	case u.User != nil:
		return nil, errors.New("a user or password in it would be logged everywhere; use the header Authorization")
	case u.Hostname() == "":
		return nil, errors.New("it has no host; write it as in http://app.internal/mail")
	case strings.HasSuffix(u.Host, ":"):
		return nil, errors.New("behind the : of the host a port is missing")
	}
	if text := u.Port(); text != "" {
		if port, err := strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return nil, fmt.Errorf("the port %.20s is out of range 1–65535", text)
		}
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		if why := forbidden(addr); why != "" {
			return nil, fmt.Errorf("the address %v is refused: %s", addr, why)
		}
	}
	return u, nil
}

// checkHeader never shows a value: it may be a secret.
func checkHeader(name, value string) string {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !tokenPattern.MatchString(name):
		return fmt.Sprintf("%.80q is not a name of a header", name)
	case slices.Contains(ours, canonical) || strings.HasPrefix(canonical, "Lockstep-"):
		return fmt.Sprintf("%s is set for each request; remove it", canonical)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Sprintf("the value of %s has a control character, as a line break", canonical)
	}
	return ""
}

// Describe names everything that New was given but the query, the fragment, the body and the values of
// headers; the path appears in full, unless it is secret.
func (h *Handler) Describe() string {
	described := h.spell()
	if len(h.request.Headers) > 0 {
		described += " with " + strings.Join(slices.Sorted(maps.Keys(h.request.Headers)), ", ")
	}
	return described
}

// Same reports whether the other handler sends the same request.
func (h *Handler) Same(other jobs.Handler) bool {
	as, is := other.(*Handler)
	return is && reflect.DeepEqual(h.request, as.request)
}

// Identity is the request with a digest of what Describe leaves out, see [jobs.Identified].
func (h *Handler) Identity() string {
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %q %q", h.url.RawQuery, h.request.Body, h.url.Fragment)
	if h.request.SecretPath {
		fmt.Fprintf(digest, " %q", h.url.EscapedPath())
	}
	for _, name := range slices.Sorted(maps.Keys(h.header)) {
		fmt.Fprintf(digest, " %q=%q", name, h.header[name])
	}
	return fmt.Sprintf("%s #%x", h.spell(), digest.Sum(nil)[:4])
}

// spell writes the request as one line.
func (h *Handler) spell() string {
	expect := "2xx"
	if len(h.request.ExpectStatus) > 0 {
		statuses := slices.Clone(h.request.ExpectStatus)
		slices.Sort(statuses)
		expect = strings.Trim(fmt.Sprint(slices.Compact(statuses)), "[]")
	}
	return fmt.Sprintf("%s expecting %s within %v", h, expect, h.request.Timeout)
}
