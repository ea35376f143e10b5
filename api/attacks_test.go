package api

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const markup = `"><script>alert(1)</script><img src=x onerror=alert(1)>`

// hostile is a backend whose every text is markup.
func hostile() *backend {
	b := newBackend()
	b.set.Jobs["backup"] = jobs.Job{Schedule: "@daily", Description: markup, Labels: map[string]string{markup: markup}}
	b.set.Pools["mail"] = jobs.Pool{Description: markup}
	for i := range b.jobs {
		b.jobs[i].SuspendedBy = markup
	}
	text, _ := json.Marshal(markup)
	for i := range b.tasks {
		t := &b.tasks[i]
		t.Error, t.Reason, t.Replica, t.Tags, t.Payload = markup, markup, markup, []string{markup}, text
	}
	b.tasks[1].Payload = []byte(`{"a":` + strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(text)) + `}`)
	b.triggers[0].Reason, b.triggers[0].By = markup, markup
	b.peers[1].Host, b.peers[1].Labels, b.peers[1].Version = markup, map[string]string{"a": markup}, markup
	b.pools[0].PausedBy, b.pools[0].LimitsBy = markup, markup
	b.locks = []driver.Info{{Key: "user/a", Owner: markup, Meta: markup}}
	b.output["task-1"], b.output["task-2"] = []byte(markup), []byte(markup)
	b.health = []wire.Condition{{Name: markup, Detail: markup}}
	b.audit = []wire.AuditEntry{{Who: markup, Object: markup}}
	return b
}

// TestStoredMarkup: no response is a web page, or can be taken for one.
func TestStoredMarkup(t *testing.T) {
	h := hostile().api(Options{})
	shown := 0
	for _, route := range routes {
		if route.method != "GET" || strings.HasSuffix(route.path, "/events") { // events are the same, told without end
			continue
		}
		target := strings.NewReplacer("{name}", "backup", "{id}", "task-1", "{session}", "session-1", "{file}", "x").Replace(route.path)
		w := ask(t, h, "GET", target, "")
		kind, got := w.Header().Get("Content-Type"), w.Header()
		if got.Get("X-Content-Type-Options") != "nosniff" || got.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'; sandbox" {
			t.Errorf("%s: %v", target, got)
		}
		if strings.Contains(w.Body.String(), "alert(1)") {
			shown++
		}
		switch kind {
		case "application/json; charset=utf-8":
			if strings.ContainsAny(w.Body.String(), "<>") {
				t.Errorf("%s has markup: %s", target, w.Body)
			}
		case "text/plain; charset=utf-8":
			if !strings.HasPrefix(got.Get("Content-Disposition"), "attachment") {
				t.Errorf("%s can be opened: %v", target, got)
			}
		default:
			t.Errorf("%s is %s", target, kind)
		}
	}
	if shown < 12 {
		t.Errorf("only %d answers show what was stored", shown)
	}
	// Errors repeat input, as text.
	for _, target := range []string{"/api/v1/jobs/" + "%3Cscript%3E", "/api/v1/tasks?%3Cscript%3E=1", "/%3Cscript%3E", "/api/v1/tasks?state=%3Cscript%3E"} {
		if w := ask(t, h, "GET", target, ""); strings.ContainsAny(w.Body.String(), "<>") || w.Header().Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
}

// writes are all routes that change something, each with a valid body.
func writes() (targets, bodies []string) {
	for _, route := range routes {
		if route.method != "GET" {
			body := ""
			target := filled(route.path)
			if strings.HasSuffix(target, "/tasks") {
				body = "{}"
			}
			if strings.HasSuffix(target, "/limits") {
				body = `{"burst":1}`
			}
			if route.method == "PATCH" {
				body = `{"priority":1}`
			}
			targets, bodies = append(targets, strings.Replace(target, "pools/report", "pools/mail", 1)), append(bodies, body)
		}
	}
	return targets, bodies
}

// TestForeignPages: a page of another origin, in the browser of an authorized user, changes and reads nothing.
func TestForeignPages(t *testing.T) {
	targets, bodies := writes()
	if len(targets) < 8 {
		t.Fatalf("%d writes", len(targets))
	}
	for i, target := range targets {
		for name, change := range map[string]func(*http.Request){
			"fetch":                   header("Sec-Fetch-Site", "cross-site"),
			"another port":            header("Sec-Fetch-Site", "same-site"),
			"older browser":           header("Origin", "http://evil.example"),
			"sandboxed page":          header("Origin", "null"),
			"form of an old browser":  header("Content-Type", "application/x-www-form-urlencoded"),
			"file form":               header("Content-Type", "multipart/form-data; boundary=x"),
			"text form":               header("Content-Type", "text/plain"),
			"form over a method":      func(r *http.Request) { r.Method = "GET"; r.Header.Set("X-HTTP-Method-Override", "POST") },
			"rebound name":            host("evil.example:8080"),
			"rebound, same origin":    func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("Sec-Fetch-Site", "same-origin") },
			"name that looks like us": host("localhost.evil.example"),
			"name in another header":  func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("X-Forwarded-Host", "localhost") },
			"0.0.0.0":                 host("0.0.0.0:8080"),
		} {
			b := newBackend()
			w := ask(t, b.api(Options{}), "POST", target, bodies[i], change)
			if w.Code < 400 || w.Code >= 500 || len(b.changes) > 0 || len(b.audit) > 1 {
				if name == "form over a method" && w.Code == http.StatusOK && len(b.changes) == 0 {
					continue // it was a read
				}
				t.Errorf("%s %s: %d, changed %v", name, target, w.Code, b.changes)
			}
		}
	}
	for _, route := range routes {
		w := ask(t, newBackend().api(Options{}), "GET", filled(route.path), "", host("evil.example"))
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "foreign_host") {
			t.Errorf("GET %s: %d", route.path, w.Code)
		}
	}
}

