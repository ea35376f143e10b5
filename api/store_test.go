//go:build !fuzz

// .ci/fuzz leaves this file out: go test -fuzz compiles all that a test links once more, and SQLite takes longer than the inputs.

package api

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// overSQLite is the API over a real store, with one job and two pools, and a replica that only records calls.
func overSQLite(t *testing.T) (http.Handler, *backend) {
	t.Helper()
	b := newBackend()
	h, _ := overSQLiteWith(t, b)
	return h, b
}

// overSQLiteStore is overSQLite with its store.
func overSQLiteStore(t *testing.T) (http.Handler, *store.Store) {
	t.Helper()
	return overSQLiteWith(t, newBackend())
}

func overSQLiteWith(t *testing.T, b *backend) (http.Handler, *store.Store) {
	t.Helper()
	s, _ := onSQLite(t)
	return New(Backend{Store: s, Replica: b}, Options{}), s
}

// onSQLite returns a store with the jobs and pools of a replica, and the session of that.
func onSQLite(t *testing.T) (s *store.Store, session string) {
	t.Helper()
	s, err := store.Open(t.Context(), "sqlite", filepath.Join(t.TempDir(), "test.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err = s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r1", Host: "here", Workers: 4, LockService: "none"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Sides().Replica.Load(t.Context(), session, ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "backup", Hash: "h", Schedule: "s", Next: func(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }}},
		Pools: []ledger.PoolDef{{Name: "default", Hash: "h", MaxAttempts: 1}, {Name: "mail", Hash: "h", MaxAttempts: 11, Retry: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, session
}

type page struct {
	Items []jobs.Task
	Next  string
}

// TestOverSQLite: the real store accepts, finds and returns what the API accepts.
func TestOverSQLite(t *testing.T) {
	t.Parallel()
	h, replica := overSQLite(t)
	const pool = "/api/v1/pools/mail/tasks"

	w := ask(t, h, "POST", pool, `{"payload":{"n":1e400,"big":12345678901234567890123},"kind":"welcome","key":"tenant ü","priority":-100,"run_at":"2199-12-31T23:59:59.999999Z","tags":["a b","ü"]}`, header("Idempotency-Key", "welcome-7"))
	first := decode[page](t, w.Body.String()).Items
	if w.Code != http.StatusCreated || len(first) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	again := ask(t, h, "POST", pool, `{"payload":{"n":1e400,"big":12345678901234567890123},"kind":"welcome","key":"tenant ü"}`, header("Idempotency-Key", "welcome-7"))
	if got := decode[page](t, again.Body.String()).Items; again.Code != http.StatusOK || got[0].ID != first[0].ID {
		t.Errorf("the same key: %d %s", again.Code, again.Body)
	}
	if other := ask(t, h, "POST", pool, `{"payload":2,"kind":"welcome"}`, header("Idempotency-Key", "welcome-7")); other.Code != http.StatusConflict {
		t.Errorf("the same key with another body: %d %s", other.Code, other.Body)
	}
	got := decode[wire.Task](t, ask(t, h, "GET", "/api/v1/tasks/"+first[0].ID, "").Body.String())
	if string(got.Task.Payload) != `{"n":1e400,"big":12345678901234567890123}` || got.Task.RunAt.Year() != 2199 || got.Task.MaxAttempts != 11 || len(got.Task.Tags) != 2 {
		t.Errorf("%+v", got.Task)
	}

	if w := ask(t, h, "POST", pool, list(1000, `{"payload":"`+strings.Repeat("x", 1000)+`"}`)); w.Code != http.StatusCreated {
		t.Fatalf("%d %.300s", w.Code, w.Body)
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		w := ask(t, h, "GET", "/api/v1/tasks?pool=mail&state=pending&limit=400&cursor="+cursor, "")
		p := decode[page](t, w.Body.String())
		for _, task := range p.Items {
			seen[task.ID] = true
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if len(seen) != 1001 {
		t.Errorf("%d tasks in the pages", len(seen))
	}

	for _, test := range []struct {
		method, target, body string
		status               int
		contains             string
	}{
		{"GET", "/api/v1/tasks/" + first[0].ID, "", 200, `"kind":"welcome","key":"tenant ü","state"`},
		{"POST", "/api/v1/pools/nope/tasks", `{}`, 404, "nope"},
		{"POST", "/api/v1/pools/Mail/tasks", `{}`, 404, "Mail"}, // not another spelling of mail
		{"GET", "/api/v1/tasks?cursor=AAAA", "", 400, "cursor"},
		{"GET", "/api/v1/triggers?cursor=dHJpZ2dlcgoxCngKeQ", "", 400, "cursor"},
		{"GET", "/api/v1/tasks/nope", "", 404, "nope"},
		{"GET", "/api/v1/tasks/" + first[0].ID + "/logs", "", 404, "no output"},
		{"GET", "/api/v1/triggers?job=backup&since=1970-01-01T00:00:00Z", "", 200, `{"items":[]}`},
		{"GET", "/api/v1/jobs", "", 200, `"name":"backup"`},
		{"GET", "/api/v1/replicas", "", 200, `{"items":[{"id":"r1","state":"live","host":"here"`},
		{"POST", "/api/v1/jobs/backup/suspend", "", 200, `"suspended":true,"suspended_override":true,"suspended_by":"api:127.0.0.1"`},
		{"POST", "/api/v1/jobs/backup/resume?reset=true", "", 200, `"suspended":false,"next_at"`},
		{"POST", "/api/v1/jobs/nope/suspend", "", 404, "nope"},
		{"POST", "/api/v1/pools/mail/pause", `{}`, 200, `"paused":true,"paused_override":true,"paused_by":"api:127.0.0.1"`},
		{"GET", "/api/v1/pools", "", 200, `"pending":1000,"scheduled":1,"running":0`},
		{"POST", "/api/v1/pools/nope/pause", `{}`, 404, "nope"},
		{"POST", "/api/v1/pools/mail/limits", `{"max_running":5,"rate":"100/s"}`, 200, `"max_running":5,"rate":"100/s","limits_override":{"max_running":5,"rate":"100/s"},"limits_by":"api:127.0.0.1"`},
		{"POST", "/api/v1/pools/mail/limits", `{"burst":20}`, 200, `"max_running":5,"rate":"100/s","burst":20,"limits_override":{"max_running":5,"rate":"100/s","burst":20}`},
		{"GET", "/api/v1/pools", "", 200, `"rate":"100/s","burst":20,"limits_override":{`},
		{"POST", "/api/v1/pools/mail/limits", `{"reset":true}`, 200, `{"name":"mail","kinds":["bye","welcome"],"workers":8,"paused":true,`},
		{"POST", "/api/v1/pools/nope/limits", `{"burst":1}`, 404, "nope"},
		{"POST", "/api/v1/tasks/" + first[0].ID + "/cancel", "", 200, `"key":"tenant ü","state":"cancelled","reason":"cancelled by api:127.0.0.1"`},
		{"POST", "/api/v1/tasks/" + first[0].ID + "/cancel", "", 409, "cancelled"},
		{"POST", "/api/v1/tasks/nope/cancel", "", 404, "nope"},
		{"GET", "/api/v1/tasks?state=cancelled", "", 200, first[0].ID},
	} {
		w := ask(t, h, test.method, test.target, test.body)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s %s: %d %.500s, want %d with %s", test.method, test.target, w.Code, w.Body, test.status, test.contains)
		}
	}
	if told := strings.Join(replica.changes, ", "); told != "wake [mail], wake [mail]"+strings.Repeat(", wake []", 7) {
		t.Errorf("the replica was told: %s", told)
	}
}

// TestStoreGone: a lost database is 503 with its cause, and the process stays live.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	server := servers.NewMySQL(t)
	s, err := store.Open(t.Context(), "mysql", server.DSN("api"), store.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := New(Backend{Store: s, Replica: newBackend()}, Options{})
	if w := ask(t, h, "GET", "/api/v1/pools", ""); w.Code != http.StatusOK {
		t.Errorf("before: %d %s", w.Code, w.Body)
	}
	server.Kill()
	for target, body := range map[string]string{"GET /api/v1/pools": "", "POST /api/v1/pools/mail/tasks": "{}"} {
		method, path, _ := strings.Cut(target, " ")
		if w := ask(t, h, method, path, body); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"code":"unavailable"`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := ask(t, h, "GET", "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("healthz: %d", w.Code)
	}
}
