//go:build !fuzz

package api

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// failTasks has all pending tasks of a pool fail, as a replica does.
func failTasks(t *testing.T, s ledger.Store, pool string) { failTasksWith(t, s, pool, jobs.PauseOn{}) }

// failTasksWith is failTasks in a pool with that PauseOn.
func failTasksWith(t *testing.T, s ledger.Store, pool string, on jobs.PauseOn) {
	t.Helper()
	session, err := s.Join(t.Context(), ledger.Member{Replica: "r" + time.Now().Format("150405.000000"), LockService: "none"})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: "r2", Pools: map[string]ledger.Share{pool: {Hash: "h", Room: 100}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
		},
		Pool: pool, ID: "c", Now: func(database time.Time) (time.Time, error) { return database, nil },
	})
	if err != nil || len(claimed.Tasks) == 0 {
		t.Fatalf("%d tasks, %v", len(claimed.Tasks), err)
	}
	var results []ledger.Result
	for _, is := range claimed.Tasks {
		results = append(results, ledger.Result{
			TaskID: is.Task.ID, Token: is.Task.Token, Verdict: ledger.Ended, State: jobs.StateFailed, Error: "user " + string(is.Task.Payload) + " not found", Code: reason.Error, Task: is.Task, PauseOn: ledger.PauseOn{Pool: pool, PauseOn: on},
		})
	}
	if _, err := s.Finish(t.Context(), session, results); err != nil {
		t.Fatal(err)
	}
}

// TestDeadLettersOverSQLite: groups of failures have all keys that are promised, and wrong parameters are named.
func TestDeadLettersOverSQLite(t *testing.T) {
	t.Parallel()
	h, s := overSQLiteStore(t)
	for _, n := range []string{"7", "4711"} {
		ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{"kind":"welcome","payload":`+n+`}`)
	}
	failTasks(t, s.Sides().Replica, "mail")
	got := decode[wire.List[wire.DeadLetters]](t, ask(t, h, "GET", "/api/v1/dead-letters?pool=mail", "").Body.String()).Items
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	group := got[0].Fingerprint
	for _, test := range []struct {
		target   string
		status   int
		contains string
	}{
		{"/api/v1/dead-letters", 200, `{"items":[{"pool":"mail","kind":"welcome","fingerprint":"` + group + `","state":"failed","reason_code":"error","error":"user 4711 not found","count":2,"first":"20`},
		{"/api/v1/dead-letters?pool=default", 200, `{"items":[]}`},
		{"/api/v1/dead-letters?pool=mail&fingerprint=" + group, 200, `"count":2`},
		{"/api/v1/dead-letters?pool=mail&fingerprint=0123456789abcdef", 200, `{"items":[]}`},
		{"/api/v1/dead-letters?pool=nothing&fingerprint=" + group, 404, `nothing`},
		{"/api/v1/dead-letters?fingerprint=" + group, 400, `"field":"fingerprint"`},
		{"/api/v1/dead-letters?pool=mail&fingerprint=x", 400, `"field":"fingerprint"`},
		{"/api/v1/dead-letters?limit=1", 200, `"next":"`},
		{"/api/v1/dead-letters?pool=nothing", 404, `nothing`},
		{"/api/v1/dead-letters?pool=!", 400, `"field":"pool"`},
		{"/api/v1/dead-letters?limit=501", 400, `"field":"limit"`},
		{"/api/v1/dead-letters?cursor=x", 400, `cursor`},
		{"/api/v1/dead-letters?job=backup", 400, `"field":"job"`},
		{"/api/v1/tasks?pool=mail&fingerprint=" + group, 200, `"fingerprint":"` + group + `"`},
		{"/api/v1/tasks?fingerprint=" + group, 400, `"field":"fingerprint"`},
		{"/api/v1/tasks?pool=mail&fingerprint=" + group + "0", 400, `"field":"fingerprint"`},
	} {
		if w := ask(t, h, "GET", test.target, ""); w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s: %d %s, want %d with %s", test.target, w.Code, w.Body, test.status, test.contains)
		}
	}
}
