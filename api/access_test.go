package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// bunch is one token of each role, and an expired one.
type tokenSet struct {
	*Tokens
	secrets map[Role]string
	expired string
}

func newTokenSet() tokenSet {
	b := tokenSet{secrets: map[Role]string{}}
	var list []Token
	for _, role := range Roles() {
		secret, token := NewToken("my-"+string(role), role, time.Now().Add(time.Hour))
		if role == Worker {
			token.Pools = []string{"mail"}
		}
		b.secrets[role], list = secret, append(list, token)
	}
	secret, token := NewToken("old", Admin, time.Now().Add(-time.Minute))
	b.expired, list = secret, append(list, token)
	b.Tokens = NewTokens(list...)
	return b
}

func with(secret string) func(*http.Request) { return header("Authorization", "Bearer "+secret) }

func from(addr string) func(*http.Request) { return func(r *http.Request) { r.RemoteAddr = addr } }

func filled(path string) string {
	return strings.NewReplacer("{name}", "report", "{id}", "task-1", "{session}", "session-1", "{file}", "page.css").Replace(path)
}

// expected is the role of every route. A new route must be added here.
var expected = map[string]Role{
	"GET /healthz":                       anyone,
	"GET /readyz":                        anyone,
	"GET /metrics":                       Viewer,
	"GET /":                              anyone,
	"GET /dead-letters":                  anyone,
	"GET /jobs/{name}":                   anyone,
	"GET /static/{file}":                 anyone,
	"GET /api/v1/jobs":                   Viewer,
	"GET /api/v1/jobs/{name}":            Viewer,
	"GET /api/v1/jobs/{name}/history":    Viewer,
	"GET /api/v1/jobs/{name}/why":        Viewer,
	"GET /api/v1/jobs/{name}/next":       Viewer,
	"GET /api/v1/jobs/{name}/triggers":   Viewer,
	"POST /api/v1/jobs/{name}/run":       Operator,
	"POST /api/v1/jobs/{name}/suspend":   Operator,
	"POST /api/v1/jobs/{name}/resume":    Operator,
	"GET /api/v1/next":                   Viewer,
	"GET /api/v1/triggers":               Viewer,
	"GET /api/v1/pools":                  Viewer,
	"POST /api/v1/pools/{name}/tasks":    Operator,
	"POST /api/v1/pools/{name}/pause":    Operator,
	"POST /api/v1/pools/{name}/resume":   Operator,
	"POST /api/v1/pools/{name}/limits":   Operator,
	"GET /api/v1/dead-letters":           Viewer,
	"GET /api/v1/tasks":                  Viewer,
	"GET /api/v1/tasks/{id}":             Viewer,
	"GET /api/v1/tasks/{id}/logs":        Viewer,
	"GET /api/v1/tasks/{id}/why":         Viewer,
	"PATCH /api/v1/tasks/{id}":           Operator,
	"POST /api/v1/tasks/retry":           Operator,
	"POST /api/v1/tasks/cancel":          Operator,
	"POST /api/v1/tasks/purge":           Admin,
	"POST /api/v1/tasks/{id}/cancel":     Operator,
	"POST /api/v1/tasks/{id}/retry":      Operator,
	"GET /api/v1/replicas":               Viewer,
	"GET /api/v1/locks":                  Viewer,
	"POST /api/v1/locks/release":         Admin,
	"POST /api/v1/reload":                Admin,
	"GET /api/v1/audit":                  Admin,
	"GET /api/v1/events":                 Viewer,
	"GET /api/v1/workers":                Viewer,
	"DELETE /api/v1/workers/{session}":   Worker,
	"POST /api/v1/pools/{name}/claim":    Worker,
	"POST /api/v1/tasks/{id}/heartbeat":  Worker,
	"POST /api/v1/tasks/{id}/complete":   Worker,
	"POST /api/v1/tasks/{id}/fail":       Worker,
	"POST /api/v1/tasks/{id}/snooze":     Worker,
	"POST /api/v1/jobs/{name}/skip-next": Operator,
	"POST /api/v1/jobs/{name}/backfill":  Operator,
	"GET /api/v1/orders":                 Viewer,
	"GET /api/v1/orders/{id}":            Viewer,
	"POST /api/v1/orders/{id}/cancel":    Operator,
	"POST /api/v1/suspend/jobs":          Operator,
	"POST /api/v1/resume/jobs":           Operator,
	"GET /api/v1/pause":                  Viewer,
	"POST /api/v1/pause":                 Operator,
	"POST /api/v1/resume":                Operator,
}

