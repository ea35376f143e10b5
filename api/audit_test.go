package api

import (
	"context"
	"encoding/json"
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

// TestAudit: each write has one row, before its response; refused ones too, except unauthenticated ones.
func TestAudit(t *testing.T) {
	keys := newTokenSet()
	ask := func(b *backend, o Options, target, body string, change ...func(*http.Request)) int {
		return ask(t, b.api(o), "POST", target, body, change...).Code
	}
	secured := Options{Access: keys, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	for _, c := range []struct {
		target, body string
		o            Options
		change       func(*http.Request)
		want         []wire.AuditEntry
	}{
		{"/api/v1/jobs/report/run", "", secured, with(keys.secrets[Operator]), []wire.AuditEntry{
			{Who: "my-operator", Role: "operator", Remote: "127.0.0.1", Action: "POST /jobs/{name}/run", Object: "report", Status: 201, TaskID: "task-1", Tasks: 1},
		}},
		{"/api/v1/jobs/report/run", "", secured, with(keys.secrets[Viewer]), []wire.AuditEntry{
			{Who: "my-viewer", Role: "viewer", Remote: "127.0.0.1", Action: "POST /jobs/{name}/run", Object: "report", Status: 403},
		}},
		{"/api/v1/jobs/backup/run", `{"force":"task-1"}`, secured, with(keys.secrets[Operator]), []wire.AuditEntry{
			{Who: "my-operator", Role: "operator", Remote: "127.0.0.1", Action: "POST /jobs/{name}/run?force=true", Object: "backup", Status: 201, TaskID: "task-1", Tasks: 1},
		}},
		{"/api/v1/jobs/backup/run", "", secured, with(keys.secrets[Operator]), []wire.AuditEntry{
			{Who: "my-operator", Role: "operator", Remote: "127.0.0.1", Action: "POST /jobs/{name}/run", Object: "backup", Status: 409},
		}},
		{"/api/v1/tasks/task-2/retry?force=true", "", secured, with(keys.secrets[Operator]), []wire.AuditEntry{
			{Who: "my-operator", Role: "operator", Remote: "127.0.0.1", Action: "POST /tasks/{id}/retry?force=true", Object: "task-2", Status: 201, TaskID: "task-2", Tasks: 1},
		}},
		{"/api/v1/jobs/backup/run?force=true", "", secured, with(keys.secrets[Viewer]), []wire.AuditEntry{
			{Who: "my-viewer", Role: "viewer", Remote: "127.0.0.1", Action: "POST /jobs/{name}/run", Object: "backup", Status: 403},
		}},
		{"/api/v1/tasks/task-2/complete", "", secured, with(keys.secrets[Operator]), []wire.AuditEntry{
			{Who: "my-operator", Role: "operator", Remote: "127.0.0.1", Action: "POST /tasks/{id}/complete", Object: "task-2", Status: 403},
		}},
		{"/api/v1/tasks/task-2/cancel", "", secured, with(keys.secrets[Admin]), []wire.AuditEntry{
			{Who: "my-admin", Role: "admin", Remote: "127.0.0.1", Action: "POST /tasks/{id}/cancel", Object: "task-2", Status: 409},
		}},
		{"/api/v1/pools/mail/tasks", `{"priority":101}`, secured, func(r *http.Request) {
			with(keys.secrets[Operator])(r)
			r.Header.Set("X-Forwarded-For", "203.0.113.9")
		}, []wire.AuditEntry{{Who: "my-operator", Role: "operator", Remote: "203.0.113.9", Action: "POST /pools/{name}/tasks", Object: "mail", Status: 422}}},
		{"/api/v1/locks/release", `{"key":"user/a","token":6}`, secured, with(keys.secrets[Admin]), []wire.AuditEntry{
			{Who: "my-admin", Role: "admin", Remote: "127.0.0.1", Action: "POST /locks/release?token=6", Object: "user/a", Status: 200},
		}},
		{"/api/v1/locks/release", `{"key":"user/a","token":5}`, secured, with(keys.secrets[Admin]), []wire.AuditEntry{
			{Who: "my-admin", Role: "admin", Remote: "127.0.0.1", Action: "POST /locks/release?token=5", Object: "user/a", Status: 409},
		}},
		{"/api/v1/locks/release", `{"key":"user/a","token":6}`, secured, with(keys.secrets[Operator]), []wire.AuditEntry{
			{Who: "my-operator", Role: "operator", Remote: "127.0.0.1", Action: "POST /locks/release", Status: 403},
		}},
		{"/api/v1/jobs/report/run", "", secured, func(*http.Request) {}, nil},
		{"/api/v1/jobs/report/run", "", secured, with(keys.expired), nil},
		{"/api/v1/jobs", "", secured, with(keys.secrets[Admin]), nil}, // no such write
		{"/api/v1/jobs/report/run", "", Options{}, func(*http.Request) {}, []wire.AuditEntry{
			{Remote: "127.0.0.1", Action: "POST /jobs/{name}/run", Object: "report", Status: 201, TaskID: "task-1", Tasks: 1},
		}},
		{"/api/v1/jobs/report/run", "", Options{}, header("Origin", "http://evil.example"), nil},
	} {
		b := newBackend()
		ask(b, c.o, c.target, c.body, c.change)
		if diff := cmp.Diff(c.want, b.audit); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.target, diff)
		}
	}

	// Every write has one row, with the name of its route; reads have none.
	for _, route := range routes {
		b := newBackend()
		h := b.api(secured)
		target := strings.Replace(filled(route.path), "pools/report", "pools/mail", 1)
		if strings.HasSuffix(route.path, "/events") {
			continue // a read without an end
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(route.method, "http://localhost"+target, nil)
		with(keys.secrets[Admin])(r)
		h.ServeHTTP(w, r)
		var want []string
		if route.method != "GET" && route.role != Worker { // of a worker's calls, tasks keep what came of them
			want = []string{fmt.Sprint("my-admin ", route.method, " ", strings.TrimPrefix(route.path, "/api/v1"), " ", w.Code)}
		}
		var got []string
		for _, e := range b.audit {
			got = append(got, fmt.Sprint(e.Who, " ", e.Action, " ", e.Status))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", route.method, target, diff)
		}
	}

	// A client that has gone does not keep its write out of the audit.
	b := newBackend()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask(b, Options{}, "/api/v1/jobs/report/run", "", func(r *http.Request) { *r = *r.WithContext(gone) })
	if len(b.audit) != 1 {
		t.Errorf("%+v", b.audit)
	}

	// A row that cannot be written is in the log, and the caller has an answer.
	b = newBackend()
	b.err = fmt.Errorf("disk: %w", jobs.ErrUnavailable)
	var logged strings.Builder
	s := newAPI(b.backend(), Options{Access: keys, Logger: textLogger(&logged)})
	r := httptest.NewRequest("POST", "http://localhost/", nil)
	done := s.auditing(httptest.NewRecorder(), withCaller(r, caller{Identity: Identity{Name: "my-admin", Role: Admin}}), "/api/v1/jobs/{name}/run")
	done.WriteHeader(http.StatusCreated)
	for _, part := range []string{"audit entry not written", "my-admin", "run", "status=201"} {
		if !strings.Contains(logged.String(), part) {
			t.Errorf("the log lacks %q: %s", part, logged.String())
		}
	}

	// The role admin can read it.
	b = newBackend()
	b.audit = []wire.AuditEntry{{ID: "1", Who: "<script>", Action: "POST /x", Status: 403}}
	w := httptest.NewRecorder()
	r = httptest.NewRequest("GET", "http://localhost/api/v1/audit", nil)
	with(keys.secrets[Admin])(r)
	b.api(secured).ServeHTTP(w, r)
	var got struct{ Items []wire.AuditEntry }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || cmp.Diff(b.audit, got.Items) != "" || strings.Contains(w.Body.String(), "<script>") {
		t.Errorf("%v %s", err, w.Body)
	}
}

// TestCallerIsNamed: the view of a suspended job names the token.
func TestCallerIsNamed(t *testing.T) {
	keys, b := newTokenSet(), newBackend()
	ask(t, b.api(Options{Access: keys}), "POST", "/api/v1/jobs/report/suspend", "", with(keys.secrets[Operator]))
	if diff := cmp.Diff([]string{"suspend report true my-operator@127.0.0.1", "wake []"}, b.changes); diff != "" {
		t.Error(diff)
	}
}

// TestRefusedWhileTheStoreIsDown: a write that the store does not accept, or that is refused meanwhile, is not logged;
// its row, with its object, is written when the store is back.
func TestRefusedWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, b := newTokenSet(), newBackend()
		b.err = fmt.Errorf("disk: %w", jobs.ErrUnavailable)
		var logged strings.Builder
		h := New(b.backend(), Options{Access: keys, Logger: textLogger(&logged)})
		for _, role := range []Role{Viewer, Operator} {
			for _, job := range []string{"report", "backup", "report"} {
				ask(t, h, "POST", "/api/v1/jobs/"+job+"/suspend", "", with(keys.secrets[role]))
			}
		}
		b.mu.Lock()
		b.err, b.audit = nil, nil // what it was told meanwhile it did not keep
		b.mu.Unlock()
		time.Sleep(refusedHold + time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		var got []string
		for _, e := range b.audit {
			got = append(got, fmt.Sprint(e.Who, " ", e.Action, " ", e.Object, " ", e.Status, " ", e.Count))
		}
		slices.Sort(got)
		want := []string{
			"my-operator POST /jobs/{name}/suspend backup 503 1", "my-operator POST /jobs/{name}/suspend report 503 2",
			"my-viewer POST /jobs/{name}/suspend backup 403 1", "my-viewer POST /jobs/{name}/suspend report 403 2",
		}
		if diff := cmp.Diff(want, got); diff != "" || strings.Contains(logged.String(), "audit entry not written") {
			t.Errorf("%s\n%s", diff, &logged)
		}
	})
}
