package api

import (
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// TestRefusedLimits: a refusal says what to send instead.
func TestRefusedLimits(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                          `there is nothing to set; send max_running, rate, burst, per_key, per_kind or fair, or "reset": true`,
		`{"reset":true,"burst":1}`:    "clears all limits that were set; send it alone, or leave it out to set some",
		`{"max_running":-1}`:          "-1 is out of range 0–1000000",
		`{"burst":1000001}`:           "1000001 is out of range 0–1000000",
		`{"rate":"1/d","burst":1000}`: "1000 takes longer than a year to fill at 1/d; use at most 366",
		`{"rate":"fast"}`:             `"fast" is not a rate; write it as in 50/s, 100/m, 5/h or 20/10s, and 0 for no limit`,
		`{"rate":0}`:                  `must be a text, as in "50/s", "100/m", "5/h" or "20/10s", and "0" for no limit`,
	} {
		w := ask(t, newBackend().api(Options{}), "POST", "/api/v1/pools/mail/limits", body)
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