// TestRoles calls every route with every role: callers without the role are refused, and nothing happens.
func TestRoles(t *testing.T) {
	keys := newTokenSet()
	static := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") })
	seen := map[string]Role{}
	for _, route := range routes {
		name := route.method + " " + route.path
		seen[name] = route.role
		needed := expected[name]
		for asker, c := range map[string]struct {
			change func(*http.Request)
			role   Role
			refuse int
		}{
			"nobody":          {func(*http.Request) {}, "", 401},
			"a bad token":     {with(strings.Repeat("x", 52)), "", 401},
			"an expired one":  {with(keys.expired), "", 401},
			"a short one":     {with("x"), "", 401},
			"another scheme":  {header("Authorization", "Basic "+keys.secrets[Admin]), "", 401},
			"two headers":     {header("Authorization", "Bearer "+keys.secrets[Admin], "Bearer "+keys.secrets[Admin]), "", 401},
			"an empty token":  {header("Authorization", "Bearer "), "", 401},
			"a token in data": {header("Cookie", "token="+keys.secrets[Admin]), "", 401},
			"viewer":          {with(keys.secrets[Viewer]), Viewer, 403},
			"operator":        {with(keys.secrets[Operator]), Operator, 403},
			"admin":           {with(keys.secrets[Admin]), Admin, 403},
			"worker":          {with(keys.secrets[Worker]), Worker, 403},
			"small letters":   {header("Authorization", "bearer "+keys.secrets[Admin]), Admin, 403},
		} {
			b := newBackend()
			h := b.api(Options{Access: keys, Metrics: static, Page: static})
			body := ""
			if strings.HasSuffix(route.path, "/tasks") && route.method == "POST" {
				body = `{"kind":"welcome"}`
			}
			if strings.HasSuffix(route.path, "/limits") {
				body = `{"burst":1}`
			}
			if route.role == Worker && strings.Contains(route.path, "/tasks/") {
				body = `{"session":"s-1","token":1}`
				if strings.HasSuffix(route.path, "/snooze") {
					body = `{"session":"s-1","token":1,"delay":"1s"}`
				}
			}
			if route.method == "PATCH" {
				body = `{"priority":1}`
			}
			target := filled(route.path)
			if strings.Contains(target, "pools") {
				target = strings.Replace(target, "report", "mail", 1)
			}
			w := ask(t, h, route.method, target, body, c.change)
			may := needed == anyone || slices.Index(roles, c.role) >= slices.Index(roles, needed)
			if needed == Worker { // which only admin includes
				may = c.role == Worker || c.role == Admin
			}
			switch {
			case needed == "":
				t.Errorf("%s: say in this test who may ask for it", name)
			case needed == anyone && c.role == "" && route.path == "/readyz" && asker != "nobody" && asker != "a token in data":
				if w.Code != http.StatusUnauthorized { // a token that is given must be good
					t.Errorf("%s as %s: %d", name, asker, w.Code)
				}
			case may && (w.Code == 401 || w.Code == 403 || w.Code == 405 || w.Code >= 500):
				t.Errorf("%s as %s: %d %s", name, asker, w.Code, w.Body)
			case !may && (w.Code != c.refuse || len(b.changes) > 0):
				t.Errorf("%s as %s: %d, want %d; changed %v", name, asker, w.Code, c.refuse, b.changes)
			case !may && w.Code == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer "):
				t.Errorf("%s as %s: WWW-Authenticate %q", name, asker, w.Header().Get("WWW-Authenticate"))
			case !may && w.Code == 403 && !strings.Contains(w.Body.String(), "needs the role "+string(needed)):
				t.Errorf("%s as %s: %s", name, asker, w.Body)
			}
			if text := w.Body.String() + fmt.Sprint(w.Header()); strings.Contains(text, keys.secrets[Admin]) {
				t.Errorf("%s as %s shows the token: %s", name, asker, text)
			}
		}
	}
	if diff := cmp.Diff(expected, seen); diff != "" {
		t.Errorf("routes and their roles (-want +got):\n%s", diff)
	}
}

