package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestChanges: each write calls the backend once, with the caller.
func TestChanges(t *testing.T) {
	tests := []struct {
		method, target, body string
		status               int
		changes              []string
		change               func(*http.Request)
	}{
		{target: "/api/v1/jobs/report/run", status: 201, changes: []string{"run report api:127.0.0.1"}},
		{target: "/api/v1/jobs/report/run", body: `{}`, status: 201, changes: []string{"run report api:127.0.0.1"}},
		{target: "/api/v1/jobs/report/run", body: `{"payload":{"n": 1e400},"force":false}`, status: 201, changes: []string{`run report api:127.0.0.1 with {"n":1e400}`}},
		{target: "/api/v1/jobs/report/run", body: `{"payload":null}`, status: 201, changes: []string{"run report api:127.0.0.1"}},
		{target: "/api/v1/jobs/report/suspend", status: 200, changes: []string{"suspend report true api:127.0.0.1", "wake []"}},
		{target: "/api/v1/jobs/report/resume", body: ` {"reset":false} `, status: 200, changes: []string{"suspend report false api:127.0.0.1", "wake []"}},
		{target: "/api/v1/jobs/report/resume?reset=true", status: 200, changes: []string{"suspend report reset api:127.0.0.1", "wake []"}},
		{target: "/api/v1/jobs/report/suspend", body: `{"reset":true}`, status: 200, changes: []string{"suspend report reset api:127.0.0.1", "wake []"}},
		{target: "/api/v1/jobs/report/suspend", body: `{"until":"2126-01-02T03:04:05+01:00"}`, status: 200, changes: []string{"suspend report true api:127.0.0.1 until 2126-01-02T02:04:05Z", "wake []"}},
		{target: "/api/v1/jobs/report/run", body: `{"at":"2026-12-24T18:00:00+01:00","payload":{"to":["ann"]}}`, status: 202, changes: []string{`order report at 2026-12-24T17:00:00Z {"to":["ann"]} api:127.0.0.1`}},
		{target: "/api/v1/jobs/report/backfill", body: `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","max_running":3,"rate":"10/m","again":true}`, status: 202,
			changes: []string{"backfill report 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z 3 10/m true api:127.0.0.1"}},
		{target: "/api/v1/jobs/report/backfill", body: `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z","preview":true}`, status: 200},
		{target: "/api/v1/orders/task-1/cancel", status: 200, changes: []string{"cancel order task-1 api:127.0.0.1"}},
		{target: "/api/v1/jobs/backup/skip-next", status: 200, changes: []string{"skip 1 of backup api:127.0.0.1"}},
		{target: "/api/v1/jobs/report/skip-next", body: `{"n":0}`, status: 200, changes: []string{"skip 0 of report api:127.0.0.1"}},
		{target: "/api/v1/jobs/backup/skip-next", body: `{"n":1000}`, status: 200, changes: []string{"skip 1000 of backup api:127.0.0.1"}},
		{target: "/api/v1/suspend/jobs", body: `{"labels":{"team":"infra"},"until":"2126-01-02T03:04:05Z"}`, status: 200, changes: []string{"suspend backup true api:127.0.0.1 until 2126-01-02T03:04:05Z", "wake []"}},
		{target: "/api/v1/resume/jobs", body: `{"labels":{"team":"infra"}}`, status: 200, changes: []string{"suspend backup false api:127.0.0.1", "wake []"}},
		{target: "/api/v1/resume/jobs", body: `{"labels":{"team":"infra"},"reset":true}`, status: 200, changes: []string{"suspend backup reset api:127.0.0.1", "wake []"}},
		{target: "/api/v1/suspend/jobs", body: `{"labels":{"team":"infra"},"dry_run":true}`, status: 200},
		{target: "/api/v1/suspend/jobs", body: `{"labels":{"team":"infra","zone":"a"}}`, status: 200},
		{target: "/api/v1/pause", body: `{"reason":"an upgrade","until":"2126-01-02T03:04:05Z"}`, status: 200, changes: []string{"pause all everything is paused by api:127.0.0.1 since 2026-03-01T08:00:00Z, until 2126-01-02T03:04:05Z: an upgrade"}},
		{target: "/api/v1/pause", status: 200, changes: []string{"pause all everything is paused by api:127.0.0.1 since 2026-03-01T08:00:00Z"}},
		{target: "/api/v1/resume", status: 200, changes: []string{"resume all", "wake []"}},
		{target: "/api/v1/pools/mail/pause", status: 200, changes: []string{"pause mail true api:127.0.0.1", "wake []"}},
		{target: "/api/v1/pools/mail/resume", body: `{"reset":null}`, status: 200, changes: []string{"pause mail false api:127.0.0.1", "wake []"}},
		{target: "/api/v1/pools/mail/resume?reset=true", status: 200, changes: []string{"pause mail reset api:127.0.0.1", "wake []"}},
		{
			target: "/api/v1/pools/mail/limits", body: `{"max_running":5,"rate":"100/s","burst":20}`, status: 200,
			changes: []string{`limit mail {"max_running":5,"rate":"100/s","burst":20} api:127.0.0.1`, "wake []"},
		},
		{target: "/api/v1/pools/mail/limits", body: `{"max_running":0}`, status: 200, changes: []string{`limit mail {"max_running":0} api:127.0.0.1`, "wake []"}},
		{target: "/api/v1/pools/mail/limits", body: `{"max_running":1000000,"burst":1000000}`, status: 200, changes: []string{`limit mail {"max_running":1000000,"burst":1000000} api:127.0.0.1`, "wake []"}},
		{target: "/api/v1/pools/mail/limits", body: `{"rate":"0","burst":0}`, status: 200, changes: []string{`limit mail {"rate":"0","burst":0} api:127.0.0.1`, "wake []"}},
		{target: "/api/v1/pools/mail/limits", body: `{"rate":"1/d","burst":366,"max_running":null}`, status: 200, changes: []string{`limit mail {"rate":"1/d","burst":366} api:127.0.0.1`, "wake []"}},
		{target: "/api/v1/pools/mail/limits", body: `{"rate":null,"burst":1,"reset":false}`, status: 200, changes: []string{`limit mail {"burst":1} api:127.0.0.1`, "wake []"}},
		{target: "/api/v1/pools/mail/limits", body: `{"reset":true,"rate":null}`, status: 200, changes: []string{"limit mail null api:127.0.0.1", "wake []"}},
		{target: "/api/v1/pools/mail/limits?reset=true", status: 200, changes: []string{"limit mail null api:127.0.0.1", "wake []"}},
		{target: "/api/v1/tasks/task-1/cancel", status: 200, changes: []string{"cancel task-1 api:127.0.0.1", "wake []"}},
		{target: "/api/v1/tasks/task-2/retry", status: 201, changes: []string{"retry task-2 api:127.0.0.1"}},
		{target: "/api/v1/pools/mail/tasks", body: `{}`, status: 201, changes: []string{"enqueue mail  0 %!s(<nil>) []", "wake [mail]"}},
		{
			target: "/api/v1/pools/mail/tasks", body: `{"payload":{"n":1e400},"kind":"welcome","priority":-100,"run_at":null,"tags":["x y"]}`, status: 201,
			changes: []string{`enqueue mail welcome -100 {"n":1e400} [x y]`, "wake [mail]"},
		},
		{
			target: "/api/v1/pools/mail/tasks", body: `[{"kind":"welcome","key":"tenant 7"},{"key":""},{"key":null},{"key":"` + strings.Repeat("k", 128) + `"}]`, status: 201,
			changes: []string{
				"enqueue mail welcome of tenant 7 0 %!s(<nil>) []", "enqueue mail  0 %!s(<nil>) []", "enqueue mail  0 %!s(<nil>) []",
				"enqueue mail  of " + strings.Repeat("k", 128) + " 0 %!s(<nil>) []", "wake [mail]",
			},
		},
		{
			target: "/api/v1/pools/mail/tasks", body: `[{"kind":"welcome","expires_at":"2026-01-02T03:04:05.000001+01:00"},{"expires_at":null}]`, status: 201,
			changes: []string{"enqueue mail welcome until 2026-01-02T02:04:05.000001Z 0 %!s(<nil>) []", "enqueue mail  0 %!s(<nil>) []", "wake [mail]"},
		},
		{target: "/api/v1/pools/mail/tasks", body: `{"key":"ключ"}`, status: 201, changes: []string{"enqueue mail  of ключ 0 %!s(<nil>) []", "wake [mail]"}},
		{
			target: "/api/v1/pools/mail/tasks", body: `[{"payload":null},{"payload":"\u0000"}]`, status: 201,
			changes: []string{`enqueue mail  0 null []`, `enqueue mail  0 "\u0000" []`, "wake [mail]"},
		},
		{target: "/api/v1/pools/mail/tasks", body: `{"kind":"welcome"}`, status: 200, change: header("Idempotency-Key", "used")},
		{target: "/api/v1/pools/mail/tasks", body: `{"kind":"welcome","idempotency_key":"used"}`, status: 200, change: header("Idempotency-Key", "used")},
		{
			target: "/api/v1/pools/mail/tasks", body: `[{"kind":"welcome","idempotency_key":"used"},{"kind":"bye"}]`, status: 201,
			changes: []string{"enqueue mail bye 0 %!s(<nil>) []", "wake [mail]"},
		},
		{target: "/api/v1/pools/mail/tasks", body: `{}`, status: 201, changes: []string{"enqueue mail  0 %!s(<nil>) []", "wake [mail]"}, change: header("Content-Type", "application/json; charset=UTF-8")},
		{target: "/api/v1/jobs/report/run", status: 201, changes: []string{"run report api:127.0.0.1"}, change: header("Origin", "http://127.0.0.1:8080")},
		{target: "/api/v1/jobs/report/run", status: 201, changes: []string{"run report api:127.0.0.1"}, change: header("Sec-Fetch-Site", "same-origin")},
	}
	for _, test := range tests {
		t.Run(test.target+" "+test.body, func(t *testing.T) {
			b := newBackend()
			b.keys["used"] = jobs.Task{ID: "old", Kind: "welcome"}
			change := test.change
			if change == nil {
				change = func(*http.Request) {}
			}
			w := ask(t, b.api(Options{}), "POST", test.target, test.body, change)
			if w.Code != test.status {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, test.status)
			}
			if diff := cmp.Diff(test.changes, b.changes); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHosts: the accepted Host names and addresses.
func TestHosts(t *testing.T) {
	h := newBackend().api(Options{Hosts: []string{"Sched.internal:8080", "10.1.1.1"}})
	for _, name := range []string{"localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "127.9.9.9:80", "[::1]:8080", "[::1]", "sched.internal", "SCHED.internal.:9", "10.1.1.1:8080"} {
		if w := ask(t, h, "GET", "/healthz", "", host(name)); w.Code != http.StatusOK {
			t.Errorf("host %q: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestUnavailable: an unavailable store is neither a client error nor an internal error.
func TestUnavailable(t *testing.T) {
	for _, route := range routes {
		if !strings.HasPrefix(route.path, "/api/") || strings.HasSuffix(route.path, "/next") || strings.HasSuffix(route.path, "/events") {
			continue // these ask no store, or say so in their events
		}
		b := newBackend()
		b.err = fmt.Errorf("read: %w: connection refused", jobs.ErrUnavailable)
		body := ""
		if route.role == Worker && strings.Contains(route.path, "/tasks/") {
			body = `{"session":"s-1","token":1}`
		}
		if strings.HasSuffix(route.path, "/snooze") {
			body = `{"session":"s-1","token":1,"delay":"1s"}`
		}
		if strings.HasSuffix(route.path, "/tasks") && route.method == "POST" {
			body = "{}"
		}
		if strings.HasSuffix(route.path, "/locks/release") {
			body = `{"key":"user/a","token":6}`
		}
		if strings.HasSuffix(route.path, "/jobs") && route.method == "POST" {
			body = `{"labels":{"team":"infra"}}`
		}
		if strings.HasSuffix(route.path, "/backfill") {
			body = `{"from":"2026-01-01T00:00:00Z"}`
		}
		if strings.HasSuffix(route.path, "/limits") {
			body = `{"burst":1}`
		}
		if slices.Contains(words, route.path[strings.LastIndexByte(route.path, '/')+1:]) && strings.Count(route.path, "/") == 4 {
			body = `{"pool":"mail"}`
		}
		if route.method == "PATCH" {
			body = `{"priority":1}`
		}
		target := strings.NewReplacer("{name}", "backup", "{id}", "task-1", "{session}", "session-1").Replace(route.path)
		w := ask(t, b.api(Options{}), route.method, target, body)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"unavailable"`) {
			t.Errorf("%s %s: %d %s", route.method, route.path, w.Code, w.Body)
		}
		if len(b.changes) > 0 {
			t.Errorf("%s %s: %v", route.method, route.path, b.changes)
		}
	}
}

// TestExisted: the response to an enqueue marks tasks whose key existed.
func TestExisted(t *testing.T) {
	b := newBackend()
	b.keys["used"] = jobs.Task{ID: "old", Kind: "welcome"}
	w := ask(t, b.api(Options{}), "POST", "/api/v1/pools/mail/tasks", `[{"kind":"welcome","idempotency_key":"used"},{"kind":"bye"}]`)
	var list wire.List[jobs.Enqueued]
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Items) != 2 || !list.Items[0].Existed || list.Items[0].ID != "old" || list.Items[1].Existed {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// TestInvalid: an invalid value that only the backend finds is malformed in a query and invalid in a write.
func TestInvalid(t *testing.T) {
	b := newBackend()
	b.err = fmt.Errorf("%w: odd", jobs.ErrInvalid)
	h := b.api(Options{})
	for target, status := range map[string]int{"GET /api/v1/tasks": 400, "POST /api/v1/pools/mail/tasks": 422} {
		method, path, _ := strings.Cut(target, " ")
		if w := ask(t, h, method, path, map[string]string{"POST": "{}"}[method]); w.Code != status {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestFaults: an internal error is in the log, not in the response.
func TestFaults(t *testing.T) {
	for name, spoil := range map[string]func(*backend){
		"error": func(b *backend) { b.err = fmt.Errorf("secret detail") },
		"panic": func(b *backend) { b.panics = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend()
			spoil(b)
			var logged strings.Builder
			w := ask(t, b.api(Options{Logger: textLogger(&logged)}), "GET", "/api/v1/jobs", "")
			if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), ".go:") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if !strings.Contains(logged.String(), "secret detail") && !strings.Contains(logged.String(), "the store fell over") {
				t.Errorf("logged %q", logged.String())
			}
		})
	}
}

// TestHeaders: no response may be sniffed, framed, cached, or read by a page of another origin.
func TestHeaders(t *testing.T) {
	h := newBackend().api(Options{})
	for _, target := range []string{"/healthz", "/api/v1/jobs", "/nope", "/api/v1/tasks/task-2/logs"} {
		got := ask(t, h, "GET", target, "", header("Origin", "http://evil.example")).Header()
		if got.Get("X-Content-Type-Options") != "nosniff" || got.Get("Cache-Control") != "no-store" || !strings.Contains(got.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
			t.Errorf("%s: %v", target, got)
		}
		for name := range got {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", target, name)
			}
		}
	}
}
