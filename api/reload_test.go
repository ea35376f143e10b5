package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A reload answers with what has changed; the errors of a configuration are those of its caller, each in a line.
func TestReload(t *testing.T) {
	for _, c := range []struct {
		target, body string
		err          error
		code         int
		answer, did  string
	}{
		{"/api/v1/reload", "", nil, 200, `{"replica":"replica-1","config":3,"governs":true,"jobs":{"added":["report"]}}`, "reload, activate false"},
		{"/api/v1/reload?activate=true", "", nil, 200, `"config":3`, "reload, activate true"},
		{"/api/v1/reload", `{"activate":true}`, nil, 200, `"config":3`, "reload, activate true"},
		{"/api/v1/reload?activate=1x", "", nil, 400, `"field":"activate"`, ""},
		{"/api/v1/reload", `{"activat":true}`, nil, 400, `activat`, ""},
		{"/api/v1/reload", "", fmt.Errorf("%w: %w", jobs.ErrInvalid, errors.New("a.yaml:1:2: no\na.yaml:3:4: nor this")), 422, `a.yaml:1:2: no\na.yaml:3:4: nor this`, ""},
		{"/api/v1/reload", "", jobs.ErrUnavailable, 503, `"unavailable"`, ""},
	} {
		b := newBackend()
		b.err = c.err
		w := ask(t, b.api(Options{}), "POST", c.target, c.body)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.answer) || fmt.Sprint(b.changes) != fmt.Sprint(strings.FieldsFunc(c.did, func(r rune) bool { return r == 0 })) {
			t.Errorf("%s %s: %d %s, and did %q", c.target, c.body, w.Code, w.Body, b.changes)
		}
	}
	b := newBackend()
	w := ask(t, New(Backend{Store: ledger.Sides{API: b}, Replica: b}, Options{}), "POST", "/api/v1/reload", "")
	if w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), `"no_configuration"`) {
		t.Errorf("a program without a file: %d %s", w.Code, w.Body)
	}
}