// TestInjectedHeaders: no input becomes a response header or a second request.
func TestInjectedHeaders(t *testing.T) {
	b := newBackend()
	address, _ := start(t, newServer(b.api(Options{})))
	post := "POST /api/v1/jobs/report/run HTTP/1.1\r\nHost: localhost\r\n"
	for name, sent := range map[string]string{
		"id":                    "GET /api/v1/tasks/x%0d%0aX-Evil:1/logs HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"name":                  "GET /api/v1/jobs/x%0d%0aX-Evil:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"file":                  "GET /static/x%0d%0aX-Evil:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"host":                  "GET /healthz HTTP/1.1\r\nHost: localhost%0d%0aX-Evil:1\r\n\r\n",
		"two hosts":             "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
		"two lengths":           post + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
		"space before colon":    post + "Content-Length : 0\r\n\r\n",
		"odd transfer coding":   post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"two transfer codings":  post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"negative length":       post + "Content-Length: -1\r\n\r\n",
		"line without a colon":  post + "X-Evil\r\n\r\n",
		"bare line feed in key": "POST /api/v1/pools/mail/tasks HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\x00b\r\nContent-Length: 0\r\n\r\n",
	} {
		conn := dial(t, address)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if res.StatusCode < 400 || res.Header.Get("X-Evil") != "" {
			t.Errorf("%s: %s %v", name, res.Status, res.Header)
		}
		res.Body.Close()
	}
	if len(b.changes) > 0 {
		t.Errorf("changed: %v", b.changes)
	}
}

// TestSlowHandshake: a silent connection is closed, with TLS too.
func TestSlowHandshake(t *testing.T) {
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	srv := newServer(newBackend().api(Options{}))
	srv.TLSConfig = &tls.Config{Certificates: lent.TLS.Certificates, MinVersion: tls.VersionTLS12}
	srv.ReadHeaderTimeout = 200 * time.Millisecond
	address, _ := start(t, srv)
	for name, sent := range map[string]string{"nothing": "", "half a hello": "\x16\x03\x01\x02\x00\x01"} {
		conn := dial(t, address)
		_, _ = io.WriteString(conn, sent)
		began := time.Now()
		if text, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "reset") || time.Since(began) > 15*time.Second {
			t.Errorf("%s: %q, %v after %v", name, text, err, time.Since(began))
		}
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-")
	if text, err := io.ReadAll(conn); err != nil && !strings.Contains(err.Error(), "EOF") && !strings.Contains(err.Error(), "reset") || strings.Contains(string(text), "200") {
		t.Errorf("a slow header over TLS: %q, %v", text, err)
	}
}

// TestHTTP2: the same rules with HTTP/2.
func TestHTTP2(t *testing.T) {
	lent := httptest.NewTLSServer(nil)
	defer lent.Close()
	keys := newTokenSet()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBackend()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, b.api(Options{Access: keys}), ServeOptions{TLS: &tls.Config{Certificates: lent.TLS.Certificates}})
	}()
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	for name, test := range map[string]struct {
		host, token string
		body        io.Reader
		want        int
	}{
		"fine":         {"localhost", keys.secrets[Operator], nil, 201},
		"foreign host": {"evil.example", keys.secrets[Operator], nil, 403},
		"no token":     {"localhost", "", nil, 401},
		"weak token":   {"localhost", keys.secrets[Viewer], nil, 403},
		"large body":   {"localhost", keys.secrets[Operator], strings.NewReader(strings.Repeat(" ", 2<<20)), 413},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("https://%s/api/v1/jobs/report/run", l.Addr()), test.body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = test.host
		r.Header.Set("Content-Type", "application/json")
		if test.token != "" {
			with(test.token)(r)
		}
		res, err := c.Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		res.Body.Close()
		if res.StatusCode != test.want || res.ProtoMajor != 2 {
			t.Errorf("%s: %s %s, want %d", name, res.Proto, res.Status, test.want)
		}
	}
	if len(b.changes) != 1 {
		t.Errorf("changed: %v", b.changes)
	}
	c.CloseIdleConnections()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