// TestDefaultDeny: a route without a role, or with an unknown one, refuses every caller; unknown paths are not revealed
// before authentication.
func TestDefaultDeny(t *testing.T) {
	for _, needed := range []Role{"", "root", "Viewer", anyone} {
		for _, have := range []Role{"", "root", Viewer, Operator, Admin, Worker} {
			if have.covers(needed) {
				t.Errorf("%q covers %q", have, needed)
			}
		}
	}
	keys := newTokenSet()
	h := newBackend().api(Options{Access: keys})
	for target, known := range map[string]int{
		"GET /nope": 404, "GET /api/v1/nope": 404, "DELETE /api/v1/jobs": 405, "POST /healthz": 405, "GET /api/v1/jobs/%00": 404, "OPTIONS /api/v1/jobs": 405,
	} {
		method, path, _ := strings.Cut(target, " ")
		if w := ask(t, h, method, path, ""); w.Code != http.StatusUnauthorized || w.Header().Get("Allow") != "" {
			t.Errorf("%s without a token: %d", target, w.Code)
		}
		if w := ask(t, h, method, path, "", with(keys.secrets[Viewer])); w.Code != known {
			t.Errorf("%s: %d, want %d", target, w.Code, known)
		}
	}
	if w := ask(t, newBackend().api(Options{Access: &Tokens{}}), "GET", "/api/v1/jobs", "", with(keys.secrets[Admin])); w.Code != 401 {
		t.Errorf("an empty list lets people in: %d", w.Code)
	}
}

// TestReadyWithoutToken: no conditions without a token, since they name addresses.
func TestReadyWithoutToken(t *testing.T) {
	keys, b := newTokenSet(), newBackend()
	b.health = []wire.Condition{{Name: "lock", Ready: false, Detail: "redis 10.0.0.5:6379 does not answer"}}
	more := func() []wire.Condition {
		return []wire.Condition{{Name: "access", Ready: true, Detail: "insecure"}}
	}
	h := b.api(Options{Access: keys, Conditions: more})
	if w := ask(t, h, "GET", "/readyz", ""); w.Code != 503 || w.Body.String() != "{\"ready\":false}\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w := ask(t, h, "GET", "/readyz", "", with(keys.secrets[Viewer]))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "10.0.0.5") || !strings.Contains(w.Body.String(), "insecure") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(t, b.api(Options{}), "GET", "/readyz", ""); !strings.Contains(w.Body.String(), "10.0.0.5") {
		t.Errorf("without access control: %s", w.Body)
	}
}

func TestTokens(t *testing.T) {
	secret, token := NewToken("ci", Operator, time.Time{})
	second, other := NewToken("ci", Operator, time.Time{})
	if secret == second || len(secret) < minSecret+len(secretPrefix) || !strings.HasPrefix(secret, secretPrefix) {
		t.Fatalf("%q, %q", secret, second)
	}
	tokens := NewTokens(token, other)
	for _, s := range []string{secret, second} { // several are good at once, for rotation
		if who, err := tokens.Identify(s); err != nil || who.Name != "ci" || who.Role != Operator || who.Pools != nil {
			t.Errorf("%v, %v", who, err)
		}
	}
	tokens.Replace([]Token{other})
	if _, err := tokens.Identify(secret); !errors.Is(err, errUnknownToken) {
		t.Errorf("after it was taken out: %v", err)
	}
	weak := Token{Name: "weak", Role: Admin, SHA256: sha256.Sum256([]byte("hunter2"))}
	if _, err := NewTokens(weak).Identify("hunter2"); !errors.Is(err, errUnknownToken) {
		t.Errorf("a secret that can be guessed: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		secret, token := NewToken("short", Viewer, time.Now().Add(time.Minute))
		tokens := NewTokens(token)
		if _, err := tokens.Identify(secret); err != nil || tokens.Len() != 1 {
			t.Errorf("%v, %d", err, tokens.Len())
		}
		time.Sleep(time.Minute)
		if _, err := tokens.Identify(secret); !errors.Is(err, ErrExpired) || tokens.Len() != 0 {
			t.Errorf("%v, %d", err, tokens.Len())
		}
	})
}

