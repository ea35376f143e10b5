package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

// If the response to a batch is lost, the message does not claim that it was not enqueued: a repeat could do the work
// twice.
func TestManyWithoutAnAnswer(t *testing.T) {
	for name, last := range map[string]http.HandlerFunc{
		"hung up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a proxy":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"unavailable": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			requests := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests++; requests > 1 {
					last(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"items":[`+strings.Repeat(`{"id":"x"},`, 999)+`{"id":"x"}]}`)
			}))
			defer srv.Close()
			r := &running{url: srv.URL}
			code, _, stderr := r.scheduler(t, strings.Repeat("{}\n", 2500), "tasks", "enqueue", "mail", "--many")
			if code != exitFailed || !strings.Contains(stderr, "Lines 1001 to 2000 may have been enqueued") {
				t.Errorf("%d %q", code, stderr)
			}
		})
	}
}

// Only refusals count as unchanged: a starting replica does nothing yet; any other 5xx may come after the write.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{client.ErrUnreachable, true},
		{&client.Error{Status: http.StatusUnprocessableEntity, Problem: wire.Problem{Code: "invalid"}}, true},
		{&client.Error{Status: http.StatusTooManyRequests, Problem: wire.Problem{Code: "busy"}}, true},
		{&client.Error{Status: http.StatusServiceUnavailable, Problem: wire.Problem{Code: "starting"}}, true},
		{&client.Error{Status: http.StatusServiceUnavailable, Problem: wire.Problem{Code: "unavailable"}}, false},
		{&client.Error{Status: http.StatusBadGateway}, false},
		{io.ErrUnexpectedEOF, false},
	} {
		if got := refused(fmt.Errorf("enqueue: %w", c.err)); got != c.want {
			t.Errorf("%v: refused is %v", c.err, got)
		}
	}
	if refused(errors.New("no answer")) {
		t.Error("an unknown error counts as a refusal")
	}
}
