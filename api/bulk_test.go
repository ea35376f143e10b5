//go:build !fuzz

package api

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestBulkOverSQLite: batches are judged by their filter, change tasks, and are in the audit with their number.
func TestBulkOverSQLite(t *testing.T) {
	t.Parallel()
	b := newBackend()
	_, s := overSQLiteWith(t, b)
	h := New(Backend{Store: s, Replica: b, Audit: true}, Options{})
	for range 3 {
		ask(t, h, "POST", "/api/v1/pools/mail/tasks", `{"kind":"welcome","payload":7}`)
	}
	failTasks(t, s.Sides().Replica, "mail")
	for _, test := range []struct {
		target, body string
		status       int
		contains     string
	}{
		{"retry", `{"pool":"mail","dry_run":true}`, 200, `{"matched":3,"done":3,"tasks":[{"id":"`},
		{"retry", `{"pool":"mail","dry_run":true,"limit":1}`, 200, `"error":"user 7 not found"}],"next":"`},
		{"retry", `{"pool":"mail","limit":2}`, 200, `"retried_as":"`},
		{"retry", `{"pool":"mail"}`, 200, `{"matched":3,"done":1,"skipped":[{"reason":"was retried before","count":2,"task_id":"`},
		{"cancel", `{"pool":"mail","state":"pending","key":"none","tag":"none"}`, 200, `{"matched":0,"done":0,"tasks":[]}`},
		{"cancel", `{"pool":"mail"}`, 200, `{"matched":3,"done":3,"tasks":`},
		{"purge", `{"pool":"mail","until":"2026-01-01T00:00:00Z"}`, 200, `"matched":0`},
		{"purge", `{"pool":"mail","state":"cancelled","since":"2026-01-01T00:00:00Z"}`, 200, `"done":3`},
		{"purge", ``, 422, `"field":"pool"`},
		{"retry", `{"ids":[]}`, 422, `"field":"ids"`},
		{"purge", `{"pool":"mail","ids":[]}`, 422, `"message":"names none; leave it out for all tasks of a pool or a job"`},
		{"retry", `{"pool":"mail","state":"running"}`, 422, `"field":"state"`},
		{"retry", `{"pool":"mail","since":"soon"}`, 400, `"field":"since"`},
		{"retry", `{"pool":"mail","cursor":"x"}`, 422, `cursor`},
		{"retry", `{"pool":"mail","limit":501}`, 422, `"field":"limit"`},
		{"retry", `{"pool":"mail","limit":0}`, 422, `"field":"limit"`},
		{"retry", `{"pool":"mail","limit":"1"}`, 400, `"field":"limit"`},
		{"retry", `{"pool":"mail","pools":"mail"}`, 400, `"field":"pools"`},
		{"purge", `{"pool":"mail","force":true}`, 422, `"field":"force"`},
		{"retry", `{"ids":["01a2215c-e1d6-755a-8c05-3dd02985a2ca"],"limit":1}`, 422, `{"error":{"code":"invalid","message":"is of a list; tasks that are named by their ids are one batch","field":"limit"}}`},
		{"purge", `{"pool":"mail","until":"0001-01-01T00:00:00Z"}`, 422, `{"error":{"code":"invalid","message":"year 1 is out of range 1970–2199","field":"until"}}`},
		{"purge", `{"pool":"mail","since":"0001-01-01T00:00:00Z"}`, 422, `"field":"since"`},
		{"purge", `{"pool":"mail","until":""}`, 422, `{"error":{"code":"invalid","message":"is empty; give it a value, or leave it out","field":"until"}}`},
		{"retry", `{"pool":"mail","kind":""}`, 422, `"field":"kind"`},
		{"cancel", `{"pool":"mail","job":""}`, 422, `"field":"job"`},
		{"retry", `{"pool":"mail","tag":null,"until":null,"dry_run":true}`, 200, `"matched":3`},
		{"retry", `{"pool":"nothing"}`, 404, `nothing`},
		{"cancel", `{"job":"nothing"}`, 404, `nothing`},
	} {
		if w := ask(t, h, "POST", "/api/v1/tasks/"+test.target, test.body); w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s %s: %d %s, want %d with %s", test.target, test.body, w.Code, w.Body, test.status, test.contains)
		}
	}
	entries, _, err := s.Sides().Audit.AuditEntries(t.Context(), wire.Page{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]int{}
	for _, e := range entries {
		changed[e.Action] += e.Tasks
	}
	if changed["POST /tasks/retry"] != 3 || changed["POST /tasks/cancel"] != 3 || changed["POST /tasks/purge"] != 3 {
		t.Errorf("the audit has %v", changed)
	}
}