// TestBadTokensAreLimited: bad tokens of one address are limited; good ones and other addresses are not. The log has a
// line at intervals.
func TestBadTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newTokenSet()
		var logged strings.Builder
		h := newBackend().api(Options{Access: keys, Logger: textLogger(&logged)})
		bad := strings.Repeat("y", 50)
		try := func(addr, secret string) *httptest.ResponseRecorder {
			return ask(t, h, "GET", "/api/v1/jobs", "", from(addr), with(secret))
		}
		for i := range 50 {
			want := http.StatusUnauthorized
			if i >= loginBurst {
				want = http.StatusTooManyRequests
			}
			w := try("10.0.0.1:1000", bad)
			if w.Code != want || (w.Header().Get("Retry-After") != "") != (want == 429) {
				t.Fatalf("%d: %d, want %d; Retry-After %q", i, w.Code, want, w.Header().Get("Retry-After"))
			}
		}
		for _, addr := range []string{"10.0.0.1:1000", "10.0.0.2:1000"} {
			if w := try(addr, keys.secrets[Viewer]); w.Code != http.StatusOK {
				t.Errorf("a good token from %s: %d", addr, w.Code)
			}
		}
		if w := try("10.0.0.2:1000", bad); w.Code != http.StatusUnauthorized {
			t.Errorf("from another address: %d", w.Code)
		}
		if lines := strings.Count(logged.String(), "\n"); lines != 1 || strings.Contains(logged.String(), bad) {
			t.Errorf("%d lines: %s", lines, logged.String())
		}
		time.Sleep(loginInterval)
		if w := try("10.0.0.1:1000", bad); w.Code != http.StatusUnauthorized {
			t.Errorf("after the time it was told: %d", w.Code)
		}
		time.Sleep(loginLogs)
		try("10.0.0.1:1000", bad)
		if !strings.Contains(logged.String(), "count=52 ") {
			t.Errorf("the log does not tell how many: %s", logged.String())
		}
	})
}

// TestManyAddresses: the state kept per address is bounded.
func TestManyAddresses(t *testing.T) {
	var l logins
	now := time.Unix(1e9, 0)
	for i := range 3 * loginAddresses {
		now = now.Add(time.Millisecond)
		l.failed(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(l.buckets.full) > loginAddresses {
		t.Errorf("%d addresses", len(l.buckets.full))
	}
	l = logins{}
	for i := range loginBurst + 1 { // one network is one party
		wait, _ := l.failed(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1)), now)
		if (wait > 0) != (i == loginBurst) {
			t.Errorf("%d: %v", i, wait)
		}
	}
	if wait, _ := l.failed(netip.Addr{}, now); wait > 0 { // no address is one party too
		t.Error(wait)
	}
}

// TestProxies: X-Forwarded-For counts back to the first untrusted address.
func TestProxies(t *testing.T) {
	s := &server{proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	for _, c := range []struct {
		remote string
		said   []string
		want   string
	}{
		{"1.2.3.4:5", []string{"9.9.9.9"}, "1.2.3.4"},
		{"10.0.0.1:5", nil, "10.0.0.1"},
		{"10.0.0.1:5", []string{"9.9.9.9"}, "9.9.9.9"},
		{"10.0.0.1:5", []string{"6.6.6.6, 9.9.9.9"}, "9.9.9.9"},
		{"10.0.0.1:5", []string{"6.6.6.6, 9.9.9.9, 10.0.0.2"}, "9.9.9.9"},
		{"10.0.0.1:5", []string{"6.6.6.6", "9.9.9.9"}, "9.9.9.9"},
		{"10.0.0.1:5", []string{"6.6.6.6, junk"}, "10.0.0.1"},
		{"10.0.0.1:5", []string{""}, "10.0.0.1"},
		{"[::ffff:10.0.0.1]:5", []string{"::ffff:9.9.9.9"}, "9.9.9.9"},
		{"[fd00::1]:5", []string{"2001:db8::7%eth0"}, "2001:db8::7"},
		{"@", []string{"9.9.9.9"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.said}}
		if got := s.remote(r).String(); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.remote, c.said, got, c.want)
		}
	}
}

// TestAccessDown: if Access is unavailable a request is neither refused as unauthorized nor accepted.
func TestAccessDown(t *testing.T) {
	down := accessFunc(func(string) (Identity, error) {
		return Identity{Name: "x", Role: Admin}, fmt.Errorf("%w: no answer", jobs.ErrUnavailable)
	})
	if w := ask(t, newBackend().api(Options{Access: down}), "GET", "/api/v1/jobs", "", with(strings.Repeat("z", 50))); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type accessFunc func(string) (Identity, error)

func (f accessFunc) Identify(secret string) (Identity, error) { return f(secret) }

// TestProbesWithoutHost: HTTP/1.0 has no Host, and some load balancers use it.
func TestProbesWithoutHost(t *testing.T) {
	h := newBackend().api(Options{})
	for target, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/api/v1/jobs": 403, "/": 403} {
		if w := ask(t, h, "GET", target, "", host("")); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
}
