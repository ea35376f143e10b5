package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestRefusedLimits: a refusal says what to send instead.
func TestRefusedLimits(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                             `there is nothing to set; send max_running, rate, burst, per_key, per_kind or fair, or "reset": true`,
		`{"reset":true,"burst":1}`:                       "clears all limits that were set; send it alone, or leave it out to set some",
		`{"max_running":-1}`:                             "-1 is out of range 0–1000000",
		`{"burst":"5"}`:                                  "must be a whole number",
		`{"per_key":{"max_running":1.5}}`:                "must be a whole number",
		`{"burst":99999999999999999999}`:                 "99999999999999999999 is out of range",
		`{"burst":1000001}`:                              "1000001 is out of range 0–1000000",
		`{"rate":"1/d","burst":1000}`:                    "1000 takes longer than a year to fill at 1/d; use at most 366",
		`{"rate":"0","burst":5}`:                         "has no effect with rate 0; set a rate, as in 50/s, or leave the burst out",
		`{"per_key":{"rate":"0","burst":5}}`:             "has no effect with rate 0; set a rate, as in 50/s, or leave the burst out",
		`{"per_kind":{"a":{"rate":"0","burst":5}}}`:      "has no effect with rate 0; set a rate, as in 50/s, or leave the burst out",
		`{"rate":"fast"}`:                                `"fast" is not a rate; write it as in 50/s, 100/m, 5/h or 20/10s, and 0 for no limit`,
		`{"rate":0}`:                                     `must be a text, as in "50/s", "100/m", "5/h" or "20/10s", and "0" for no limit`,
		`{"order":"key"}`:                                "is not set while the pool runs, as all tasks that wait would have to be put into it in one transaction; change it in the configuration",
		`{"reset":true,"per_key":{"burst":1}}`:           "clears all limits that were set; send it alone, or leave it out to set some",
		`{"per_key":{},"fair":{}}`:                       `there is nothing to set; send max_running, rate, burst, per_key, per_kind or fair, or "reset": true`,
		`{"per_key":3}`:                                  "must be a JSON object",
		`{"per_key":{"max":3}}`:                          `unknown key "max"`,
		`{"per_key":{"rate":1}}`:                         `must be a text, as in "50/s", "100/m", "5/h" or "20/10s", and "0" for no limit`,
		`{"per_key":{"burst":-1}}`:                       "-1 is out of range 0–1000000",
		`{"per_kind":{"a":{"burst":1},"a":{}}}`:          `the key "a" is given twice`,
		`{"per_kind":{"a":{}}}`:                          "sets nothing; send max_running, rate or burst, and 0 for no limit",
		`{"per_kind":{"a":{"rate":"1/d","burst":1000}}}`: "1000 takes longer than a year to fill at 1/d; use at most 366",
		`{"fair":{"weights":{"k":0}}}`:                   "0 is out of range 1–1000",
		`{"fair":{"weights":{"k":"3"}}}`:                 "must be a whole number",
		`{"fair":true}`:                                  "must be a JSON object",
		`{"reset":3}`:                                    `has the wrong form: must be true, or a list of fields such as "rate", "per_key" or "per_kind.KIND.burst"`,
		`{"reset":["per_key.max"]}`:                      `has no field "per_key.max"; name max_running, rate, burst, per_key, per_kind, per_kind.KIND, fair or fair.weights.KEY, or one of those of per_key or per_kind.KIND, as per_key.rate`,
	} {
		w := ask(t, newBackend().api(Options{}), "POST", "/api/v1/pools/mail/limits", body)
		if status := map[bool]int{true: 422, false: 400}[strings.Contains(w.Body.String(), `"invalid"`)]; w.Code != status {
			t.Errorf("%s: %d", body, w.Code)
		}
		if got := decode[wire.Refusal](t, w.Body.String()).Error.Message; got != want {
			t.Errorf("%s: %d %s\nwant %s", body, w.Code, got, want)
		}
	}
}

// TestLimitedBy: what the API has set of the limits is in the list, with its caller, and in the audit.
func TestLimitedBy(t *testing.T) {
	keys, b := newTokenSet(), newBackend()
	h := b.api(Options{Access: keys})
	if w := ask(t, h, "POST", "/api/v1/pools/mail/limits", `{"rate":"100/s"}`, with(keys.secrets[Operator])); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	const want = `"max_running":20,"rate":"100/s","limits_override":{"rate":"100/s"},"limits_by":"my-operator@127.0.0.1"`
	if got := ask(t, h, "GET", "/api/v1/pools", "", with(keys.secrets[Viewer])).Body.String(); !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if len(b.audit) != 1 || b.audit[0].Action != "POST /pools/{name}/limits" || b.audit[0].Object != "mail" || b.audit[0].Status != 200 {
		t.Errorf("%+v", b.audit)
	}
}

// TestLimitsByKey: limits by key and by kind, and resets, reach the store as they were sent; a refusal of the store names the field.
func TestLimitsByKey(t *testing.T) {
	b := newBackend()
	h := b.api(Options{})
	const body = `{"per_key":{"max_running":2,"rate":"0"},"per_kind":{"a":{"burst":3}},"fair":{"weights":{"k":4}},"reset":["rate","per_kind.b"]}`
	if w := ask(t, h, "POST", "/api/v1/pools/mail/limits", body); w.Code != 200 || !slices.ContainsFunc(b.changes, func(s string) bool { return strings.HasPrefix(s, "limit mail "+body) }) {
		t.Errorf("%d %s: %q", w.Code, w.Body, b.changes)
	}
	b.err = fmt.Errorf("store: override pool: %w", &jobs.FieldError{Path: "per_kind.x", Problem: "no kind"})
	if w := ask(t, h, "POST", "/api/v1/pools/mail/limits", body); w.Code != 422 || !strings.Contains(w.Body.String(), `"message":"no kind","field":"per_kind.x"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLimitsAside: what is set aside is in the list, with the reason.
func TestLimitsAside(t *testing.T) {
	b := newBackend()
	b.pools[0].Aside = []wire.LimitAside{{Field: "per_kind", Why: "does not go with fair"}}
	if got := ask(t, b.api(Options{}), "GET", "/api/v1/pools", "").Body.String(); !strings.Contains(got, `"limits_aside":[{"field":"per_kind","why":"does not go with fair"}]`) {
		t.Error(got)
	}
}

// TestPoolsApproximate: counts that are lower bounds are marked.
func TestPoolsApproximate(t *testing.T) {
	b := newBackend()
	b.pools[1].Pending, b.pools[1].Approximate = 10_000, true
	got := ask(t, b.api(Options{}), "GET", "/api/v1/pools", "").Body.String()
	if !strings.Contains(got, `"pending":10000`) || strings.Count(got, `"approximate":true`) != 1 {
		t.Error(got)
	}
}
