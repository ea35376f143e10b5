//go:build !fuzz

package api

import (
	"strings"
	"testing"
)

// TestLifeOverSQLite: what a task says of its life is stored and shown, and a refusal that only the store can make names the field.
func TestLifeOverSQLite(t *testing.T) {
	t.Parallel()
	h, _ := overSQLite(t)
	const pool = "/api/v1/pools/mail/tasks"
	id := decode[page](t, ask(t, h, "POST", pool, `{"kind":"welcome","run_at":"2199-12-31T23:59:59Z"}`).Body.String()).Items[0].ID
	for _, test := range []struct {
		method, target, body string
		status               int
		contains             string
	}{
		{"POST", pool, `{"kind":"welcome","expires_at":"2199-12-31T23:59:59.999999Z"}`, 201, `"expires_at":"2199-12-31T23:59:59.999999Z","created_at"`},
		{"POST", pool, `{"kind":"welcome","expires_at":"2020-01-01T00:00:00Z"}`, 422, `must be later than now, which is 2`},
		{"POST", pool, `{"kind":"welcome","expires_at":"2020-01-01T00:00:00Z"}`, 422, `"field":"expires_at"`},
		{"POST", pool, `[{"kind":"welcome"},{"kind":"welcome","expires_at":"2020-01-01T00:00:00Z"}]`, 422, `"field":"[1].expires_at"`},
		{"POST", pool, `[{"kind":"welcome","expires_at":"2020-01-01T00:00:00Z"}]`, 422, `"field":"[0].expires_at"`},
		{"POST", pool, `{"kind":"welcome","idempotency_key":""}`, 422, `"field":"idempotency_key"`},
		{"POST", pool, `{"kind":"welcome","unique":{"for":"0s"}}`, 422, `"field":"unique.for"`},
		{"POST", pool, `{"kind":"welcome","max_attempts":1001,"timeout":"1d","backoff":"1ms"}`, 201, `"max_attempts":1001,"timeout":"24h0m0s","backoff":"1ms","priority"`},
		{"POST", pool, `{"kind":"welcome","max_attempts":null,"timeout":null,"backoff":null}`, 201, `"max_attempts":11,"priority"`},
		{"PATCH", "/api/v1/tasks/" + id, `{"expires_at":"2198-12-31T23:59:59Z"}`, 422, `"field":"expires_at"`},
		{"PATCH", "/api/v1/tasks/" + id, `{"expires_at":"2200-12-31T23:59:59Z"}`, 200, `"expires_at":"2200-12-31T23:59:59Z"`},
		{"PATCH", "/api/v1/tasks/" + id, `{"run_at":"2200-12-31T23:59:59Z"}`, 422, `"field":"run_at"`},
		{"GET", "/api/v1/tasks/" + id, ``, 200, `"expires_at":"2200-12-31T23:59:59Z"`},
		{"PATCH", "/api/v1/tasks/" + id, `{"expires_at":""}`, 200, `"run_at":"2199-12-31T23:59:59Z","created_at"`},
	} {
		if w := ask(t, h, test.method, test.target, test.body); w.Code != test.status || !strings.Contains(w.Body.String(), test.contains) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", test.method, test.target, test.body, w.Code, w.Body, test.status, test.contains)
		}
	}
}
