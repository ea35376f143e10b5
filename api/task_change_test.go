package api

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestUpdateTask: what the body names is changed, and nothing else; a refusal says what to send instead, and changes nothing.
func TestUpdateTask(t *testing.T) {
	const pending = "task-1"
	for body, want := range map[string]struct {
		status      int
		field, says string
		changes     string
	}{
		`{"priority":0}`: {200, "", "", `{"priority":0}`},
		`{"run_at":"2026-01-02T03:04:05+01:00","payload":{"n": 1e400},"tags":["a"]}`: {200, "", "", `{"run_at":"2026-01-02T02:04:05Z","payload":{"n":1e400},"tags":["a"]}`},
		`{"expires_at":"2026-01-02T03:04:05+01:00"}`:                                 {200, "", "", `{"expires_at":"2026-01-02T02:04:05Z"}`},
		`{"expires_at":""}`:                                 {200, "", "", `{"expires_at":"0001-01-01T00:00:00Z"}`},
		`{"expires_at":"never"}`:                            {400, "expires_at", "must be a time as in", ""},
		`{"expires_at":"9999-01-01T00:00:00Z"}`:             {422, "expires_at", "out of range", ""},
		`{"max_attempts":3,"timeout":"90s","backoff":"1d"}`: {200, "", "", `{"max_attempts":3,"timeout":"1m30s","backoff":"24h0m0s"}`},
		`{"max_attempts":0,"timeout":"","backoff":"0s"}`:    {200, "", "", `{"max_attempts":0,"timeout":"0s","backoff":"0s"}`},
		`{"max_attempts":1002}`:                             {422, "max_attempts", "out of range", ""},
		`{"max_attempts":-1}`:                               {422, "max_attempts", "out of range", ""},
		`{"max_attempts":"3"}`:                              {400, "max_attempts", "must be a whole number", ""},
		`{"timeout":"soon"}`:                                {400, "timeout", "", ""},
		`{"timeout":90}`:                                    {400, "timeout", `must be a text such as "90s"`, ""},
		`{"backoff":"400d"}`:                                {400, "backoff", "", ""},
		`{"backoff":"1us"}`:                                 {422, "backoff", "out of range", ""},
		`{"payload":null}`:                                  {200, "", "", `{"payload":null}`},
		`{"tags":[]}`:                                       {200, "", "", `{"tags":[]}`},
		`{}`:                                                {400, "", "there is nothing to change; send run_at, expires_at, priority, payload, tags, max_attempts, timeout or backoff", ""},
		``:                                                  {400, "", "there is nothing to change", ""},
		`{"tags":null}`:                                     {400, "", "there is nothing to change", ""},
		`{"key":"k"}`:                                       {400, "key", "unknown key", ""},
		`{"state":"failed"}`:                                {400, "state", "unknown key", ""},
		`{"priority":1,"priority":2}`:                       {400, "priority", "given twice", ""},
		`{"priority":"1"}`:                                  {400, "priority", "", ""},
		`{"run_at":"soon"}`:                                 {400, "run_at", "must be a time as in", ""},
		`{"run_at":"9999-01-01T00:00:00Z"}`:                 {422, "run_at", "out of range", ""},
		`{"priority":101}`:                                  {422, "priority", "out of range", ""},
		`{"tags":[""]}`:                                     {422, "tags[0]", "must be 1 to", ""},
		`{"payload":"` + strings.Repeat("x", 300_000) + `"}`: {413, "payload", "at most", ""},
	} {
		b := newBackend()
		w := ask(t, b.api(Options{}), "PATCH", "/api/v1/tasks/"+pending, body)
		if len(body) > 100 {
			body = body[:100]
		}
		if w.Code != want.status {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
			continue
		}
		if want.status != 200 {
			if got := decode[wire.Refusal](t, w.Body.String()).Error; got.Field != want.field || !strings.Contains(got.Message, want.says) || len(b.changes) > 0 {
				t.Errorf("%s: %+v, changed %v", body, got, b.changes)
			}
			continue
		}
		if got := strings.Join(b.changes, "; "); got != "update "+pending+" "+want.changes+"; wake [mail]" {
			t.Errorf("%s: %s", body, got)
		}
	}
	for target, status := range map[string]int{"/api/v1/tasks/nope": 404, "/api/v1/tasks/task-2": 409} {
		if w := ask(t, newBackend().api(Options{}), "PATCH", target, `{"priority":1}`); w.Code != status {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestUpdateIsAudited: a change is a write like any other.
func TestUpdateIsAudited(t *testing.T) {
	keys, b := newTokenSet(), newBackend()
	h := b.api(Options{Access: keys})
	if w := ask(t, h, "PATCH", "/api/v1/tasks/task-1", `{"priority":1}`, with(keys.secrets[Operator])); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if len(b.audit) != 1 || b.audit[0].Action != "PATCH /tasks/{id}" || b.audit[0].Object != "task-1" || b.audit[0].Status != 200 {
		t.Errorf("%+v", b.audit)
	}
}
