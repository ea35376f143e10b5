//go:build !fuzz

package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestProgressAndResult: a running task shows its progress, in lists too, and an ended one its result, in lists not.
func TestProgressAndResult(t *testing.T) {
	t.Parallel()
	s, session := onSQLite(t)
	h := New(Backend{Store: s, Replica: newBackend()}, Options{})
	r := s.Sides().Replica
	id := decode[page](t, ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{"kind":"welcome"}`).Body.String()).Items[0].ID
	got, err := r.Claim(t.Context(), ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: "r1", Pools: map[string]ledger.Share{"mail": {Hash: "h", Room: 1}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
		},
		Pool: "mail", ID: "1", Now: func(now time.Time) (time.Time, error) { return now, nil }, Scope: ledger.Scope{Kinds: []string{"welcome"}},
	})
	if err != nil || len(got.Tasks) != 1 {
		t.Fatal(got, err)
	}
	task := got.Tasks[0].Task
	if w := ask(t, h, "GET", "/api/v1/tasks/"+id, ""); strings.Contains(w.Body.String(), "progress") || strings.Contains(w.Body.String(), "result") {
		t.Errorf("before the first report: %s", w.Body)
	}
	if _, err := r.Report(t.Context(), session, []ledger.Progress{{TaskID: id, Token: task.Token, Done: 0.4, Text: "ü <b>"}}); err != nil {
		t.Fatal(err)
	}
	one := decode[wire.Task](t, ask(t, h, "GET", "/api/v1/tasks/"+id, "").Body.String())
	list := decode[page](t, ask(t, h, "GET", "/api/v1/tasks?pool=mail", "").Body.String()).Items
	for _, shown := range []jobs.Task{one.Task, list[0]} {
		if shown.ProgressDone == nil || *shown.ProgressDone != 0.4 || shown.ProgressText != "ü <b>" {
			t.Errorf("shows %+v", shown)
		}
	}
	if w := ask(t, h, "GET", "/api/v1/tasks/"+id, ""); !strings.Contains(w.Body.String(), `"progress":0.4,"progress_text":"`) {
		t.Errorf("in JSON: %s", w.Body)
	}
	value := `{"sent":3,"to":["ü","<b>"],"n":12345678901234567890}`
	if _, err := r.Finish(t.Context(), session, []ledger.Result{{TaskID: id, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Value: []byte(value)}}); err != nil {
		t.Fatal(err)
	}
	w := ask(t, h, "GET", "/api/v1/tasks/"+id, "")
	if one = decode[wire.Task](t, w.Body.String()); w.Code != http.StatusOK || one.ProgressDone != nil || !same(t, one.Result, value) {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
	if w := ask(t, h, "GET", "/api/v1/tasks?pool=mail", ""); strings.Contains(w.Body.String(), "sent") {
		t.Errorf("a list has the result: %s", w.Body)
	}
	for _, body := range []string{`{"progress":0.5}`, `{"progress_text":"x"}`, `{"result":1}`} { // they are the attempt's to say
		if w := ask(t, h, "POST", "/api/v1/pools/mail/tasks", body); w.Code != http.StatusBadRequest && w.Code != http.StatusUnprocessableEntity {
			t.Errorf("enqueue %s: %d %s", body, w.Code, w.Body)
		}
	}
}

// same reports whether two texts are the same JSON, whatever escapes they have.
func same(t *testing.T, a json.RawMessage, b string) bool {
	t.Helper()
	read := func(text string) (v any) {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Error(text, err)
		}
		return v
	}
	x, _ := json.Marshal(read(string(a)))
	y, _ := json.Marshal(read(b))
	return string(x) == string(y)
}
