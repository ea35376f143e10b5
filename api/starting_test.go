package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// code is the code of an error.
func code(t *testing.T, text string) string {
	t.Helper()
	body := decode[struct {
		Error struct{ Code, Message string }
	}](t, text)
	if body.Error.Message == "" {
		t.Errorf("no message in %s", text)
	}
	return body.Error.Code
}

// TestStarting: before the definitions are loaded, no request that names a job or a pool gets "not found", and nothing
// is done or recorded. Unauthorized callers learn nothing of it.
func TestStarting(t *testing.T) {
	keys := newTokenSet()
	b := newBackend()
	b.starting = true
	h := b.api(Options{Access: keys})
	for _, route := range routes {
		if !strings.HasPrefix(route.path, "/api/") || route.path == "/api/v1/events" {
			continue
		}
		target := filled(route.path)
		names := strings.HasPrefix(target, "/api/v1/jobs") || strings.HasPrefix(target, "/api/v1/pools") || target == "/api/v1/suspend/jobs" || target == "/api/v1/resume/jobs" ||
			target == "/api/v1/orders" || target == "/api/v1/dead-letters" || target == "/api/v1/tasks/retry" || target == "/api/v1/tasks/cancel" || target == "/api/v1/tasks/purge" || target == "/api/v1/tasks" || target == "/api/v1/triggers" || target == "/api/v1/next" || target == "/api/v1/tasks/task-1/retry"
		b.changes, b.audit = nil, nil
		w := ask(t, h, route.method, target, "", with(keys.secrets[Admin]))
		if got := w.Code == http.StatusServiceUnavailable; got != names {
			t.Errorf("%s %s: %d %s", route.method, target, w.Code, w.Body)
		} else if got && (code(t, w.Body.String()) != "starting" || w.Header().Get("Retry-After") != "1" || len(b.changes)+len(b.audit) > 0) {
			t.Errorf("%s %s: %v %s, %v %v", route.method, target, w.Header(), w.Body, b.changes, b.audit)
		}
		if w := ask(t, h, route.method, target, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s without a token: %d", route.method, target, w.Code)
		}
	}
	for _, target := range []string{"/healthz", "/readyz"} {
		if w := ask(t, h, "GET", target, ""); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	b.starting = false
	if w := ask(t, h, "GET", "/api/v1/jobs/backup", "", with(keys.secrets[Viewer])); w.Code != http.StatusOK {
		t.Errorf("loaded: %d %s", w.Code, w.Body)
	}
}

// absent is the field of a program that runs no replica.
type absent struct{ Replica }

// TestWithoutReplica: a process without a replica serves the store, and refuses what needs a replica.
func TestWithoutReplica(t *testing.T) {
	for name, none := range map[string]Replica{"nil": nil, "a nil pointer": (*absent)(nil)} {
		b := newBackend()
		backend := b.backend()
		backend.Replica = none
		h := New(backend, Options{})
		for _, route := range routes {
			if route.path == "/api/v1/events" || route.role == anyone && route.path != "/readyz" || route.path == "/metrics" {
				continue
			}
			body := ""
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
				body = `{"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`
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
			target := strings.NewReplacer("pools/report", "pools/mail", "task-1", "task-2").Replace(filled(route.path))
			if strings.HasSuffix(target, "/cancel") || route.method == "PATCH" {
				target = strings.Replace(target, "task-2", "task-1", 1)
			}
			off := route.role == Worker || strings.HasSuffix(target, "/reload") || strings.HasSuffix(target, "/run") || strings.HasSuffix(target, "/backfill") || strings.HasSuffix(target, "/retry") && target != "/api/v1/tasks/retry" || strings.HasSuffix(target, "/next") || strings.HasSuffix(target, "/jobs") && route.method == "POST"
			w := ask(t, h, route.method, target, body)
			switch {
			case off && (w.Code != http.StatusNotImplemented || code(t, w.Body.String()) != "no_replica"),
				!off && w.Code != http.StatusOK && w.Code != http.StatusCreated:
				t.Errorf("%s: %s %s: %d %s", name, route.method, target, w.Code, w.Body)
			}
		}
		if w := ask(t, h, "GET", "/readyz", ""); !strings.Contains(w.Body.String(), "none in this process") {
			t.Errorf("%s: readiness %s", name, w.Body)
		}
		view, err := newAPI(backend, Options{}).overview(t.Context())
		if text, _ := json.Marshal(view); err != nil || !view.Ready || view.PoolsTotal != 2 {
			t.Errorf("%s: overview %s, %v", name, text, err)
		}
	}
}
