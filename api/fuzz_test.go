package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// FuzzEnqueue: any body gets JSON and the right class of status, and an accepted task is what was sent.
func FuzzEnqueue(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `[]`, `[{},{}]`, `{"payload":{"a":[1,"]"]},"kind":"k","run_at":"2026-01-02T03:04:05+01:00","expires_at":"2026-01-03T03:04:05+01:00","max_attempts":3,"timeout":"1m30s","backoff":"2s","priority":-1,"idempotency_key":"k","key":"t","tags":["t"]}`,
		`{"unique":{"by":["kind","payload.a"],"for":"1s","while":"open","on_conflict":"replace"}}`, `[{"unique":{}},{"unique":null}]`,
		`{"payload":1e999}`, `{"payload":"\ud800"}`, `{"kind":"\u0000"}`, `{"a":1}`, "{\"kind\":\"\xff\"}", `{"payload":` + nested(99) + `}`, `{"\u006bind":"k"}`, `[[]]`, `{"payload":"\"}{"}`,
		"\u00a0{}", "{}\v", "[{}]\u2028", "\f",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		b := newBackend()
		w := ask(t, b.api(Options{}), "POST", "/api/v1/pools/mail/tasks", body, header("Content-Type", "application/json"))
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("the answer is not JSON: %s", w.Body)
		}
		switch w.Code {
		case http.StatusCreated:
			if !json.Valid([]byte(body)) {
				t.Error("what is not JSON was enqueued")
			}
		case http.StatusOK:
			t.Error("nothing was enqueued, and no key was used before")
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
			if len(b.changes) > 0 {
				t.Errorf("refused, and done: %v", b.changes)
			}
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// FuzzPath: no method but POST, and no path that is decoded twice, changes anything; none is a 500.
func FuzzPath(f *testing.F) {
	for _, route := range routes {
		f.Add("POST", route.path)
	}
	f.Add("GET", "/api/v1/jobs/%2e%2e/run")
	f.Add("POST", "//api/v1/jobs/report/run")
	f.Add("POST", "/api/v1/jobs/report/run;x")
	f.Fuzz(func(t *testing.T, method, target string) {
		u := strings.TrimLeft(target, "/")
		r, err := http.NewRequest(method, "http://localhost/"+u, nil)
		if err != nil {
			return // not a request
		}
		b := newBackend()
		w := ask(t, b.api(Options{}), "GET", "/", "", func(was *http.Request) { was.Method, was.URL = r.Method, r.URL })
		if w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if len(b.changes) > 0 && (r.Method != http.MethodPost || strings.Contains(r.URL.EscapedPath(), "%25")) {
			t.Errorf("%s %s: %v", method, target, b.changes)
		}
	})
}
